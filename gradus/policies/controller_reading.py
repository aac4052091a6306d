"""The values of one evaluation of a controller. Each value has one row per action of the contexts, so it has A rows.

A value is computed only if a `Want` reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.controller_bins import check_slots, slots
from gradus.policies.controller_network import LOG_STD, ControllerConfig, ControllerNetwork
from gradus.types import Context, Key, UserError
from gradus.types.contexts import Seen
from gradus.types.spaces import Box, Choice

EDGE = 1 - 1e-6  # given actions are limited to [-EDGE, EDGE], in units of half the range


class OpenedController:
    """Gives every `Want` access to the values of a controller. See `types.signals.Opened` and `types.control`."""

    def __init__(self, network: ControllerNetwork, contexts: Sequence[Context]) -> None:
        self.network, self.config, self.contexts = network, network.config, contexts
        self.like = next(network.parameters())

    @property
    def actions(self) -> int:
        return sum(c.actions for c in self.contexts)

    def logprobs(self) -> Tensor:
        """Returns the log-probability of every action, nats. [A]"""
        if isinstance(self.config.acts, Choice) or self.config.fresh.bins:
            return self._scaled_logits.log_softmax(-1).gather(1, self._choices[:, None])[:, 0]
        mean, std = self._gaussian
        return squashed_logprob(self._raw, mean, std, self._half)

    def entropy(self) -> Tensor:
        """Returns the entropy at every action, nats. [A]

        For a Box without bins, the result is the entropy of the Gaussian before the squashing, because this entropy has a closed form.
        """
        if isinstance(self.config.acts, Choice) or self.config.fresh.bins:
            logprobs = self._scaled_logits.log_softmax(-1)
            return -(logprobs.exp() * logprobs).sum(-1)
        return (self._gaussian[1].log() + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

    def hidden(self, layer: int = -1) -> Tensor:
        """Returns the last hidden layer at every action. [A, width]"""
        return self._of_tokens(self.network.dense.hidden(self._encoded)[0])

    def states(self, layer: int = -1) -> tuple[Tensor, Tensor]:
        raise self._has_no("states of tokens")

    def logits(self) -> Iterator[tuple[slice, Tensor]]:
        raise self._has_no("logits of a vocabulary")

    def attention(self, layers: Sequence[int]) -> Iterator[Tensor]:
        raise self._has_no("attention")

    def _has_no(self, thing: str) -> UserError:
        return UserError(f"a controller has no {thing}; take a recipe that reads log-probabilities, entropy, values or Q")

    def head(self, name: str) -> Tensor:
        """Returns the value of the state before every action. [A]

        With `each_step`, a token of step k of a chunk gets the value of this step.
        """
        values = self.network(self._encoded)[0]
        return self._of_tokens(values, of_step=self.config.fresh.each_step)[:, 0]

    def q(self) -> Tensor:
        """Returns each head's value of every action. [A, heads]"""
        if isinstance(self.config.acts, Choice):
            return self.q_of_all().gather(2, self._choices[:, None, None].expand(-1, self.config.fresh.heads, 1))[..., 0]
        return self._q_at(self.stream("action"))

    def q_of_all(self) -> Tensor:
        """Returns each head's value of every choice. [A, heads, n]"""
        return self.network(self._encoded).transpose(0, 1)

    def q_of_candidates(self, name: str) -> Tensor:
        """Returns each head's value of the actions in the stream `name`. [A, heads, n]

        The stream is [A, n, d + 1]; the last number of a row is not read.
        """
        return self._q_of(self.stream(name)[..., :-1])

    def q_of_uniform(self, count: int) -> Tensor:
        """Returns each head's value of `count` uniform actions, and the log-density of these actions in a last row. [A, heads + 1, count]"""
        values = self._q_of(self._middle + self._half * (2 * self._draws("uniform", Key.uniform, count) - 1))
        density = -(2 * self._half).log().sum()
        return torch.cat([values, density.expand(len(values), 1, count)], 1)

    def _q_of(self, candidates: Tensor) -> Tensor:
        """Returns each head's value of the actions `candidates` [A, n, d]. [A, heads, n]"""
        count, several = candidates.shape[:2]
        encoded = self._encoded[:, None].expand(-1, several, -1).flatten(0, 1)
        values = self.network(encoded, self._unit(candidates.flatten(0, 1)))
        return values[..., 0].unflatten(1, (count, several)).transpose(0, 1)

    def q_slope(self, reduce: Literal["least", "mean"]) -> Tensor:
        """Returns the derivative of the heads' smallest or mean value with respect to the action. [A, d], without gradient"""
        with torch.enable_grad():
            action = self.stream("action").requires_grad_()
            values = self._q_at(action)
            whole = (values.min(1).values if reduce == "least" else values.mean(1)).sum()
            return torch.autograd.grad(whole, action)[0]

    def drawn(self) -> tuple[Tensor, Tensor]:
        """Draws an action of the policy for every row. Returns the actions [A, d] and their log-probabilities [A], both with gradient."""
        return self._drawn

    @cached_property
    def _drawn(self) -> tuple[Tensor, Tensor]:
        mean, std = self._gaussian
        raw = mean + std * self._noise("drawn")
        return self._middle + self._half * raw.tanh(), squashed_logprob(raw, mean, std, self._half)

    def drawn_several(self, count: int) -> Tensor:
        """Draws `count` actions for every row. Each action is followed by its log-probability. [A, count, d + 1]"""
        mean, std = (t[:, None] for t in self._gaussian)
        raw = mean + std * self._noise("several", count)
        logprobs = squashed_logprob(raw, mean, std, self._half)
        return torch.cat([self._middle + self._half * raw.tanh(), logprobs[..., None]], -1)

    def number(self) -> Tensor:
        """Returns the number that the player learns (`outputs="number"`), repeated for every action. [A]"""
        return self.network.number.repeat(self.actions)  # a copy: only the caller decides whether it has a gradient

    def stream(self, name: str) -> Tensor:
        """Returns a stream of all contexts, in the network's dtype. An action of several steps (a chunk) is one flat row.

        Raises UserError if a context with actions lacks the stream.
        """
        if not all(name in c.streams for c in self.contexts if c.actions):
            raise UserError(
                f'the controller reads the stream "{name}", but these transitions do not have this stream; learn from the transitions of a '
                "TransitionReplay"
            )
        rows = _joined([c.streams[name] for c in self.contexts if c.actions])
        flat = rows.reshape(len(rows), -1) if name in ("action", "raw") else rows
        return torch.tensor(flat, dtype=self.like.dtype, device=self.like.device)

    @cached_property
    def _encoded(self) -> Tensor:
        if self.config.fresh.kind == "gru":
            return self._remembered()
        return self.network.encoded(torch.cat([self._numbers(name) for name in range(len(self.config.shown))], -1))

    def _numbers(self, place: int) -> Tensor:
        """Returns the last row of one named array before every action, flat. [A, size]"""
        rows = _joined([rows_before(seen_named(c, self.config, place), self._asked(c)) for c in self.contexts if c.actions])
        return as_inputs(self.config, place, rows, self.like)

    def _remembered(self) -> Tensor:
        """Returns the state of a gru before every action. The hidden layers read this state. [A, width]"""
        sequences, places = [], []
        for c in self.contexts:
            columns = [seen_named(c, self.config, i) for i in range(len(self.config.shown))]
            sequences.append(torch.cat([as_inputs(self.config, i, s.rows, self.like) for i, s in enumerate(columns)], -1))
            places.append(np.searchsorted(columns[0].at, self._asked(c)) - 1)
        padded = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        out = self.network.encoded(padded)
        return torch.cat([out[i, torch.from_numpy(at)] for i, at in enumerate(places)])

    @cached_property
    def _scaled_logits(self) -> Tensor:
        logits = self.network(self._encoded)[0]
        if self.config.fresh.bins:
            logits = self._of_tokens(logits, of_number=True)
        return logits / self._temperature

    def _asked(self, context: Context) -> np.ndarray:
        """Returns the positions at which the network is computed: the position of the first token of every action."""
        positions = context.action_positions
        return positions if self._slots is None else positions[slots(positions) == 0]

    @cached_property
    def _slots(self) -> np.ndarray | None:
        """Returns the index of every token within its action, int64 [A]; None if every action is one token."""
        found = [slots(c.action_positions) for c in self.contexts if c.actions]
        joined = _joined(found) if found else np.zeros(0, np.int64)
        return joined if joined.any() or self.config.tokens > 1 or self.config.fresh.each_step else None

    def _of_tokens(self, rows: Tensor, *, of_number: bool = False, of_step: bool = False) -> Tensor:
        """Gives every token [A] its part of the row [N, outputs] of its action. The part is the whole row, or the outputs of the token's number or step."""
        if self._slots is None:
            return rows
        each = self.config.actions if of_number else self.config.chunk if of_step else 1
        if of_number or of_step:
            check_slots(self._slots, self.config)
        inside = self._slots if of_number else self._slots // (self.config.actions // self.config.chunk) if of_step else np.zeros_like(self._slots)
        index = (np.cumsum(self._slots == 0) - 1) * each + inside
        return F.embedding(torch.from_numpy(index).to(rows.device), rows.reshape(len(rows) * each, -1))

    @cached_property
    def _gaussian(self) -> tuple[Tensor, Tensor]:
        mean, std = gaussian(self.network(self._encoded)[0])
        return mean, std * self._temperature

    @property
    def _temperature(self) -> Tensor | float:
        """Returns the temperature of every action [A, 1], or 1 for all. Greedy choices (0) have the log-probabilities of temperature 1."""
        given = [c.temperature or 1.0 for c in self.contexts]
        if all(t == 1.0 for t in given):
            return 1.0
        rows = np.repeat(given, [c.actions for c in self.contexts])
        return torch.tensor(rows, dtype=self.like.dtype, device=self.like.device)[:, None]

    @property
    def _choices(self) -> Tensor:
        tokens = _joined([c.tokens[c.chosen] for c in self.contexts if c.actions])
        return torch.tensor(tokens, dtype=torch.int64, device=self.like.device)

    @property
    def _raw(self) -> Tensor:
        if all("raw" in c.streams for c in self.contexts if c.actions):
            return self.stream("raw")
        return self._unit(self.stream("action")).clamp(-EDGE, EDGE).atanh()

    def _q_at(self, action: Tensor) -> Tensor:
        return self.network(self._encoded, self._unit(action))[..., 0].T

    def _unit(self, action: Tensor) -> Tensor:
        """Maps an action to [-1, 1]: -1 is the lower bound of each number, 1 the upper bound."""
        return (action - self._middle) / self._half

    @cached_property
    def _middle(self) -> Tensor:
        return middle_and_half(self.config, self.like)[0]

    @cached_property
    def _half(self) -> Tensor:
        return middle_and_half(self.config, self.like)[1]

    def _noise(self, name: str, *several: int) -> Tensor:
        """Draws standard normal numbers. The stream `key` of every context gives the keys. [A, *several, d]"""
        return self._draws(name, Key.normal, *several)

    def _draws(self, name: str, draw: Callable[..., np.ndarray], *several: int) -> Tensor:
        """Draws numbers. The stream `key` of every context gives the keys. [A, *several, d]"""
        if not all("key" in c.streams for c in self.contexts if c.actions):
            raise UserError(
                "the controller draws actions with the random key of each transition, but these transitions have no key; learn from the "
                "transitions of a TransitionReplay"
            )
        shape = (*several, self.config.actions)
        pieces = [draw(Key(int(c.streams["key"][0])).fold(name), c.actions, *shape) for c in self.contexts if c.actions]
        return torch.tensor(_joined(pieces), dtype=self.like.dtype, device=self.like.device)


def gaussian(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Maps outputs [N, 2 d] to mean and deviation before the squashing, [N, d] each. An output of 0 gives a deviation of 1."""
    mean, free = outputs.chunk(2, -1)
    low, high = LOG_STD
    centre = math.atanh(-(high + low) / (high - low))
    return mean, (low + 0.5 * (high - low) * ((free + centre).tanh() + 1)).exp()


def squashed_logprob(raw: Tensor, mean: Tensor, std: Tensor, half: Tensor) -> Tensor:
    """Computes log p(a) [...] of the action a = middle + half tanh(raw) from raw, mean and std [..., d]; `raw` is Gaussian.

    The result is the sum over dimensions of log N(raw) - log(half (1 - tanh(raw)^2)). The code uses log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)),
    because the right side is exact even if tanh rounds to 1. Reference: Haarnoja et al., arXiv:1801.01290, eq. 21.
    """
    normal = -0.5 * ((raw - mean) / std).square() - std.log() - 0.5 * math.log(2 * math.pi)
    squash = 2 * (math.log(2) - raw - F.softplus(-2 * raw)) + half.log()
    return (normal - squash).sum(-1)


def middle_and_half(config: ControllerConfig, like: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the middle and half the range of every number of an action, repeated for every step of a chunk. [chunk * d]"""
    assert isinstance(config.acts, Box)
    return _middle_and_half(config.acts, like.dtype, like.device)


@cache
def _middle_and_half(acts: Box, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    low, high = (torch.tensor(bound, dtype=dtype, device=device).repeat(acts.chunk) for bound in (acts.low, acts.high))
    return (low + high) / 2, (high - low) / 2


def seen_named(context: Context, config: ControllerConfig, place: int) -> Seen:
    """Returns the values of an array that the network reads. Raises UserError if the context shows no array of this name and shape."""
    due = config.shown[place]
    columns = context.shown
    for seen in columns:
        if seen.name == due.name and seen.rows.shape[1:] == due.shape:
            return seen
    given = ", ".join(f"{s.name} {list(s.rows.shape[1:])}" for s in columns) or "no array"
    raise UserError(
        f"the controller reads {due.name} {list(due.shape)}, but the context shows {given}; train the controller in the environment for which "
        "it was made"
    )


def newest_row(context: Context, at: int, config: ControllerConfig, place: int) -> np.ndarray:
    """Returns the last row of a named array before token `at`.

    The search goes back from the newest piece of the context, so a long context takes little time.
    """
    due, line, limit = config.shown[place], context, at
    while True:
        first = 0 if line.parent is None else line.parent[1]
        for seen in reversed(line.seen):
            if seen.name == due.name and seen.rows.shape[1:] == due.shape and (before := int(np.searchsorted(seen.at + first, limit))):
                return seen.rows[before - 1]
        if line.parent is None:
            seen_named(context, config, place)  # raises an error if the context shows no such array at all
            raise UserError("an action of a controller has no observation before it; begin its context with an observation (Policy.opening)")
        line, limit = line.parent[0], min(limit, first)


def rows_before(seen: Seen, positions: np.ndarray) -> np.ndarray:
    """Returns, for every position, the last row before this position."""
    if len(seen.at) == len(positions) and (seen.at < positions).all() and (seen.at[1:] > positions[:-1]).all():
        return seen.rows
    places = np.searchsorted(seen.at, positions) - 1
    if len(places) and places.min() < 0:
        raise UserError("an action of a controller has no observation before it; begin its context with an observation (Policy.opening)")
    return seen.rows[places]


def as_inputs(config: ControllerConfig, place: int, rows: np.ndarray, like: Tensor) -> Tensor:
    """Maps rows [N, ...] to inputs [N, size]. Pixels are scaled to [0, 1]."""
    flat = torch.tensor(rows.reshape(len(rows), -1), dtype=like.dtype, device=like.device)
    return flat / 255 if config.shown[place].pixels else flat


def _joined(pieces: Sequence[np.ndarray]) -> np.ndarray:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
