"""Token rules make the distribution of the next token from the logits of one or several players."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from gradus.types import Frozen, UserError
from gradus.types.ranges import check_ranges

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Delta:
    """Adds scale * (logits of `plus` - logits of `minus`) to the logits of `base`."""

    plus: str
    minus: str
    scale: float = 1.0
    base: str = "policy"
    names_players: ClassVar[tuple[str, ...]] = ("plus", "minus", "base")

    @property
    def players(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.base, self.plus, self.minus)))

    def logits(self, rows: Mapping[str, Tensor], so_far: Sequence[np.ndarray]) -> Tensor:
        return rows[self.base] + self.scale * (rows[self.plus] - rows[self.minus])


@dataclass(frozen=True, eq=False)
class GivenRow:
    """A token rule that draws from one given row of log-probabilities [V] at temperature `temperature`, and does not depend on the tokens."""

    row: np.ndarray
    temperature: float = 1.0
    player: str = "policy"

    @property
    def players(self) -> tuple[str, ...]:
        return (self.player,)

    def logits(self, rows: Mapping[str, Tensor], so_far: Sequence[np.ndarray]) -> Tensor:
        import torch

        found = rows[self.player]
        return (torch.from_numpy(self.row).to(found) * self.temperature).expand(len(found), -1)


def log_mean_exp_of_chance(chance_logits: Tensor, *, eta: float) -> Tensor:
    """Computes log E[exp(z / eta)] without overflow, for z in {0, 1} with p = P(z = 1) = sigmoid(x); x is `chance_logits`.

    The result is log(1 + p (exp(1 / eta) - 1)) = logsumexp(x + 1 / eta, 0) - logsumexp(x, 0).
    """
    import torch

    return torch.nn.functional.softplus(chance_logits + 1 / eta) - torch.nn.functional.softplus(chance_logits)


@dataclass(frozen=True)
class GuidedByQ:
    """Adds Q / eta to the logits of `base`. The head `head` of `player` gives Q, one number per token of the vocabulary.

    With `form` "chance", the head is the logit of the probability of reward z = 1, and Q = eta log E[exp(z / eta)]. With "mean", the head is the same,
    and Q = E[z]. With "value", the head is Q itself. If `top` is not 0, only the `top` tokens that are most likely under `base` can be drawn.
    """

    player: str = "value"
    eta: float = 0.1
    top: int = 0  # number of most likely tokens that can be drawn; 0: all tokens
    head: str = "q"
    form: Literal["chance", "mean", "value"] = "chance"
    base: str = "policy"
    names_players: ClassVar[tuple[str, ...]] = ("player", "base")

    def __post_init__(self) -> None:
        check_ranges(self, eta="(0, inf)", top="[0, inf)")

    @property
    def players(self) -> tuple[str, ...]:
        return (self.base, self.player)

    @property
    def heads(self) -> Mapping[str, str]:
        return {self.player: self.head}

    def logits(self, rows: Mapping[str, Tensor], so_far: Sequence[np.ndarray]) -> Tensor:
        base, head = rows[self.base], rows[self.player]
        if self.form == "chance":
            bonus = log_mean_exp_of_chance(head, eta=self.eta)
        else:
            bonus = (head.sigmoid() if self.form == "mean" else head) / self.eta
        guided = base + bonus.to(base.dtype)
        if 0 < self.top < base.shape[-1]:
            floor = base.topk(self.top, -1).values[:, -1:]
            guided = guided.masked_fill(base < floor, -math.inf)
        return guided


@dataclass(frozen=True)
class MixtureOfModels:
    """Mixes the distributions of the players: log sum_k w_k softmax(logits of player k). The weights w_k are divided by their sum."""

    weights: Frozen[float]  # player -> weight; this rule draws the samples of the first player

    def __post_init__(self) -> None:
        if not self.weights or any(not 0 <= w < math.inf for w in self.weights.values()) or sum(self.weights.values()) <= 0:
            raise UserError(
                f"MixtureOfModels: the weights are {dict(self.weights)}; give each player a number of at least 0, and at least one player a "
                "number above 0"
            )

    @property
    def players(self) -> tuple[str, ...]:
        return tuple(self.weights)

    def logits(self, rows: Mapping[str, Tensor], so_far: Sequence[np.ndarray]) -> Tensor:
        import torch

        whole = sum(self.weights.values())
        return torch.stack([rows[n].log_softmax(-1) + math.log(w / whole) for n, w in self.weights.items() if w > 0]).logsumexp(0)


@dataclass(frozen=True)
class Rounded:
    """Rounds the log-probabilities of a player to multiples of `step` nats. So this rule imitates a sampling engine of lower precision than the update."""

    step: float = 0.5
    player: str = "policy"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, step="(0, inf)")

    @property
    def players(self) -> tuple[str, ...]:
        return (self.player,)

    def logits(self, rows: Mapping[str, Tensor], so_far: Sequence[np.ndarray]) -> Tensor:
        return (rows[self.player].log_softmax(-1) / self.step).round() * self.step


@dataclass(frozen=True)
class Banned:
    """Excludes token sequences: a token that would complete one of them cannot be drawn.

    Each of `words` is banned as a sequence of tokens, both with and without a space before it. Only new tokens count, not the tokens of the prompt.
    """

    words: tuple[str, ...] = ()
    sequences: tuple[tuple[int, ...], ...] = ()
    player: str = "policy"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        if (not self.words and not self.sequences) or not all(self.words) or not all(self.sequences):
            raise UserError(
                f"Banned has the words {self.words} and the sequences {self.sequences}; give at least one word or sequence, and no empty word "
                "or sequence"
            )

    @property
    def players(self) -> tuple[str, ...]:
        return (self.player,)

    def bound(self, encode: Callable[[str], list[int]]) -> Banned:
        """Returns the rule with its words as token sequences."""
        found = [tuple(encode(text)) for word in self.words for text in (word, f" {word}")]
        return replace(self, words=(), sequences=tuple(dict.fromkeys([*self.sequences, *(f for f in found if f)])))

    def logits(self, rows: Mapping[str, Tensor], so_far: Sequence[np.ndarray]) -> Tensor:
        found = rows[self.player].clone()
        for i, tokens in enumerate(so_far):
            ends = [s[-1] for s in self.sequences if len(s) == 1 or tuple(tokens[-(len(s) - 1) :].tolist()) == s[:-1]]
            found[i, ends] = -math.inf
        return found
