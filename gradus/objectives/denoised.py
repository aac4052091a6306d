"""Policy gradient and KL for masked models. The usual terms are used, but with an estimated log-probability. All models are read under the same masks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from torch import Tensor

from gradus.objectives.aggregation import Average, SequenceMean, averaged
from gradus.objectives.kl import Estimator, kl_estimate
from gradus.objectives.ratios import Ratio, TokenRatio
from gradus.objectives.terms import PolicyGradient
from gradus.objectives.trust import Clip, Trust
from gradus.types import UserError
from gradus.types.batch import Batch
from gradus.types.masks import Denoised, Masks, OneStep
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, Read, Signal, Want
from gradus.types.tally import Tally, tally


@dataclass(frozen=True)
class DenoisedPolicy:
    """`PolicyGradient` with an estimate of log pi under `masks`. The estimate for a token is the sum of its terms over the passes.

    If an update has several optimiser steps, the ratio compares with the weights at the start of the update under the same masks. So the ratio of
    unchanged weights is 1.
    """

    masks: Masks = OneStep()
    ratio: Ratio = TokenRatio()
    trust: Trust = Clip()
    average: Average = SequenceMean()
    coefficient: float = 1.0
    source: str = "policy"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_against(self)

    @cached_property
    def wants(self) -> tuple[Want, ...]:
        return (Denoised(self.masks),)

    @property
    def separable(self) -> bool:
        return self.ratio.separable and self.trust.separable

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        want = Denoised(self.masks)
        old: dict[Want, Tensor] = {LogProb(): batch.old[want].sum(-1)} if want in batch.old else {}
        term = PolicyGradient(self.ratio, self.trust, None, self.average, self.coefficient, self.source)
        logprobs = outputs[want].sum(-1)
        loss, metrics = term.loss({LogProb(): logprobs}, replace(batch, old=old))
        return loss, {**metrics, "estimate": tally(logprobs)}


@dataclass(frozen=True)
class DenoisedKL:
    """coefficient * average of a KL estimate between the policy and a frozen player. Both log-probabilities are estimated under the same masks.

    `ratio` computes the log-ratios from which the KL is estimated: one for each token, or one for each sequence. `moves` is the number of epochs of the update;
    each epoch has other masks.
    """

    masks: Masks = OneStep()
    coefficient: float = 0.01
    estimator: Estimator = "k3"
    player: str = "reference"
    ratio: Ratio = TokenRatio()
    moves: int = 1
    average: Average = SequenceMean()
    source: str = "policy"

    def __post_init__(self) -> None:
        check_ranges(self, moves="[1, inf)")
        check_against(self)

    @property
    def separable(self) -> bool:
        return self.ratio.separable

    @cached_property
    def wants(self) -> tuple[Want, ...]:
        return (Denoised(self.masks),)

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return tuple(Read(player=self.player, reads=Denoised(self.masks, move)) for move in range(self.moves))

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        if batch.move >= self.moves:
            raise UserError(f"the update reached epoch {batch.move + 1}, but DenoisedKL.moves is {self.moves}; set `moves` to the number of epochs of the update")
        reference = batch.signals[self.needs[batch.move]].sum(-1)
        ratio = self.ratio.log_ratio(outputs[Denoised(self.masks)].sum(-1), reference, batch)
        values = kl_estimate(ratio, ratio.detach() * 0, estimator=self.estimator)
        loss = averaged(self.average, values * batch.weight, batch, self.source)
        return self.coefficient * loss, {"kl": tally(values)}


def check_against(term: DenoisedPolicy | DenoisedKL) -> None:
    """Raises UserError if the ratio compares with the log-probabilities from sampling.

    The log-probabilities at sampling belong to the order of unmasking, not to the masks of the estimate.
    """
    if getattr(term.ratio, "against", "old") != "old":
        raise UserError(
            f"{type(term).__name__}: its ratio uses the log-probabilities of the sampling, which belong to other masks than the masks of this "
            "term; set the field `against` of the ratio to old"
        )
