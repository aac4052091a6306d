"""Weights on the policy's loss. The weights correct for the difference between the distribution of the sampling engine and the distribution of the update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from gradus.objectives.terms import PolicyGradient, Term, Weight
from gradus.types import Frozen
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges


def masked_importance(old: Tensor, behaviour: Tensor, *, floor: float, cap: float) -> Tensor:
    """r = exp(old - behaviour) if floor <= r <= cap, else 0.

    Args: log-probabilities [A] in nats: `old` at the start of the update, `behaviour` as sampled. Returns: [A], without gradient.
    Reference: IcePop (Ling team, Every Step Evolves, arXiv:2510.18855).
    """
    log_ratio = (old - behaviour).detach()
    return torch.where((log_ratio >= math.log(floor)) & (log_ratio <= math.log(cap)), log_ratio.exp(), torch.zeros_like(log_ratio))


@dataclass(frozen=True)
class MaskedImportance:
    """The weight is r = pi_old / pi_behaviour if r is in [floor, cap], else 0. So an action has no effect if its two probabilities differ too much."""

    cap: float = 5.0
    floor: float | None = 0.5  # a ratio below this number has the weight 0; None: 1 / cap
    against: ClassVar[str] = "old"

    def __post_init__(self) -> None:
        check_ranges(self, cap="(1, inf)", floor="(0, 1]")

    def factors(self, old: Tensor, batch: Batch) -> Tensor:
        floor = 1 / self.cap if self.floor is None else self.floor
        return masked_importance(old, batch.behaviour_logprobs, floor=floor, cap=self.cap)


def correctable(terms: Mapping[str, Term] | None) -> bool:
    """Whether the objective has a policy-gradient term. Such a term can be corrected, unless its ratio or weight is already a correction."""
    return any(isinstance(term, PolicyGradient) for term in (terms or {}).values())


def corrected(terms: Mapping[str, Any], weight: Weight) -> Frozen[Any]:
    """Sets `weight` on the policy-gradient terms of the source "policy".

    A term gets the weight if it has no weight yet and the denominator of its ratio is the policy at the start of the update.

    A ratio to the behaviour policy already includes the correction.
    """
    return Frozen({name: replace(term, weight=weight) if _lacks(term) else term for name, term in (terms or {}).items()})


def _lacks(term: Any) -> bool:
    own = isinstance(term, PolicyGradient) and term.source == "policy" and term.weight is None
    return own and getattr(term.ratio, "against", "behaviour") == "old"
