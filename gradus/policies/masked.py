"""A masked diffusion language model as a policy: a decoder without causal order, which fills in hidden tokens.

An answer begins as mask tokens after the prompt. Each step replaces one or more mask tokens, until no mask token is left. The actions of a context are the
tokens of the answer, in the order of the text. The stream `order` contains the step at which each token was filled in. The stream `key` contains the key of the
sample.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.policies.config import DecoderConfig, decoder_config, read_json
from gradus.policies.config_json import config_json
from gradus.policies.decoder import Decoder
from gradus.policies.expert_files import from_files
from gradus.policies.loading import check_folder, fill, read_weights, save_weights, state_dict
from gradus.policies.micro import micro_batches
from gradus.policies.reading import check_offered, read
from gradus.policies.tokenizer import Tokenizer, load_tokenizer
from gradus.policies.unmasking import Canvas, scores, unmasked
from gradus.types import Context, Ended, Frozen, Key, UserError, prompt_context, told_context
from gradus.types.masks import Masks, Unmask
from gradus.types.signals import Want
from gradus.types.spaces import Action, Observation, Space, Text

KIND = "gradus_masked"
_OTHER = 0xFFFF  # part of the keys of given answers, so that these keys differ from the keys of sampled answers


@dataclass(frozen=True)
class MaskedConfig:
    """The configuration of a decoder without causal order, and the id of the mask token."""

    decoder: DecoderConfig
    mask: int


class Masked:
    """A bidirectional decoder as a policy.

    A finished answer contains no mask token, because the logit of this token is left out of every distribution.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"text"})
    can: ClassVar[frozenset[str]] = frozenset({"denoised", "text", "unmasking"})

    def __init__(self, config: MaskedConfig, network: Decoder, tokenizer: Tokenizer | None = None) -> None:
        self.config, self.network, self.tokenizer = config, network, tokenizer

    @classmethod
    def fresh(cls, config: MaskedConfig, key: Key = Key(), tokenizer: Tokenizer | None = None, dtype: torch.dtype = torch.float32) -> Masked:
        """Makes a model with weights that `key` draws."""
        return cls(config, Decoder(config.decoder).initialise(key).to(dtype), tokenizer)

    @classmethod
    def load(cls, folder: str | Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Masked:
        """Loads the model in a folder. Raises UserError with the file if the folder is missing, malformed or of another kind."""
        path = check_folder(folder)
        config = read_config(path / "config.json")
        with torch.device("meta"):
            network = Decoder(config.decoder)
        fill(network, from_files(read_weights(path, device), config.decoder, path), path, dtype)
        return cls(config, network, load_tokenizer(path))

    def save(self, folder: str | Path) -> None:
        """Writes config.json, model.safetensors and the tokenizer's files."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        save_weights(state_dict(self.network), path)
        fields = {"model_type": KIND, "mask_token_id": self.config.mask, "decoder": json.loads(config_json(self.config.decoder, self.network.dtype))}
        (path / "config.json").write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
        if self.tokenizer is not None:
            self.tokenizer.save(path)

    def clone(self) -> Masked:
        """Returns a copy with its own weights, all of which can be trained."""
        made = copy.copy(self)
        made.network = copy.deepcopy(self.network).requires_grad_(True)
        made.network.zero_grad(set_to_none=True)
        return made

    @property
    def context_length(self) -> int:
        """Returns the largest number of tokens in a sequence."""
        return self.config.decoder.context

    @property
    def end_tokens(self) -> tuple[int, ...]:
        return self.config.decoder.end_tokens

    def acts(self, space: Space) -> bool:
        """Whether the model can act in the space. A masked model can write text."""
        return isinstance(space, Text)

    def opening(self, prompt: Observation) -> Context:
        """Returns the prompt as a context. The hidden tokens are added when an answer is drawn.

        The prompt is raw text, or messages in the form of the chat template with the start of the assistant's turn.
        """
        return prompt_context(self._tokenizer().tokens(prompt))  # type: ignore[arg-type]

    def follow(self, observation: Observation, after: Context) -> Context:
        """Raises UserError: a masked model reads in both directions, so the tokens of the first turn would also attend to a second turn."""
        raise UserError("a masked model gives one answer and takes no further turns; take a task without an environment, or a causal language model with --model")

    def told(self, action: Action) -> Context:
        """Returns a given answer as a context to append: its text, and the end token if the model has one."""
        if not isinstance(action, str):
            raise UserError(f"a masked model got an action of type {type(action).__name__}; its actions must be text")
        return told_context([*self._tokenizer().encode(action, False), *self.end_tokens[:1]])

    def said(self, context: Context, since: int) -> str:
        """Returns the text from token `since` on, up to the first end token."""
        return self.text(context.sequence[since:])

    def text(self, tokens: Sequence[int] | np.ndarray) -> str:
        """Returns the text of tokens up to the first end token, without special tokens."""
        return self._tokenizer().text([int(t) for t in tokens][: _until_end(tokens, self.end_tokens)])

    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise UserError("this masked model has no tokenizer; save a tokenizer.json in the model folder")
        return self.tokenizer

    def act(self, asked: Sequence[Any]) -> list[Context]:
        """Draws one answer per request.

        An answer has `sampling.limit` tokens, or fewer if the context is too short. An answer does not depend on the other answers.

        `request.how` describes how the answer is unmasked; None means `Unmask()`. Raises UserError for stop strings, because an answer is not written from left
        to right.
        """
        if any(a.sampling.stops for a in asked):
            raise UserError("sampling.stops works only for answers that are written from left to right, but this model is a masked model; leave sampling.stops out")
        room = [min(a.sampling.limit, self.context_length - a.at) for a in asked]
        canvases = [
            Canvas(a.parent.sequence[: a.at], n, a.sampling, a.key, getattr(a.request, "how", None) or Unmask()) for a, n in zip(asked, room, strict=True)
        ]
        with torch.no_grad():
            filled = unmasked(self.network, self.config.mask, canvases)
        return [self._answered(a, *rows) for a, rows in zip(asked, filled, strict=True)]

    def _answered(self, ask: Any, tokens: np.ndarray, logprobs: np.ndarray, order: np.ndarray) -> Context:
        """Returns the context of an answer. The tokens after the answer's first end token are not actions."""
        count = _until_end(tokens, self.end_tokens)
        ended = count < len(tokens)
        actions = min(count + 1, len(tokens))
        return Context(
            tokens=tokens.astype(np.int32),
            chosen=np.arange(len(tokens)) < actions,
            logprobs=logprobs[:actions].astype(np.float32),
            versions=np.full(actions, ask.version, np.int32),
            temperature=ask.sampling.temperature,
            streams=Frozen(order=order[:actions].astype(np.int32), key=np.full(actions, ask.key.value, np.uint64)),
            parent=(ask.parent, ask.at),
            ended=Ended.STOP if ended or count == len(tokens) else Ended.LENGTH,
        )

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key | None = None) -> dict[Any, Tensor]:
        """Returns, for each `Want`, a row per action. `key` draws the masks. Raises UserError for a `Want` that the model does not offer."""
        check_offered(wants, self.can, "a masked model")
        return read(OpenedMasked(self, contexts), wants, key or Key())

    def micro_batches(self, contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
        """Returns micro-batches as indices of contexts. A micro-batch has at most `max_tokens` tokens, or only one longer context."""
        return micro_batches(contexts, max_tokens, shared=False)


class OpenedMasked:
    """Passes over answers in which some tokens are hidden.

    Each context has its own passes, so the rows of a context do not depend on the other contexts.
    """

    def __init__(self, model: Masked, contexts: Sequence[Context]) -> None:
        self.model, self.contexts = model, contexts

    def denoised(self, masks: Masks, key: Key) -> Tensor:
        """Returns factor * log p at temperature 1 for every action in each pass. The number is 0 if the pass does not hide the action. [A, K]"""
        return torch.cat([self._of(context, masks, key) for context in self.contexts if context.actions])

    def _of(self, context: Context, masks: Masks, key: Key) -> Tensor:
        network, mask = self.model.network, self.model.config.mask
        hidden, factors = masks.draw(context.actions, key.fold("shared"), key.fold("own", name(context)))
        check_masks(masks, hidden, factors, context.actions)
        at = torch.from_numpy(context.action_positions).to(network.device)
        said = torch.from_numpy(context.sequence.astype(np.int64)).to(network.device)
        shown = said.clone()
        shown[int(at[-1]) + 1 :] = mask  # tokens after the end would show the place of the end
        covered = torch.from_numpy(hidden).to(network.device)
        rows = shown.repeat(len(hidden), 1)
        rows[:, at] = torch.where(covered, mask, said[at])
        states = network.hidden(rows).index_select(1, at)  # [K, A, hidden]
        logprobs = scores(network, states, mask).log_softmax(-1)
        chosen = logprobs.gather(-1, said[at].expand(len(hidden), -1)[..., None])[..., 0]
        return (torch.where(covered, chosen, 0.0) * torch.from_numpy(factors).to(chosen)).T


def name(context: Context) -> int:
    """Returns the key of a sample, or the digest of the tokens of a given answer."""
    if "key" in context.streams:
        return int(context.streams["key"][0])
    return Key(_OTHER).fold(context.beginning(len(context.sequence)).hex()).value


def check_masks(masks: Masks, hidden: Any, factors: Any, actions: int) -> None:
    """Raises UserError unless `masks` drew an array of booleans and an array of numbers, each [K, A]."""
    shapes = (getattr(hidden, "shape", None), getattr(factors, "shape", None))
    if shapes[0] is None or shapes[0] != shapes[1] or len(shapes[0]) != 2 or shapes[0][1] != actions or hidden.dtype != np.bool_:
        raise UserError(
            f"{type(masks).__name__}.draw returned arrays of shapes {shapes[0]} and {shapes[1]} for {actions} actions; "
            f"it must return (hidden bool [K, {actions}], factors float [K, {actions}])"
        )


def _until_end(tokens: Sequence[int] | np.ndarray, ends: tuple[int, ...]) -> int:
    """Returns the number of tokens before the first end token."""
    return next((i for i, t in enumerate(tokens) if int(t) in ends), len(tokens))


def read_config(path: Path) -> MaskedConfig:
    """Reads the configuration of a masked model. Raises UserError for a missing or wrong field, and Unsupported for a field without an implementation. The
    error names the field."""
    fields = dict(read_json(path))
    if fields.get("model_type") != KIND:
        raise UserError(f'{path} describes a model of type "{fields.get("model_type")}", but a masked model has the type "{KIND}"; choose another model')
    mask, inner = fields.get("mask_token_id"), fields.get("decoder")
    if isinstance(mask, bool) or not isinstance(mask, int) or not isinstance(inner, dict):
        raise UserError(f"{path} needs `mask_token_id` (a token id) and `decoder` (the fields of a decoder's config.json); save the model again")
    try:
        decoder = decoder_config(inner)
    except UserError as error:
        raise UserError(f"{path}, decoder: {str(error).removeprefix('config.json: ')}") from None
    if decoder.window is not None:
        raise UserError(f"{path}: `sliding_window` is {decoder.window}, but a masked model has no window; set `sliding_window` to null")
    if not 0 <= mask < decoder.vocab_size:
        raise UserError(f"{path}: `mask_token_id` is {mask}; it must be a token of the model, from 0 to {decoder.vocab_size - 1}")
    return MaskedConfig(replace(decoder, causal=False), mask)
