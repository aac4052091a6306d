"""A trust region computes the loss of each action from its ratio and advantage. Functions compute the formulas; the parts contain the parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from gradus.objectives.ratios import Probability
from gradus.types import UserError
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import Entropy, Signal
from gradus.types.tally import Tally, check_same_shape, tally


class Trust(Protocol):
    """Computes the loss of each action. If a trust region has `needs`, the batch contains these signals."""

    separable: ClassVar[bool]

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        """Returns the losses [A] to minimise, not averaged, and the metrics."""
        ...


def surrogate(log_ratio: Tensor, advantages: Tensor) -> Tensor:
    """Returns -r A with r = exp(log_ratio). At r = 1 the gradient of this loss equals the gradient of -A log pi."""
    check_same_shape(log_ratio=log_ratio, advantages=advantages)
    return -log_ratio.exp() * advantages


def clipped_surrogate(log_ratio: Tensor, advantages: Tensor, *, low: float, high: float) -> Tensor:
    """PPO's loss per action: -min(r A, clip(r, 1 - low, 1 + high) A), r = exp(log_ratio).

    Args: `log_ratio` [A] nats, with gradient; `advantages` [A], without gradient. Returns: [A], not averaged. Raises: ValueError if the shapes
    differ.
    Reference: Schulman et al., Proximal Policy Optimization Algorithms, arXiv:1707.06347, eq. 7; two bounds: DAPO, arXiv:2503.14476.
    """
    check_same_shape(log_ratio=log_ratio, advantages=advantages)
    ratio = log_ratio.exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


@dataclass(frozen=True)
class Unclipped:
    """No trust region: the plain importance-weighted policy gradient."""

    separable: ClassVar[bool] = True

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        return surrogate(log_ratio, advantages), {}


@dataclass(frozen=True)
class Clip:
    """PPO's clipped surrogate with two bounds: the ratio is clipped to [1 - low, 1 + high]."""

    low: float = 0.2
    high: float = 0.2
    separable: ClassVar[bool] = True
    not_ratios: ClassVar[tuple[type, ...]] = (Probability,)  # the bounds of Clip are around 1, because an unchanged policy has the ratio 1

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, inf]", high="[0, inf]")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        losses = clipped_surrogate(log_ratio, advantages, low=self.low, high=self.high)
        ratio = log_ratio.detach().exp()
        clipped = ((ratio > 1 + self.high) & (advantages > 0)) | ((ratio < 1 - self.low) & (advantages < 0))
        return losses, {"clip_share": tally(clipped)}


@dataclass(frozen=True)
class DualClip:
    """PPO's clip with an upper bound on the loss if A < 0: -max(min(r A, clip(r) A), ceiling * A). Ye et al., arXiv:1912.09729, eq. 5.

    So there are three bounds: 1 + high for A > 0; 1 - low and `ceiling` for A < 0. A ratio that is exactly `ceiling` keeps its gradient.
    """

    low: float = 0.2
    high: float = 0.2
    ceiling: float = 3.0  # above this ratio, the loss of an action with A < 0 is constant; must be above 1 + high
    separable: ClassVar[bool] = True
    not_ratios: ClassVar[tuple[type, ...]] = (Probability,)

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, inf]", high="[0, inf]", ceiling="(1, inf]")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        losses, metrics = Clip(self.low, self.high).losses(log_ratio, advantages, batch)
        bounds = -self.ceiling * advantages
        beyond = (advantages < 0) & (losses.detach() > bounds)
        return torch.where(beyond, bounds, losses), {**metrics, "ceiling_share": tally(beyond)}


@dataclass(frozen=True)
class EntropyClip:
    """PPO's clip with the upper bound high + (most - high) * H_t / max_t H_t: the bound grows with the entropy before the action."""

    low: float = 0.2
    high: float = 0.2  # width of the clip above 1 for a token with the entropy 0
    most: float = 0.28  # width of the clip above 1 for the largest entropy of the mini-batch
    separable: ClassVar[bool] = False  # the largest entropy is that of the whole mini-batch
    needs: ClassVar[tuple[Signal, ...]] = (Entropy(),)
    not_ratios: ClassVar[tuple[type, ...]] = (Probability,)

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, inf]", high="[0, inf)", most="[0, inf)")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        high = entropy_bounds(batch.signals[Entropy()].to(log_ratio), high=self.high, most=self.most)
        ratio = log_ratio.detach().exp()
        clipped = ((ratio > 1 + high) & (advantages > 0)) | ((ratio < 1 - self.low) & (advantages < 0))
        rising = torch.minimum(log_ratio.exp(), 1 + high) * advantages
        losses = torch.where(advantages > 0, -rising, clipped_surrogate(log_ratio, advantages, low=self.low, high=math.inf))
        return losses, {"clip_share": tally(clipped)}


def entropy_bounds(entropy: Tensor, *, high: float, most: float) -> Tensor:
    """Returns the upper bounds [A] of the clip, from the entropies [A] in nats. If all entropies are 0, each bound is `high`."""
    largest = entropy.max() if len(entropy) else entropy.new_zeros(())
    return high + (most - high) * entropy / largest if largest > 0 else torch.full_like(entropy, high)


def capped_surrogate(log_ratio: Tensor, advantages: Tensor, *, floor: float, cap: float) -> Tensor:
    """Returns -w A with w = clip(r, floor, cap).

    The weight w has no gradient, so the gradient is -w A grad log pi for every action.

    Args: `log_ratio` [A] nats, with gradient; `advantages` [A], without gradient. Returns: [A] with the values -w A.
    Raises: ValueError if the shapes differ.  Reference: MiniMax-M1, arXiv:2506.13585, eq. 4 and 5.
    """
    check_same_shape(log_ratio=log_ratio, advantages=advantages)
    weight = log_ratio.detach().exp().clamp(floor, cap)
    return -weight * advantages * (1 + log_ratio - log_ratio.detach())  # the value is the weight's; the gradient is that of log pi


@dataclass(frozen=True)
class CappedWeight:
    """The ratio as a weight in [floor, cap] without gradient: -sg[clip(r)] A log pi, where sg stops the gradient. Clipped actions keep their gradient."""

    cap: float = 5.0  # largest weight
    floor: float = 0.0  # smallest weight; 0: no bound
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, cap="(0, inf]", floor="[0, inf)")
        if self.floor > self.cap:
            raise UserError(f"CappedWeight.floor is {self.floor}, which is above CappedWeight.cap ({self.cap}); set `floor` to {self.cap} or less")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        ratio = log_ratio.detach().exp()
        capped = (ratio > self.cap) | (ratio < self.floor)
        return capped_surrogate(log_ratio, advantages, floor=self.floor, cap=self.cap), {"capped_share": tally(capped)}


@dataclass(frozen=True)
class Shaped:
    """-f(r) A with f(r) = r / (r + gamma). The slope of f, gamma / (r + gamma)^2, is largest at unlikely actions. LUFFY, arXiv:2504.14945, eq. 6-7."""

    gamma: float = 0.1
    separable: ClassVar[bool] = True
    ratios: ClassVar[tuple[type, ...]] = (Probability,)  # until the policy changes, any other ratio is 1 for all actions, likely or not

    def __post_init__(self) -> None:
        check_ranges(self, gamma="(0, inf)")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        check_same_shape(log_ratio=log_ratio, advantages=advantages)
        shaped = torch.sigmoid(log_ratio - math.log(self.gamma))  # r / (r + gamma), finite for every log-ratio
        return -shaped * advantages, {"shaped": tally(shaped)}


@dataclass(frozen=True)
class WeightedLikelihood:
    """The loss of an action is -A log pi. Use the ratio `Probability`, whose logarithm is log pi."""

    separable: ClassVar[bool] = True
    ratios: ClassVar[tuple[type, ...]] = (Probability,)

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        check_same_shape(log_ratio=log_ratio, advantages=advantages)
        return -advantages * log_ratio, {}
