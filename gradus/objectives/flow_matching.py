"""Terms on finished samples of a flow generator. The generator's flow-matching error replaces log-probabilities.

For each sample x_0, a key draws `draws` pairs of a time t and noise e. A pair gives the point x_t = (1 - t) x_0 + t e. The error of the pair is the mean over
dimensions of (v(x_t, t) - (e - x_0))^2. A `Likeness` computes the surrogate log-probability of a pair from the error and t. If the error rises, the surrogate
log-probability falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from gradus.objectives.aggregation import Average, SequenceMean, averaged
from gradus.objectives.returned import check_losses, check_rows
from gradus.objectives.trust import Clip, Trust
from gradus.types.batch import Batch
from gradus.types.signals import MatchingError, MatchingTime, Signal, Want
from gradus.types.tally import Tally, check_same_shape, merge, tally


class Likeness(Protocol):
    """Computes the surrogate log-probability of a pair, up to a constant, from the pair's error (with gradient) and its time t."""

    def logprob(self, error: Tensor, time: Tensor) -> Tensor: ...


def likened(likeness: Likeness, error: Tensor, time: Tensor) -> Tensor:
    """Returns the values [A, draws] that `likeness` computes. Raises UserError if the values have another shape or no gradient."""
    logprob = likeness.logprob(error, time)
    check_rows(likeness, "logprob", logprob, error.shape, "pair", of=error)
    return logprob


@dataclass(frozen=True)
class Weighted:
    """-t^power * error. With power 0, all times have equal weight. With power 1 or 2, noisy times (large t) have more weight."""

    power: float = 0.0

    def logprob(self, error: Tensor, time: Tensor) -> Tensor:
        return -time.pow(self.power) * error


@dataclass(frozen=True)
class Robust:
    """-t * error^power / power. The size of the slope, t * error^(power - 1), is smaller for a larger error, so outliers do not dominate."""

    power: float = 0.25  # in (0, 1]
    floor: float = 1e-10  # this number is added to the error, because the error may be 0

    def logprob(self, error: Tensor, time: Tensor) -> Tensor:
        return -time * (error + self.floor).pow(self.power) / self.power


@dataclass(frozen=True)
class MatchedPolicy:
    """The policy term with one ratio per pair: exp(lp - lp_old) at the same (t, e), where lp is the surrogate log-probability.

    The loss of an action is the mean over its pairs.
    """

    draws: int = 6  # pairs (t, e) per sample; the times t are stratified
    likeness: Likeness = Robust()
    trust: Trust = Clip(1.0, 1.0)
    average: Average = SequenceMean()
    coefficient: float = 1.0
    source: str = "policy"
    needs: ClassVar[tuple[Signal, ...]] = ()

    @cached_property
    def wants(self) -> tuple[Want, ...]:
        return (MatchingError(self.draws), MatchingTime(self.draws))

    @property
    def separable(self) -> bool:
        return self.trust.separable

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        error, time = outputs[MatchingError(self.draws)], outputs[MatchingTime(self.draws)].detach()
        check_same_shape(error=error, time=time)
        old = batch.old.get(MatchingError(self.draws), error.detach())
        new, before = (likened(self.likeness, of, time) for of in (error, old))
        log_ratio = new - before
        judged = [check_losses(self.trust, self.trust.losses(column, batch.advantages, batch), column) for column in log_ratio.unbind(1)]
        losses = torch.stack([losses for losses, _ in judged], 1).mean(1) * batch.weight
        loss = averaged(self.average, losses, batch, self.source)
        seen = {"ratio": tally(log_ratio.detach().exp()), "matching_error": tally(error)}
        return self.coefficient * loss, {**merge(*(metrics for _, metrics in judged)), **seen}
