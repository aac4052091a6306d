"""M2PO: bounds the second moment of the log-ratio on stale data. Only the few tokens with the largest log-ratios are masked, and nothing is clipped.

    delta_t = log pi(a_t) - log pi_behaviour(a_t)
    M_2 = mean over harmful tokens of delta_t^2
    loss = -1/N sum_t M_t r_t A_t, quad r_t = exp(delta_t)

A token is harmful if the gradient drives it further from the behaviour policy: $A > 0$ and $delta > 0$, or $A < 0$ and $delta < 0$. The harmful
tokens with the largest $delta_t^2$ are removed from the mini-batch ($M_t$ = 0, else 1). The removal ends when $M_2$ of the other harmful tokens is at
most tau = 0.04. N counts all tokens of the mini-batch. In a mean of delta, positive and negative values cancel; in $M_2$ they cannot cancel. If even
the smallest $delta^2$ exceeds tau, all harmful tokens are masked.

Stale data comes from the player `generator`, the policy of 8 updates ago (two steps of four mini-batches). This is the smaller lag of the
paper; the larger lag, 256 updates, would need 64 copies of the weights here. Metrics: masked_share, second_moment.

Use if: samples come from weights many updates old, as in asynchronous training.
Avoid if: data is on-policy, because no token is then masked, and the method is REINFORCE with group-relative advantages (see grpo, rloo).
Reference: Zheng et al., Prosperity before Collapse: How Far Can Off-Policy RL Reach with Stale Data on LLMs?, arXiv:2510.01161. The lags 8 and 256 and
four updates per batch (256 problems, 64 per update) are as in the released scripts.
Departures: If several tokens have the same $delta^2$, the later token is removed first. The code released with the paper has another form,
`--objective.policy.trust SecondMomentClip`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.ratios import Probability, SequenceRatio, TokenRatio
from gradus.objectives.trust import Clip, surrogate
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.types.batch import Batch
from gradus.types.players import Lagged, Player
from gradus.types.ranges import check_ranges
from gradus.types.tally import Tally, tally


def harmful(log_ratio: Tensor, advantages: Tensor) -> Tensor:
    """Returns bool [A]: whether the advantage pushes the ratio further away from 1."""
    return log_ratio.detach() * advantages > 0


def within_second_moment(squares: Tensor, *, tau: float) -> Tensor:
    """The largest values are removed until the mean of the remaining values is at most tau. Returns bool [N]: True for the values that remain."""
    ascending, order = squares.sort(stable=True)
    means = ascending.cumsum(0) / torch.arange(1, len(squares) + 1).to(squares)  # means of the smallest 1, 2, ... squares; the means never fall
    kept = torch.zeros_like(squares, dtype=torch.bool)
    kept[order[means <= tau]] = True
    return kept


def second_moment_cap(squares: Tensor, *, tau: float) -> float:
    """Returns the largest T among the roots of `squares` with mean(min(squares, T^2)) < tau; 0 if there is none; infinity if no cap is needed."""
    count = len(squares)
    if not count or float(squares.mean()) <= tau:
        return float("inf")
    ascending = squares.sort().values
    larger = torch.arange(count - 1, -1, -1).to(squares)  # the number of squares that come after each square
    below = ascending[(ascending.cumsum(0) + larger * ascending) / count < tau]
    return float(below[-1].sqrt()) if len(below) else 0.0


@dataclass(frozen=True)
class SecondMoment:
    """Clips nothing. Masks harmful tokens, largest log-ratios first, until the mean squared log-ratio of the other harmful tokens is at most tau."""

    tau: float = 0.04  # bound on the mean squared log-ratio, in nats squared
    separable: ClassVar[bool] = False  # the mask looks at every token of the mini-batch
    not_ratios: ClassVar[tuple[type, ...]] = (Probability, SequenceRatio)  # a masked token of a sequence would keep a gradient through the other tokens

    def __post_init__(self) -> None:
        check_ranges(self, tau="(0, inf]")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        rows = torch.nonzero(harmful(log_ratio, advantages))[:, 0]
        squares = log_ratio.detach().index_select(0, rows).square()
        mask = torch.ones_like(advantages)
        mask[rows[~within_second_moment(squares, tau=self.tau)]] = 0.0
        losses = mask * surrogate(log_ratio, advantages)
        return losses, {"masked_share": tally(1 - mask), "second_moment": tally(squares)}


@dataclass(frozen=True)
class SecondMomentClip:
    """PPO's clip with the bounds exp(-T) and exp(T). The bounds are never tighter than 1 - low and 1 + high.

    T is the largest |delta| of a harmful token for which the mean of min(delta^2, T^2) over harmful tokens is below tau. The token at T is clipped
    too. The mean and T are computed over the mini-batch; in the released code they are computed over each micro-batch. `low` and `high` have the defaults
    of the released function, but the released trainer calls it with 0 for both.
    """

    tau: float = 0.04  # bound on the mean squared log-ratio, in nats squared
    low: float = 0.3
    high: float = 0.5
    separable: ClassVar[bool] = False
    not_ratios: ClassVar[tuple[type, ...]] = (Probability,)

    def __post_init__(self) -> None:
        check_ranges(self, tau="(0, inf]", low="[0, 1]", high="[0, inf)")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        pushed, drift = harmful(log_ratio, advantages), log_ratio.detach().double()
        squares = log_ratio.detach()[pushed].square()
        floors = torch.tensor([-self.low, self.high], dtype=torch.float64).log1p().abs()
        down, up = floors.clamp(min=second_moment_cap(squares, tau=self.tau))
        losses, metrics = Clip(low=float(1 - (-down).exp()), high=float(up.exp() - 1)).losses(log_ratio, advantages, batch)
        held = pushed & ((drift >= float(up) * _ON) | (drift <= -float(down) * _ON))
        return torch.where(held, losses.detach(), losses), {**metrics, "clip_share": tally(held), "second_moment": tally(squares)}


_ON = 1 - 1e-6  # a token at T counts as on the bound, in spite of rounding


m2po = grpo.derive(
    "m2po",
    "On stale data, only the few tokens that break a bound on the mean squared log-ratio are masked; nothing is clipped.",
    family="objectives",
    rollout=BehaviourPolicy("generator"),
    objective__policy__ratio=TokenRatio(against="behaviour"),
    objective__policy__trust=SecondMoment(tau=0.04),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    players__policy=Player(learns_from="generator"),
    players__generator=Player(Lagged(of="policy")),
    update__count=4,
)

claims = (
    same_weights(
        says="With a bound that no batch breaks, no token is masked, and the final weights are those of the surrogate without a clip.",
        source="arXiv:2510.01161, the mask at an infinite threshold",
        against="m2po --objective.policy.trust Unclipped",
        own={"objective.policy.trust.tau": "inf"},
    ),
    Claim(
        says="On samples of the policy 8 updates ago, the mean reward over 20 steps at a rate of 1e-3 is at least 0.03 above that of PPO's clip.",
        source="arXiv:2510.01161, main results (there lag 256, accuracy at the end); rate, lag and size of the effect are ours",
        against="m2po --objective.policy.trust Clip",
        measure="reward:mean",
        better_by=0.03,
        task="arithmetic",
        fields={"prompts": "8", "group": "8", "learning_rate": "1e-3", "study": "none"},
        budget="steps=20",
    ),
)
