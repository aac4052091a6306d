"""Gives every `Want` access to the values of one forward pass of a language model (see `types.signals.Opened`).

This module has one class for the built-in decoder and one class for models of transformers. A value is computed only when it is used. Layers are counted as in
`transformers`: 0 is the embedding, and i is the output of the first i layers. The output of the last layer, which also has the number -1, is normed, because the
output head reads the normed states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gradus.policies.attention import causal, weights
from gradus.policies.decoder import Decoder
from gradus.policies.divergence import Direction, Other, divergence
from gradus.policies.heads import Heads
from gradus.policies.inputs import Inputs, replaced
from gradus.policies.logprobs import chunk_rows, fresh_logits, logits_logprobs, logits_of, token_rows
from gradus.policies.pack import Packed, embedded, forward, pack, residual
from gradus.policies.rows import take_rows
from gradus.policies.sighted import embedded_with_pictures, pictures
from gradus.policies.transformers_model import Foreign
from gradus.types import Context, UserError


class OpenedDecoder:
    """A packed pass of the built-in decoder. `opens`: the abilities whose values will be read. `trains`: whether the trunk gets gradients.

    `recompute`: as in `pack.forward`. If `recompute` is a number n above 1, the logits of at most one n-th of the actions are in memory at the same time.
    """

    def __init__(
        self,
        trunk: Decoder,
        contexts: Sequence[Context],
        heads: Heads | None,
        *,
        opens: frozenset[str],
        trains: bool = True,
        recompute: int = 0,
        given: Sequence[Inputs | None] | None = None,
        others: Mapping[str, Any] | None = None,
    ) -> None:
        self.trunk, self.contexts, self.heads, self.others = trunk, contexts, heads, others or {}
        self.opens, self.trains, self.recompute, self.given = opens, trains, recompute, given
        self._begun: tuple[int, Tensor] | None = None

    def _trunk(self) -> AbstractContextManager[Any]:
        return torch.set_grad_enabled(torch.is_grad_enabled() and self.trains)

    @property
    def layers(self) -> int:
        return len(self.trunk.layers)

    @cached_property
    def packed(self) -> Packed:
        return pack(self.contexts, self.trunk.device, self.trunk.dtype, self.trunk.config.window)

    @cached_property
    def temperature(self) -> Tensor:
        return temperatures(self.contexts, self.trunk.dtype, self.trunk.device)

    @cached_property
    def _last(self) -> Tensor:
        """Returns the normed hidden states of the rows that predict actions, [U, hidden]."""
        with self._trunk():
            return forward(self.trunk, self.packed, recompute=self.recompute, begun=self._begun or self._shown)

    @cached_property
    def _shown(self) -> tuple[int, Tensor] | None:
        """Returns (0, the input vectors of all rows) if contexts show pictures or have latent inputs. Returns None for text."""
        with self._trunk():
            given = self.given is not None
            x = embedded(self.trunk, self.packed, self.given or ()) if given else embedded_with_pictures(self.trunk, self.packed, self.contexts)
        return None if x is None else (0, x)

    @cached_property
    def _before(self) -> Tensor:
        """Returns the normed hidden states before every action, [A, hidden]."""
        with self._trunk():
            return take_rows(self._last, self.packed.source)

    @cached_property
    def _fused(self) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
        with self._trunk():
            return self._token_rows("entropy" in self.opens)

    @cached_property
    def _asked(self) -> tuple[tuple[str, Direction], ...]:
        """Returns the divergences that will be read, as pairs of a player and a direction."""
        return asked_divergences(self.opens)

    def _token_rows(self, entropy: bool) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
        cap, targets, head = self.trunk.config.logit_cap, self.packed.targets, self.trunk.head_weight
        passes = {name: beside(self.others, name, self.contexts) for name, _ in self._asked}
        others = [Other(partial(their_logits, passes[name], len(head)), direction) for name, direction in self._asked]
        return token_rows(self._before, head, targets, self.temperature, entropy=entropy, cells=self._rows * len(head), cap=cap, others=others)

    @property
    def _rows(self) -> int:
        """Returns the number of actions whose logits are in memory together."""
        most = chunk_rows(len(self.trunk.head_weight))
        return min(most, -(-len(self.packed.targets) // self.recompute)) if self.recompute > 1 else most

    def logprobs(self) -> Tensor:
        return self._fused[0]

    def entropy(self) -> Tensor:
        if self._fused[1] is None:
            with self._trunk():
                self._fused = self._token_rows(True)
        entropy = self._fused[1]
        assert entropy is not None
        return entropy

    def divergence(self, player: str, direction: Direction) -> Tensor:
        return self._fused[2][self._asked.index((player, direction))]

    @torch.no_grad()
    def predicted(self, part: slice) -> Tensor:
        """Returns new logits [a, V] of these actions, at their temperature, without gradient."""
        logits = fresh_logits(self._before[part], self.trunk.head_weight, self.trunk.config.logit_cap)
        return logits.div_(self.temperature[part].to(logits.dtype).unsqueeze(1))

    def hidden(self, layer: int = -1) -> Tensor:
        count = len(self.trunk.layers)
        place = layer_index(layer, count + 1)
        if place == count:
            return self._before
        with self._trunk():
            further = self._begun is None or self._begun[0] <= place
            begun = self._begun if self._begun is not None and further else self._shown
            x = residual(self.trunk, self.packed, place, recompute=self.recompute, begun=begun)
            if further:
                self._begun = (place, x)
            return take_rows(x, self.packed.read.index_select(0, self.packed.source))

    def states(self, layer: int = -1) -> tuple[Tensor, Tensor]:
        every = [_every_token(c) for c in self.contexts]
        whole = OpenedDecoder(self.trunk, every, None, opens=frozenset(), trains=self.trains, recompute=self.recompute, given=self.given)
        return whole.hidden(layer), owners(self.contexts, self.trunk.device)

    def logits(self) -> Iterator[tuple[slice, Tensor]]:
        size = self._rows
        for start in range(0, len(self._before), size):
            part = slice(start, min(start + size, len(self._before)))
            with self._trunk():
                found = logits_of(self._before[part], self.trunk.head_weight, self.temperature[part], self.trunk.config.logit_cap)
            yield part, found

    def reduced(self, reduce: Callable[[slice, Tensor], Tensor]) -> Tensor:
        def piece(part: slice, before: Tensor, head: Tensor) -> Tensor:
            return reduce(part, logits_of(before, head, self.temperature[part], self.trunk.config.logit_cap))

        size, head, out = self._rows, self.trunk.head_weight, []
        before = self._before
        with self._trunk():
            for start in range(0, len(before), size):
                part = slice(start, min(start + size, len(before)))
                again = torch.is_grad_enabled() and len(before) > size
                out.append(
                    checkpoint(piece, part, before[part], head, use_reentrant=False, preserve_rng_state=False)
                    if again
                    else piece(part, before[part], head)
                )
        return torch.cat(out)

    @torch.no_grad()
    def attention(self, layers: Sequence[int]) -> Iterator[Tensor]:
        chosen = [layer_index(layer, len(self.trunk.layers)) for layer in layers]
        for context in self.contexts:
            tokens = torch.from_numpy(context.sequence.astype(np.int64)).to(self.trunk.device)
            rotation, x = self.trunk.rotation(torch.arange(len(tokens), device=self.trunk.device)), self._vectors(context, tokens)
            found: dict[int, Tensor] = {}
            for index, layer in enumerate(self.trunk.layers[: max(chosen) + 1]):
                q, k, v = layer.attn_inputs(x, rotation)
                if index in chosen:
                    found[index] = weights(q, k, layer.rule)
                x = layer.finish(x, causal(q[None], k[None], v[None], layer.rule)[0])
            yield torch.stack([found[index] for index in chosen])

    def _vectors(self, context: Context, tokens: Tensor) -> Tensor:
        given = pictures(self.trunk, context.sequence, context.shown)
        x = self.trunk.embed(tokens)
        return x if given is None else replaced(x, [(given.at, np.arange(len(given.at)), given.rows)])

    def head(self, name: str) -> Tensor:
        assert self.heads is not None
        if self.heads.vocab is not None:
            return self.heads.chosen(self._before, self.packed.targets, name)
        return take_rows(self.heads(self._last, name), self.packed.source)

    def head_row(self, name: str) -> Tensor:
        assert self.heads is not None
        return take_rows(self.heads(self._last, name), self.packed.source)


class OpenedForeign:
    """A pass through transformers. The logits of all actions are in memory together. Hidden states need a second pass."""

    def __init__(
        self, trunk: Foreign, contexts: Sequence[Context], heads: Heads | None, *, trains: bool = True, others: Mapping[str, Any] | None = None
    ) -> None:
        self.trunk, self.contexts, self.heads, self.trains, self.others = trunk, contexts, heads, trains, others or {}

    @property
    def layers(self) -> int:
        return int(self.trunk.inner.config.get_text_config().num_hidden_layers)

    def _trunk(self) -> AbstractContextManager[Any]:
        return torch.set_grad_enabled(torch.is_grad_enabled() and self.trains)

    @cached_property
    def temperature(self) -> Tensor:
        return temperatures(self.contexts, self.trunk.dtype, self.trunk.device)

    @cached_property
    def _logits(self) -> tuple[Tensor, Tensor]:
        with self._trunk():
            return self.trunk.logits(self.contexts)

    @cached_property
    def _found(self) -> tuple[Tensor, Tensor]:
        with self._trunk():
            return logits_logprobs(*self._logits, self.temperature)

    def logprobs(self) -> Tensor:
        return self._found[0]

    def entropy(self) -> Tensor:
        return self._found[1]

    def divergence(self, player: str, direction: Direction) -> Tensor:
        their = beside(self.others, player, self.contexts)

        def apart(part: slice, logits: Tensor) -> Tensor:
            logq = their_logits(their, logits.shape[1], part).to(logits.dtype).log_softmax(-1)
            return divergence(logits.log_softmax(-1), logq, direction)

        return self.reduced(apart)

    @torch.no_grad()
    def predicted(self, part: slice) -> Tensor:
        """Returns new logits [a, V] of these actions, at their temperature, without gradient."""
        logits = self._logits[0][part]
        return (logits if logits.dtype == torch.float64 else logits.float()) / self.temperature[part].unsqueeze(1)

    def hidden(self, layer: int = -1) -> Tensor:
        with self._trunk():
            return self.trunk.hidden(self.contexts, layer)

    def states(self, layer: int = -1) -> tuple[Tensor, Tensor]:
        with self._trunk():
            return self.trunk.hidden([_every_token(c) for c in self.contexts], layer), owners(self.contexts, self.trunk.device)

    def logits(self) -> Iterator[tuple[slice, Tensor]]:
        logits = self._logits[0]
        size = chunk_rows(logits.shape[1])
        for start in range(0, len(logits), size):
            part = slice(start, min(start + size, len(logits)))
            with self._trunk():
                wide = logits[part] if logits.dtype == torch.float64 else logits[part].float()
                rows = wide / self.temperature[part].unsqueeze(1)
            yield part, rows

    def reduced(self, reduce: Callable[[slice, Tensor], Tensor]) -> Tensor:
        return torch.cat([reduce(part, logits) for part, logits in self.logits()])

    @torch.no_grad()
    def attention(self, layers: Sequence[int]) -> Iterator[Tensor]:
        for context in self.contexts:
            found = self.trunk.attention(context)
            chosen = [layer_index(layer, len(found)) for layer in layers]
            yield torch.stack([found[index] for index in chosen])

    def head(self, name: str) -> Tensor:
        assert self.heads is not None
        if self.heads.vocab is None:
            return self.heads(self.hidden(), name)
        tokens = np.concatenate([c.sequence[c.action_positions] for c in self.contexts]).astype(np.int64)
        return self.heads.chosen(self.hidden(), torch.from_numpy(tokens).to(self.trunk.device), name)

    def head_row(self, name: str) -> Tensor:
        assert self.heads is not None
        return self.heads(self.hidden(), name)


def asked_divergences(opens: frozenset[str]) -> tuple[tuple[str, Direction], ...]:
    """Returns the pairs (player, direction) of the abilities `divergence:DIRECTION:PLAYER`, sorted."""
    pairs = (ability.split(":", 2)[1:] for ability in sorted(opens) if ability.startswith("divergence:"))
    return tuple((player, cast("Direction", direction)) for direction, player in pairs)


@torch.no_grad()
def beside(others: Mapping[str, Any], player: str, contexts: Sequence[Context]) -> OpenedDecoder | OpenedForeign:
    """Starts a forward pass of another player over the same contexts, without gradient."""
    return cast("OpenedDecoder | OpenedForeign", others[player].opened(contexts, frozenset()))


def their_logits(opened: OpenedDecoder | OpenedForeign, vocabulary: int, part: slice) -> Tensor:
    """Returns another model's logits [a, vocabulary] of these actions. If the model has more tokens, the logits of its last tokens are left out, because
    these are often only padding of the output layer.

    Raises UserError if the model has fewer tokens.
    """
    logits = opened.predicted(part)
    if logits.shape[1] < vocabulary:
        raise UserError(
            f"the divergence is over {vocabulary} tokens, but the other player has only {logits.shape[1]}; give both players models with the same tokenizer"
        )
    return logits if logits.shape[1] == vocabulary else logits[:, :vocabulary].contiguous()


def temperatures(contexts: Sequence[Context], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns the temperature of every action, [A]. The temperature of greedy actions is 1."""
    each = torch.from_numpy(np.repeat([c.temperature or 1.0 for c in contexts], [c.actions for c in contexts]))
    rows = torch.float64 if dtype == torch.float64 else torch.float32
    return each.to(rows).to(device)  # first the type and then the device, because some devices have no float64


def layer_index(layer: int, count: int) -> int:
    """Returns the layer's number from 0 on. Raises UserError if the model does not have this layer."""
    if not -count <= layer < count:
        raise UserError(f"`layer` is {layer}, but the model has the layers 0 to {count - 1} (or -{count} to -1); choose one of these layers")
    return layer % count


def owners(contexts: Sequence[Context], device: torch.device) -> Tensor:
    """Returns, for every token of every sequence, the index of its context, int64 [T]."""
    return torch.from_numpy(np.repeat(np.arange(len(contexts)), [len(c.sequence) for c in contexts])).to(device)


def _every_token(context: Context) -> Context:
    """Returns a context with an action after every token of the sequence. The states before these actions are the states of all tokens."""
    tokens = np.append(context.sequence, np.int32(0)).astype(np.int32)
    return Context(tokens=tokens, chosen=np.arange(len(tokens)) > 0, temperature=context.temperature, seen=context.shown)
