"""A vision-language model that runs through `transformers`, one sequence at a time.

The model's own processor makes the pixels and the placeholders.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradus.policies.loading import weight_files
from gradus.policies.rows import take_rows
from gradus.policies.transformers_model import Foreign, read_out
from gradus.types import Context, Seen, UserError
from gradus.types.media import digest_of

_TYPES = "mm_token_type_ids"  # the input that is 1 at the placeholders of pictures


class ForeignEyes(Foreign):
    """A model of `transformers` for text and pictures, with its processor."""

    def __init__(self, inner: Any, processor: Any) -> None:
        super().__init__(inner)
        self.processor = processor
        self._counts: dict[str, int] = {}

    def __deepcopy__(self, memo: Any) -> ForeignEyes:
        import copy

        return ForeignEyes(copy.deepcopy(self.inner, memo), self.processor)

    @cached_property
    def mark(self) -> int:
        """Returns the placeholder token."""
        config = self.inner.config
        return int(getattr(config, "image_token_id", None) or config.image_token_index)

    def count(self, picture: np.ndarray) -> int:
        """Returns the number of placeholder tokens for a picture uint8 [H, W, 3]."""
        size = digest_of("size", np.array(picture.shape))
        if size not in self._counts:
            text = self.processor.tokenizer.convert_ids_to_tokens(self.mark)
            self._counts[size] = int((self.tokens(text, [picture]) == self.mark).sum())
        return self._counts[size]

    def tokens(self, text: str, pictures: Sequence[np.ndarray]) -> np.ndarray:
        """Returns the int32 tokens of a rendered text with one placeholder per picture. In the tokens, a picture has `count(picture)` placeholders."""
        made = self.processor(text=[text], images=list(pictures), add_special_tokens=False)
        return np.array(made["input_ids"][0], np.int32)

    def _rows(self, contexts: Sequence[Context], layer: int | None) -> tuple[Tensor, Tensor]:
        if not any(context.things for context in contexts):
            return super()._rows(contexts, layer)
        rows, targets = [], []
        for context in contexts:
            if context.actions:
                tokens, at = torch.from_numpy(context.sequence.astype(np.int64)), torch.from_numpy(context.action_positions)
                out = self.inner(**self.given(context), output_hidden_states=layer is not None, use_cache=False)
                rows.append(take_rows(read_out(out, layer)[0], (at - 1).to(self.device)))
                targets.append(tokens.index_select(0, at))
        return torch.cat(rows), torch.cat(targets).to(self.device)

    def given(self, context: Context) -> dict[str, Tensor]:
        return self._inputs(context.sequence, context.shown)

    def begin_shown(self, tokens: np.ndarray, shown: Sequence[Seen]) -> tuple[Tensor, Any]:
        """Does the same as `begin`, for a prompt that shows pictures."""
        out = self.inner(**self._inputs(tokens, shown), use_cache=True)
        return out.logits[0, -1], out.past_key_values

    def _inputs(self, tokens: np.ndarray, shown: Sequence[Seen]) -> dict[str, Tensor]:
        things = sorted(((int(at), row) for seen in shown for at, row in zip(seen.at, seen.rows, strict=True)), key=lambda thing: thing[0])
        inputs: dict[str, Tensor] = {"input_ids": torch.from_numpy(tokens.astype(np.int64))[None]}
        if things:
            made = self.processor.image_processor(images=[row for _, row in things], return_tensors="pt")
            inputs |= {name: value for name, value in made.items() if name in self._known and isinstance(value, Tensor)}
        if _TYPES in self._known:
            inputs[_TYPES] = (inputs["input_ids"] == self.mark).long()
        return {name: value.to(self.device) for name, value in inputs.items()}

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.inner.forward).parameters)


def reads_pictures(model_type: object) -> bool:
    """Whether transformers has a model of this type for text and pictures."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as names

    return model_type in names


def load_foreign_eyes(folder: Path, *, dtype: torch.dtype, device: torch.device | str) -> ForeignEyes:
    """Loads the model and the processor in a folder by transformers. Raises UserError if the model or the processor cannot be read."""
    weight_files(folder)
    from transformers import AutoModelForImageTextToText, AutoProcessor

    safe = {"trust_remote_code": False, "local_files_only": True}
    try:
        read: Any = AutoModelForImageTextToText.from_pretrained
        inner, report = read(str(folder), dtype=dtype, output_loading_info=True, use_safetensors=True, **safe)
        processor = AutoProcessor.from_pretrained(str(folder), **safe)
    except Exception as error:  # hundreds of kinds of models raise many types of errors
        said = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(
            f'model folder "{folder}" cannot be read by transformers as a model of text and pictures: {said}; if a package is missing, '
            "install it; otherwise take another model"
        ) from None
    if missing := sorted(report["missing_keys"]):
        raise UserError(f'model folder "{folder}": tensor {missing[0]} is missing from its safetensors files; copy the model again')
    return ForeignEyes(inner.to(device), processor)
