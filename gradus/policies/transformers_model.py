"""Runs the causal language models that the built-in decoder does not implement through `transformers`. In training, forward passes are right-padded and
do not share prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradus.policies.loading import weight_files
from gradus.policies.rows import take_rows
from gradus.types import Context, UserError

_UNLIMITED = 1 << 20  # context length of models whose configuration has no limit


class Foreign(nn.Module):
    """A model of `transformers` with the interface for rollout and update. The model is always in evaluation mode, so there is no dropout."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner.eval()

    @property
    def dtype(self) -> torch.dtype:
        return self.inner.dtype

    @property
    def device(self) -> torch.device:
        return self.inner.device

    @property
    def context_length(self) -> int:
        """Returns the largest number of tokens in a sequence."""
        config = self.inner.config.get_text_config()
        return next((n for f in ("max_position_embeddings", "n_positions") if (n := getattr(config, f, None))), _UNLIMITED)

    def train(self, mode: bool = True) -> Foreign:
        return super().train(False)

    def logits(self, contexts: Sequence[Context]) -> tuple[Tensor, Tensor]:
        """Returns the logits before every action [A, vocab], and the actions' tokens int64 [A], in order of the contexts."""
        return self._rows(contexts, None)

    def hidden(self, contexts: Sequence[Context], layer: int = -1) -> Tensor:
        """Returns the hidden states before every action, [A, hidden].

        `layer`: 0 means the embedding, i the output of layer i, and -1 the output of the last layer. Raises UserError for a layer that the model does not have.
        """
        return self._rows(contexts, layer)[0]

    def _rows(self, contexts: Sequence[Context], layer: int | None) -> tuple[Tensor, Tensor]:
        acting = [c for c in contexts if c.actions]
        length = max(len(c.sequence) for c in acting)
        tokens = torch.zeros(len(acting), length, dtype=torch.long)
        rows, targets = [], []
        for i, c in enumerate(acting):
            sequence = torch.from_numpy(c.sequence.astype("int64"))
            tokens[i, : len(sequence)] = sequence
            at = torch.from_numpy(c.action_positions)
            rows.append(i * length + at - 1)
            targets.append(sequence.index_select(0, at))
        # The padding is after the sequence, and no token of the sequence reads it. So it is not masked: else a padding token further from the
        # sequence than a window would see nothing, and the eager attention of transformers makes NaN of such a row in float64.
        tokens = tokens.to(self.device)
        out = self.inner(input_ids=tokens, attention_mask=torch.ones_like(tokens), output_hidden_states=layer is not None, use_cache=False)
        return take_rows(read_out(out, layer).flatten(0, 1), torch.cat(rows).to(self.device)), torch.cat(targets).to(self.device)

    def given(self, context: Context) -> dict[str, Tensor]:
        """Returns the inputs of the model for one whole sequence."""
        return {"input_ids": torch.from_numpy(context.sequence.astype(np.int64)).unsqueeze(0).to(self.device)}

    def attention(self, context: Context) -> Sequence[Tensor]:
        """Returns the attention weights of every layer, [heads, T, T]. Raises UserError for a model without attention weights."""
        before = self.inner.config._attn_implementation
        self.inner.set_attn_implementation("eager")
        try:
            found = self.inner(**self.given(context), use_cache=False, output_attentions=True).attentions
        finally:
            self.inner.set_attn_implementation(before)
        if not found or any(layer is None for layer in found):
            raise UserError(f"{type(self.inner).__name__} has no attention weights; take a model with softmax attention")
        return [layer[0] for layer in found]

    def begin(self, tokens: np.ndarray) -> tuple[Tensor, Any]:
        """Returns the logits [vocab] of the token after `tokens`, and the cache for the next call of `advance`."""
        return self._step(torch.from_numpy(tokens.astype(np.int64)), None)

    def advance(self, state: Any, token: int) -> tuple[Tensor, Any]:
        """Returns the logits [vocab] after one more token, and the cache for the next call. `state` must not be used again."""
        return self._step(torch.tensor([token]), state)

    def every_logits(self, tokens: np.ndarray) -> Tensor:
        """Returns the logits [n - 1, vocab] after every token except the last."""
        sequence = torch.from_numpy(tokens.astype(np.int64)).unsqueeze(0).to(self.device)
        return self.inner(input_ids=sequence, use_cache=False).logits[0, :-1]

    def _step(self, tokens: Tensor, past: Any) -> tuple[Tensor, Any]:
        out = self.inner(input_ids=tokens.unsqueeze(0).to(self.device), past_key_values=past, use_cache=True)
        return out.logits[0, -1], out.past_key_values


def read_out(out: Any, layer: int | None) -> Tensor:
    """If `layer` is None, returns the logits of an output, else the states of this layer. Raises UserError for a layer that the model does not have."""
    if layer is None:
        return out.logits
    count = len(out.hidden_states)
    if not -count <= layer < count:
        raise UserError(f"`layer` is {layer}, but the model has the layers 0 to {count - 1} (or -{count} to -1); choose one of these layers")
    return out.hidden_states[layer]


def load_foreign(folder: Path, *, dtype: torch.dtype, device: torch.device | str) -> Foreign:
    """Loads a model folder with the package transformers.

    Raises UserError if the folder has no causal language model, or if the weights are incomplete.
    """
    weight_files(folder)  # before the import of transformers: gives a clear error for a folder without safetensors
    from transformers import AutoModelForCausalLM

    read: Any = AutoModelForCausalLM.from_pretrained
    safe = {"trust_remote_code": False, "use_safetensors": True, "local_files_only": True}
    try:
        inner, report = read(str(folder), dtype=dtype, output_loading_info=True, **safe)
    except Exception as error:  # configurations of hundreds of models raise many types
        said = _first_line(error).rstrip(".")
        raise UserError(
            f'model folder "{folder}" cannot be read by transformers as a causal language model: {said}; take another model, or fix config.json'
        ) from None
    missing = sorted(report["missing_keys"])
    if missing:
        raise UserError(f'model folder "{folder}": tensor {missing[0]} is missing from its safetensors files; copy the model again')
    return Foreign(inner.to(device))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
