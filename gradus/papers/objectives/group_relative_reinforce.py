"""Group-relative REINFORCE: the plain policy gradient without importance weights stays stable on stale data if a one-sided mask limits the change.

    loss = -1/N sum_t M_t A_t log pi(a_t), quad A_t = r_i - mean(r), quad rho_t = (pi(a_t)) / (pi_old(a_t))
    M_t = 1 "if" A_t >= 0 "and" rho_t <= 1 + epsilon_h, "or" A_t <= 0 "and" rho_t >= 1 - epsilon_l, quad "else" 0

Both epsilon are 0.2, and N counts the tokens of the mini-batch. This is the paper's REC-OneSide-NoIS. The gradient follows from a regression of rewards
on log-ratios over any samples, so no importance weight is needed. Metric: masked_share.

The paper's other forms are settings of `--objective.policy.trust`: `.mask` none, two_side or ring; `.weight ratio` (REC-OneSide-IS, with PPO's
gradient); `.weight advantage` (RED-Weight). With wider bounds (`.low 0.6`, `.high 2`) the policy learns faster. `--objective.policy.ratio SequenceTokenRatio`
with `--objective.policy.average SequenceMean` masks whole answers; set `.low 3e-4` and `.high 4e-4` for it. Two forms have a penalty in place of the mask
(`.mask none`): `--objective.near SquaredLogRatio` (OPMD) and `--objective.near Imitation(coefficient=0.1,source=policy)` (AsymRE). The form RED-Drop is
`--selection BalancedGroups`.

Use if: samples are stale and the log-probabilities of the sampler are exact enough for a mask, but not for a weight.
Avoid if: each batch is used for one update, because the mask is then inactive (see reinforce, rloo). If rewards of groups differ much in scale, see grpo.
Reference: Yao et al., Group-Relative REINFORCE Is Secretly an Off-Policy Algorithm: Demystifying Some Myths About GRPO and Its Friends,
arXiv:2509.24203. Bounds, 20 updates per batch, the mean over tokens and groups of 8 are as in the released configuration.
Departures: Dropped answers leave the batch; in the released code their tokens count in N. OPMD has the paper's factor 1/2, so the coefficient 0.1 of
the released code is 0.2 here. The loss has $log pi - log pi_old$ in place of $log pi$, which changes its value but not its gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.ratios import Probability
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.types import UserError
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.tally import Tally, check_same_shape, tally

Mask = Literal["none", "one_side", "two_side", "ring"]


def kept_by(mask: Mask, ratio: Tensor, advantages: Tensor, *, low: float, high: float, far_low: float, far_high: float) -> Tensor:
    """Returns bool [A]: the actions that keep their gradient. Args: `ratio` [A]; `advantages` [A]; the other numbers: distances of bounds from 1."""
    check_same_shape(ratio=ratio, advantages=advantages)
    up, down = advantages >= 0, advantages <= 0
    if mask == "none":
        return torch.ones_like(up)
    if mask == "one_side":
        return (up & (ratio <= 1 + high)) | (down & (ratio >= 1 - low))
    inside = (ratio >= 1 - low) & (ratio <= 1 + high)
    return inside if mask == "two_side" else inside | (up & (ratio <= 1 - far_low)) | (down & (ratio >= 1 + far_high))


@dataclass(frozen=True)
class MaskedReinforce:
    """The loss -M W A log pi: the plain policy gradient with a mask M and a weight W, both without gradient. M compares the ratio with bounds around 1.

    The mask "one_side" drops an action if its ratio is above 1 + high and A > 0, or below 1 - low and A < 0. The mask "two_side" drops every action with a
    ratio outside of [1 - low, 1 + high]. The mask "ring" is "two_side" with two exceptions (`far_low` and `far_high`). The mask "none" drops no action.
    """

    mask: Mask = "one_side"  # "one_side": drops actions past the bound in the direction of A; "two_side": drops actions past either bound; "ring": see above
    weight: Literal["none", "ratio", "advantage"] = "none"  # W: 1, the ratio, or exp(A / temperature)
    low: float = 0.2
    high: float = 0.2
    far_low: float = 0.6  # the mask "ring" keeps an action with A >= 0 if its ratio is below 1 - far_low
    far_high: float = 2.0  # the mask "ring" keeps an action with A <= 0 if its ratio is above 1 + far_high
    temperature: float = 1.0  # temperature of the weight "advantage"
    separable: ClassVar[bool] = True
    not_ratios: ClassVar[tuple[type, ...]] = (Probability,)

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, 1]", high="[0, inf]", far_low="[0, 1]", far_high="[0, inf]", temperature="(0, inf]")
        if self.mask == "ring" and (self.far_low < self.low or self.far_high < self.high):
            raise UserError(
                f"MaskedReinforce.far_low ({self.far_low}) must be at least `low` ({self.low}), and `far_high` ({self.far_high}) must be at "
                f"least `high` ({self.high}); raise `far_low` or `far_high`"
            )

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        ratio = log_ratio.detach().exp()
        kept = kept_by(self.mask, ratio, advantages, low=self.low, high=self.high, far_low=self.far_low, far_high=self.far_high)
        factor = {"none": torch.ones_like, "ratio": lambda _: ratio, "advantage": lambda a: (a / self.temperature).exp()}[self.weight](advantages)
        return -torch.where(kept, factor * advantages, 0.0) * log_ratio, {"masked_share": tally(~kept)}


group_relative_reinforce = reinforce.derive(
    "group_relative_reinforce",
    "The plain policy gradient of group-centred rewards, without importance weights; a one-sided mask limits the change on stale data.",
    family="objectives",
    credit=GroupRelative("none"),
    objective__policy__trust=MaskedReinforce(),
    objective__policy__average=TokenMean(),
    update__count=20,
)

claims = (
    same_weights(
        says="With bounds that no ratio breaks, the final weights are those of the plain policy gradient of group-centred rewards.",
        source="arXiv:2509.24203, the mask at infinite bounds",
        against="group_relative_reinforce --objective.policy.trust CappedWeight(cap=1,floor=1)",
        own={"objective.policy.trust.low": "1", "objective.policy.trust.high": "inf"},
        fields={"prompts": "4", "group": "5", "study": "none"},
        budget="steps=2",
    ),
    Claim(
        says="With 32 updates per batch the accuracy at the end is at least 0.1 above that of the same gradient without a mask.",
        source="arXiv:2509.24203, experiments on stale samples (REINFORCE without a mask collapses); size of the effect and the ground are ours",
        against="group_relative_reinforce --objective.policy.trust.mask none",
        measure="accuracy",
        better_by=0.1,
        ground="stale",
    ),
    Claim(
        says="With 32 updates per batch the accuracy at the end is at least 0.95 times that of the form with importance weights.",
        source="arXiv:2509.24203, experiments on stale samples (importance weights are not essential); size of the effect and the ground are ours",
        against="group_relative_reinforce --objective.policy.trust.weight ratio",
        measure="accuracy",
        at_least=0.95,
        ground="stale",
    ),
)
