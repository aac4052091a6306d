"""Estimators of KL(policy || reference) from samples of the policy, and the KL term of an objective."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
from torch import Tensor

from gradus.objectives.aggregation import Average, SequenceMean, TokenMean, averaged
from gradus.objectives.terms import Weight, factored, needs_of_weight
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.readers import DivergenceFrom
from gradus.types.signals import LogProb, LogProbs, Signal, Want
from gradus.types.tally import Tally, check_same_shape, tally

Estimator = Literal["k1", "k2", "k3"]


def kl_estimate(logprobs: Tensor, reference_logprobs: Tensor, *, estimator: Estimator) -> Tensor:
    """Returns an estimate of KL(pi || pi_ref) for each action, in nats. With d = log pi_ref - log pi: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - d - 1.

    The values of k1 and k3 are unbiased. The expected gradient of k2 is the gradient of the KL. The value of k3 is never negative. Reference: Schulman,
    Approximating KL Divergence (2020); GRPO, arXiv:2402.03300, eq. 4 (k3).
    """
    check_same_shape(logprobs=logprobs, reference_logprobs=reference_logprobs)
    d = reference_logprobs - logprobs
    if estimator == "k1":
        return -d
    if estimator == "k2":
        return d.square() / 2
    if estimator == "k3":
        return torch.expm1(d) - d  # expm1 keeps the digits near d = 0
    raise ValueError(f'unknown KL estimator "{estimator}"; known: k1, k2, k3')


@dataclass(frozen=True)
class KL:
    """coefficient * average of a KL estimate between the policy and a frozen player."""

    coefficient: float = 0.04
    estimator: Estimator = "k3"
    player: str = "reference"
    average: Average = SequenceMean()
    source: str = "policy"
    weight: Weight | None = None
    separable: ClassVar[bool] = True
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return (LogProbs(player=self.player), *needs_of_weight(self.weight))

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        values = kl_estimate(outputs[LogProb()], batch.signals[LogProbs(player=self.player)], estimator=self.estimator)
        losses = factored(self.weight, values * batch.weight, outputs[LogProb()], batch)
        loss = averaged(self.average, losses, batch, self.source)
        return self.coefficient * loss, {"kl": tally(values)}


@dataclass(frozen=True)
class Distillation:
    """coefficient * average of the exact KL over the whole vocabulary between the policy p and a teacher q, at the actions of a source.

    "reverse" is KL(p || q): the policy avoids tokens that the teacher avoids. "forward" is KL(q || p): the policy covers all tokens that the teacher may say.
    `KL` reads log q of the sampled action only; in contrast, this term has no sampling noise at a given prefix. The prefixes are from the answers of the
    source. If these are the policy's own answers, the term is on-policy distillation (Agarwal et al., GKD, arXiv:2306.13649, section 3.1).
    """

    player: str = "teacher"
    direction: Literal["reverse", "forward"] = "reverse"
    coefficient: float = 1.0
    average: Average = TokenMean()
    source: str = "policy"
    weight: Weight | None = None
    separable: ClassVar[bool] = True
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, coefficient="[0, inf)")

    @cached_property
    def wants(self) -> tuple[Want, ...]:
        return (DivergenceFrom(self.player, self.direction), *((LogProb(),) if self.weight is not None else ()))

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return needs_of_weight(self.weight)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        values = outputs[DivergenceFrom(self.player, self.direction)]
        losses = values * batch.weight
        if self.weight is not None:
            losses = factored(self.weight, losses, outputs[LogProb()], batch)
        return self.coefficient * averaged(self.average, losses, batch, self.source), {"distillation": tally(values.detach())}


@dataclass(frozen=True)
class SquaredLogRatio:
    """Adds coefficient / 2 * mean of (log pi - log pi_old)^2. The term pulls the log-probability of every action back to its value at the start of the update."""

    coefficient: float = 0.1
    average: Average = TokenMean()
    source: str = "policy"
    separable: ClassVar[bool] = True
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, coefficient="[0, inf)")

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logprobs = outputs[LogProb()]
        squares = (logprobs - (logprobs.detach() if batch.old_logprobs is None else batch.old_logprobs)).square()
        loss = averaged(self.average, squares * batch.weight, batch, self.source)
        return self.coefficient / 2 * loss, {"squared_log_ratio": tally(squares)}
