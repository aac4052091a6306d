"""BAPO: searches both clip bounds for every mini-batch, until the tokens with positive advantage supply a given share of the update.

    loss = 1/N sum_t -min(r_t A_t, clip(r_t, c_low, c_high) A_t), quad r_t = (pi(a_t)) / (pi_old(a_t))
    share = P / (P + Q)
    P = sum_t r_t A_t "over" A_t > 0, r_t < c_high
    Q = sum_t r_t |A_t| "over" A_t < 0, r_t > c_low

The search starts at the bounds 0.6 and 1.2 of the ratio. While the share is below $rho_0$ = 0.4, the search raises $c_high$ in steps of 0.05 up to 3,
so that more unlikely tokens of good answers enter. Then the search raises $c_low$ in steps of 0.02 up to 0.9, so that fewer unlikely tokens of bad
answers enter. The search stops at the first pair of bounds that reaches $rho_0$, or at the last pair. The share is 1 if Q is 0. If A < 0, the loss is
constant above ratio 3, and Q leaves these tokens out. N counts the tokens of the mini-batch.

The paper gives this reason: a fixed clip removes unlikely tokens of good answers, although they raise the entropy. A fixed clip also keeps unlikely
tokens of bad answers, although these tokens lower the entropy. Each batch is used for 2 epochs of 4 mini-batches. Metrics: positive_share, bound_low,
bound_high, clip_share, ceiling_share.

Use if: a batch is used for many updates, or samples are stale, and the entropy of the policy falls.
Avoid if: each batch is used for one update, because all ratios are then 1 and no bound acts (see grpo). On samples from much older weights a bound on the
change of the whole policy may work better (see m2po).
Reference: Xi et al., BAPO: Stabilizing Off-Policy Reinforcement Learning for LLMs via Balanced Policy Optimization with Adaptive Clipping,
arXiv:2510.18927, eq. 8, algorithm 1, section 5.1 (bounds, steps and share). Epochs, mini-batches, the mean over tokens, no KL term and the ceiling 3
are as in the released script and code.
Departures: P and Q count only tokens that have a gradient. The paper and the code also add the clipped tokens, each with the bound in place of its
ratio (`--objective.policy.trust.counted clipped`). With these tokens, a higher $c_low$ makes Q larger, so it cannot raise the share. The paper also
weights each token of P and Q by its probability under the sampling policy; here all weights are equal. The code raises $c_low$ first
(`--objective.policy.trust.first low`), compares P / Q with its target, and bounds the log-ratio by 20. The released script has the bounds 0.8 to 0.95
and 1.2 to 2, and steps of 0.05 and 0.1. The target P / Q = 0.5 of this script is a share of 1/3, but the text of the script names a share of 0.5. The
deviation is the population deviation; the code has the sample's deviation plus 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.ratios import Probability
from gradus.objectives.trust import DualClip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import UserError
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.tally import Tally, tally

Counted = Literal["passing", "clipped"]


def positive_share(ratios: np.ndarray, advantages: np.ndarray, *, low: float, high: float, ceiling: float, counted: Counted) -> float:
    """Returns P / (P + Q), the share of tokens with A > 0 in the update; 1 if Q is 0.

    `counted` "passing": P and Q sum r |A| over the tokens that have a gradient. "clipped": over all tokens, with r bounded by `high` in P and by
    `low` in Q. Args: `ratios` [A]; `advantages` [A]; `low`, `high` and `ceiling` are bounds of the ratio.
    """
    masses = ratios * np.abs(advantages)
    good, bad = advantages > 0, advantages < 0
    if counted == "passing":
        up, down = masses[good & (ratios < high)].sum(), masses[bad & (ratios > low) & (ratios < ceiling)].sum()
    else:
        sizes = np.abs(advantages)
        up, down = np.minimum(masses, high * sizes)[good].sum(), np.maximum(masses, low * sizes)[bad].sum()
    return float(up / (up + down)) if down > 0 else 1.0


def climb(start: float, stop: float, step: float) -> list[float]:
    """Returns start, start + step, ... and `stop` as the last value."""
    return [*(start + i * step for i in range(math.ceil((stop - start) / step - 1e-9))), stop]


@dataclass(frozen=True)
class BalancedClip:
    """PPO's clip. The bounds on the ratio rise from `low` and `high` until the tokens with A > 0 supply `share` of the update.

    Above the ratio `ceiling` the loss of a token with A < 0 is constant.
    """

    share: float = 0.4  # target of the share P / (P + Q); 0: the bounds stay at `low` and `high`
    low: float = 0.6  # bound of the ratio at the start of the search
    low_max: float = 0.9
    low_step: float = 0.02
    high: float = 1.2  # bound of the ratio at the start of the search
    high_max: float = 3.0
    high_step: float = 0.05
    ceiling: float = 3.0
    first: Literal["high", "low"] = "high"  # the bound that rises first
    counted: Counted = "passing"  # "passing": counts only tokens that have a gradient; "clipped": also counts clipped tokens, with the bound as ratio
    separable: ClassVar[bool] = False  # the bounds look at every token of the mini-batch
    not_ratios: ClassVar[tuple[type, ...]] = (Probability,)

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]", low="[0, 1]", low_max="[0, 1]", high="[1, inf)", high_max="[1, inf)", ceiling="(1, inf]")
        check_ranges(self, low_step="(0, inf)", high_step="(0, inf)")
        for name in ("low", "high"):
            if getattr(self, name) > getattr(self, f"{name}_max"):
                raise UserError(
                    f"BalancedClip.{name} is {getattr(self, name)}, which is above BalancedClip.{name}_max ({getattr(self, f'{name}_max')}); set `{name}` "
                    f"to {getattr(self, f'{name}_max')} or less"
                )

    def bounds(self, ratios: np.ndarray, advantages: np.ndarray) -> tuple[float, float, float]:
        """Returns the bounds that the search finds, low and high, and the share with them. Args: `ratios` [A]; `advantages` [A]."""
        lows, highs = climb(self.low, self.low_max, self.low_step), climb(self.high, self.high_max, self.high_step)
        if self.first == "high":
            path = [(lows[0], high) for high in highs] + [(low, highs[-1]) for low in lows[1:]]
        else:
            path = [(low, highs[0]) for low in lows] + [(lows[-1], high) for high in highs[1:]]
        share = 0.0
        for low, high in path:
            share = positive_share(ratios, advantages, low=low, high=high, ceiling=self.ceiling, counted=self.counted)
            if share >= self.share:
                return low, high, share
        return (*path[-1], share)

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        ratios, counting = log_ratio.detach().exp().double().numpy(), (advantages * batch.weight).double().numpy()  # masked tokens have no share
        low, high, share = self.bounds(ratios, counting)
        losses, metrics = DualClip(1 - low, high - 1, self.ceiling).losses(log_ratio, advantages, batch)
        seen = {"positive_share": share, "bound_low": low, "bound_high": high}
        return losses, {**metrics, **{name: tally(torch.tensor([value], dtype=torch.float64)) for name, value in seen.items()}}


bapo = grpo.derive(
    "bapo",
    "Both clip bounds are searched for every mini-batch until tokens with positive advantage supply a given share of the update.",
    family="objectives",
    objective__policy__trust=BalancedClip(),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    update__epochs=2,
    update__count=4,
)

claims = (
    same_weights(
        says="With a share of 0 the bounds never move, and the final weights are those of the clip with the bounds 0.6, 1.2 and 3.",
        source="arXiv:2510.18927, algorithm 1 at rho_0 = 0",
        against="bapo --objective.policy.trust DualClip(low=0.4,high=0.2,ceiling=3)",
        own={"objective.policy.trust.share": "0"},
        budget="steps=2",
    ),
    Claim(
        says="With 32 updates per batch the last batch's entropy is at least 1.2 times that of PPO's clip at 0.8 and 1.2.",
        source="arXiv:2510.18927, abstract and figures (entropy stays high on stale data); size of the effect and the ground are ours",
        against="bapo --objective.policy.trust Clip",
        measure="entropy:last",
        at_least=1.2,
        ground="stale",
    ),
)
