"""Policy gradient for masked models: the usual term, but with an estimated log-probability. All models are read under the same masks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from torch import Tensor

from gradus.objectives.aggregation import Average, SequenceMean
from gradus.objectives.ratios import Ratio, TokenRatio
from gradus.objectives.terms import PolicyGradient
from gradus.objectives.trust import Clip, Trust
from gradus.types import UserError
from gradus.types.batch import Batch
from gradus.types.masks import Denoised, Masks, OneStep
from gradus.types.signals import LogProb, Signal, Want
from gradus.types.tally import Tally, tally


@dataclass(frozen=True)
class DenoisedPolicy:
    """`PolicyGradient` with an estimate of log pi under `masks`. The estimate for a token is the sum of its terms over the passes.

    If an update has several optimiser steps, the denominator of the ratio is computed with the weights at the start of the update, under the same masks. So
    the ratio is 1 if the weights are unchanged.
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


def check_against(term: Any) -> None:
    """Raises UserError if the denominator of the ratio contains the log-probabilities from sampling.

    The log-probabilities at sampling belong to the order of unmasking, not to the masks of the estimate.
    """
    if getattr(term.ratio, "against", "old") != "old":
        raise UserError(
            f"{type(term).__name__}: the ratio uses the log-probabilities of the sampling, but the masks of the sampling differ from the masks of this "
            'term; set the field `against` of the ratio to "old"'
        )
