"""More readers: each is a `Want` that reduces logits, hidden states or attention to one row per action.

`Read(reads=...)` reads a `Want` without gradient, as a `Signal`. All readers use the temperature of the context. "Before" an action means the position from
which the action
is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gradus.types.attention import waad
from gradus.types.contexts import Context
from gradus.types.errors import UserError
from gradus.types.keys import Key
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Want


@dataclass(frozen=True)
class MaxProb(Want):
    """The probability of the most likely token. [A]"""

    opens: ClassVar[frozenset[str]] = frozenset({"logits"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.reduced(lambda part, logits: (logits.amax(-1) - logits.logsumexp(-1)).exp())


@dataclass(frozen=True)
class DivergenceFrom(Want):
    """The KL divergence between the policy p and another player q over the whole vocabulary, in nats. "reverse": KL(p || q). "forward": KL(q || p). [A]

    The other player reads the same contexts and gets no gradient. Only the logits of one chunk of actions are in memory at a time.
    """

    player: str = "teacher"
    direction: Literal["reverse", "forward"] = "reverse"

    def __post_init__(self) -> None:
        if self.direction not in ("reverse", "forward"):
            raise UserError(f'DivergenceFrom.direction is "{self.direction}"; it must be "reverse" or "forward"')

    @property
    def needed(self) -> frozenset[str]:
        return frozenset({f"divergence:{self.direction}:{self.player}"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.divergence(self.player, self.direction)


@dataclass(frozen=True)
class LogProbRow(Want):
    """The log-probabilities of all tokens of the vocabulary, in nats. [A, V]"""

    opens: ClassVar[frozenset[str]] = frozenset({"logits"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.reduced(lambda part, logits: logits.log_softmax(-1))


@dataclass(frozen=True)
class LogSumExp(Want):
    """log of the sum over the vocabulary of exp(logit / temperature). If the logits are action values, the result is the soft value. [A]"""

    opens: ClassVar[frozenset[str]] = frozenset({"logits"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.reduced(lambda part, logits: logits.logsumexp(-1))


@dataclass(frozen=True)
class MeanOverVocabulary(Want):
    """The mean of log p over all V tokens of the vocabulary, in nats. [A]"""

    compared: ClassVar[bool] = True
    opens: ClassVar[frozenset[str]] = frozenset({"logits"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.reduced(lambda part, logits: logits.mean(-1) - logits.logsumexp(-1))


@dataclass(frozen=True)
class SelfCertainty(Want):
    """KL(uniform || p) = -mean over all V tokens of log(V p), in nats. It is 0 if p is uniform.

    Kang et al., arXiv:2502.18581, eq. 5. [A]
    """

    opens: ClassVar[frozenset[str]] = frozenset({"logits"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        def certainty(part: slice, logits: Tensor) -> Tensor:
            return logits.logsumexp(-1) - logits.mean(-1) - torch.log(logits.new_tensor(logits.shape[-1]))

        return opened.reduced(certainty)


@dataclass(frozen=True)
class EntropyShare(Want):
    """The entropy over all V tokens as a share of its largest possible value: H / log V, in [0, 1]. [A]"""

    opens: ClassVar[frozenset[str]] = frozenset({"logits"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        def share(part: slice, logits: Tensor) -> Tensor:
            logs = logits.log_softmax(-1)
            return -(logs.exp() * logs.masked_fill(logs == -torch.inf, 0.0)).sum(-1) / max(math.log(logits.shape[-1]), 1e-12)

        return opened.reduced(share)


@dataclass(frozen=True)
class LogProbsOf(Want):
    """The log-probabilities of candidate tokens, in nats. The stream `stream` [A, n] contains the numbers of the tokens. [A, n]"""

    stream: str = "candidates"
    compared: ClassVar[bool] = True
    opens: ClassVar[frozenset[str]] = frozenset({"logits"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        candidates = torch.cat([self._of(context) for context in opened.contexts if context.actions])

        def picked(part: slice, logits: Tensor) -> Tensor:
            return logits.gather(-1, candidates[part].to(logits.device)) - logits.logsumexp(-1, keepdim=True)

        return opened.reduced(picked)

    def _of(self, context: Context) -> Tensor:
        rows = context.streams.get(self.stream)
        if rows is None or rows.ndim != 2 or rows.dtype.kind not in "iu":
            there = "none" if rows is None else f"{rows.dtype} of shape {list(rows.shape)}"
            raise UserError(
                f"LogProbsOf reads whole numbers of shape [A, n] from the stream {self.stream}, but a context has {there}; let the rollout "
                "write this stream"
            )
        return torch.from_numpy(rows.astype("int64"))


@dataclass(frozen=True)
class After:
    """A view that moves every action one token later, so the row of an action is read after the action. `Viewed(Value("q"), After())` is the value of a state
    and the action taken in it.

    The token after the last action may be any token, because the model does not read this token. Streams and log-probabilities stay with their actions.
    """

    later: ClassVar[bool] = True

    def of(self, context: Context, key: Key) -> Context:
        extra = np.zeros(1, np.int32)
        chosen = np.concatenate([np.zeros(1, bool), context.chosen])
        return replace(context, tokens=np.concatenate([context.tokens, extra]), chosen=chosen)


@dataclass(frozen=True)
class Hidden(Want):
    """The hidden states at the position before each action, [A, d].

    `pool` "mean": every row is the mean over the context's actions. "last": every row is the row of the context's last action. "none": each action
    has its own row.
    """

    layer: int = -1  # 0: the embedding; i: the output of layer i; -1: the input of the output head
    pool: Literal["none", "mean", "last"] = "none"
    opens: ClassVar[frozenset[str]] = frozenset({"hidden"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        rows = opened.hidden(self.layer)
        if self.pool == "none":
            return rows
        counts = [context.actions for context in opened.contexts if context.actions]
        one = [piece.mean(0) if self.pool == "mean" else piece[-1] for piece in rows.split(counts)]
        return torch.cat([row.expand(count, -1) for row, count in zip(one, counts, strict=True)])


class OfAttention(Protocol):
    """Reduces the attention weights of one context to one row per action."""

    def of(self, attention: Tensor, context: Context) -> Tensor:
        """Returns [A] or [A, ...] from attention weights [layers, heads, T, T]. Row t contains the weights of position t on the positions 0 to t."""
        ...


@dataclass(frozen=True)
class LookBack:
    """The distance, in tokens, over which an action's token t looks back: sum_s a[t, s] min(t - s, window), averaged over layers and heads. [A]"""

    window: int = 10

    def __post_init__(self) -> None:
        check_ranges(self, window="[1, inf)")

    def of(self, attention: Tensor, context: Context) -> Tensor:
        return waad(attention.mean((0, 1)), torch.from_numpy(context.action_positions).to(attention.device), window=self.window)


@dataclass(frozen=True)
class AttentionStat(Want):
    """A statistic of attention weights, without gradient.

    The reader processes one context at a time, so it needs memory for layers x heads x T x T numbers. [A, ...]
    """

    layers: tuple[int, ...] = (-1,)  # numbers of layers, counted from 0; -1: the last layer
    reduce: OfAttention = LookBack()
    opens: ClassVar[frozenset[str]] = frozenset({"attention"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        pairs = zip(opened.attention(self.layers), opened.contexts, strict=True)
        return torch.cat([self.reduce.of(attention, context) for attention, context in pairs if context.actions])


@dataclass(frozen=True)
class LastLayer(Want):
    """The input of the output head, then the probabilities of the `top` most likely tokens, then these tokens. [A, d + 2 top]

    With `action`, the first of these tokens is the action of the row. If the vocabulary is smaller than `top`,
    the last entries have probability 0 and token -1. The gradient of log p with respect to the logits can be computed from these numbers. The input of the
    head and the probabilities have gradients.
    """

    top: int = 10
    action: bool = False
    opens: ClassVar[frozenset[str]] = frozenset({"hidden", "logits"})

    def __post_init__(self) -> None:
        check_ranges(self, top="[1, inf)")

    def rows(self, opened: Opened, key: Key) -> Tensor:
        taken = torch.from_numpy(np.concatenate([c.sequence[c.action_positions] for c in opened.contexts if c.actions]).astype(np.int64))

        def largest(part: slice, logits: Tensor) -> Tensor:
            logs, few = logits - logits.logsumexp(-1, keepdim=True), min(self.top, logits.shape[-1])
            order = logs.detach().scatter(1, taken[part].to(logits.device).unsqueeze(1), torch.inf) if self.action else logs
            tokens = order.topk(few, -1).indices
            chances, rest = logs.gather(1, tokens).exp(), (0, self.top - few)
            return torch.cat([pad(chances, rest), pad(tokens, rest, value=-1).to(logits.dtype)], -1)

        probabilities = opened.reduced(largest)
        return torch.cat([opened.hidden().to(probabilities.dtype), probabilities], -1)


@dataclass(frozen=True)
class HeadGradient(Want):
    """The gradient of log pi(y) with respect to the weights of the head, as its two factors g and h, without gradient. [A, 1 + 2 n + d] A row contains n,
    then n entries of g = e_y - pi, then the tokens of these entries, then h. The number n is `top`, or the size of the vocabulary if the vocabulary is
    smaller. The entries belong to the
    sampled token y and to the most likely other tokens.
    """

    top: int = 64
    opens: ClassVar[frozenset[str]] = frozenset({"hidden", "logits"})

    def __post_init__(self) -> None:
        check_ranges(self, top="[1, inf)")

    def rows(self, opened: Opened, key: Key) -> Tensor:
        said = torch.from_numpy(np.concatenate([c.sequence[c.action_positions] for c in opened.contexts if c.actions]).astype(np.int64))
        entries = opened.reduced(lambda part, logits: self.of(logits.detach(), said[part].to(logits.device)))
        return torch.cat([entries, opened.hidden().detach().to(entries.dtype)], -1)

    def of(self, logits: Tensor, said: Tensor) -> Tensor:
        """Returns n, the entries of g and their tokens, [a, 1 + 2 n], from logits [a, V] and the sampled tokens [a]."""
        probabilities, count = logits.softmax(-1), min(self.top, logits.shape[-1])
        ranks = probabilities.scatter(-1, said[:, None], 2.0)  # the sampled token is always the first
        tokens = ranks.topk(count, -1).indices
        g = (tokens == said[:, None]).to(logits) - probabilities.gather(-1, tokens)
        return torch.cat([torch.full_like(g[:, :1], count), g, tokens.to(logits.dtype)], -1)


def head_gradients(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the entries of g [A, n], their tokens [A, n] and h [A, d] from rows [A, 1 + 2 n + d] of `HeadGradient`."""
    n = int(rows[0, 0])
    return rows[:, 1 : 1 + n], rows[:, 1 + n : 1 + 2 * n], rows[:, 1 + 2 * n :]
