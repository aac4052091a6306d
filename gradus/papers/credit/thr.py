"""THR: measures how the update of each token changes the likelihood of the group's right answers. The sign of this influence decides the weight of the token.

    THR_(j,k) = s_j sum_(i in R) sum_m (g_(i,m) cdot g_(j,k)) (h_(i,m) cdot h_(j,k))
    A'_(j,k) = 1[|THR_(j,k)| > tau] (1 + sgn(THR_(j,k)) p) A_j, quad g = e_y - pi, quad s_j = 1 if j in R, else -1

h is the input of the output head at a token y, $e_y$ the one-hot vector of the token, and pi the predicted distribution. The gradient of log pi(y) with
respect to the head is the outer product of g and h, so each term is the inner product of the gradients of two tokens. R are the right answers of the
group. A positive THR means that the update of this token makes the right answers more likely. With p > 0 such tokens count more, which favours accuracy
(exploitation). With p < 0 these tokens count less, which favours pass@k (exploration). The bound tau is the median of |THR| over the tokens of the group, so
half of the tokens keep their advantage. A group without a right answer keeps plain advantages. With p = 0 and no mask (`masked` 0) the method is GRPO.

Use if: groups have right and wrong answers, and you want to favour greedy accuracy or pass@k.
Avoid if: one more forward pass is too expensive, or most groups have no right answer (see grpo, dapo).
Reference: Deng et al., Token Hidden Reward: Steering Exploration-Exploitation in Group Relative Deep Reinforcement Learning, arXiv:2510.03669: THR, its
sign, and the reweighting with p. No code of the authors was found.
Departures: Our own choices are the median as tau, and the rule that no token forms a pair with itself. We did not verify which p the paper has, and
whether the paper divides the sums by the lengths and by the number of right answers. Here the sums are not divided, so long right answers weigh more.
The vector g has the entries of the sampled token and of the `top` - 1 likeliest other tokens. The temperature would divide every g by the same
number, so it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.credit.scaled import Scaled
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Group
from gradus.types.parts import Signals
from gradus.types.ranges import check_ranges
from gradus.types.readers import HeadGradient, head_gradients
from gradus.types.signals import Read, Signal


def hidden_rewards(g: np.ndarray, tokens: np.ndarray, hidden: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns THR [N] of the actions of a group.

    Args: `g` [N, n]: entries of e_y - pi; `tokens` [N, n]: the tokens of these entries; `hidden` [N, d]: hidden states before the actions; `right` bool [N]:
    whether the answer of the action is right.
    """
    ids, places = np.unique(tokens, return_inverse=True)
    places = places.reshape(tokens.shape)
    total = np.zeros((len(ids), hidden.shape[1]))  # the sum of the right answers' gradients
    for a in range(g.shape[1]):
        np.add.at(total, places[right, a], g[right, a, None] * hidden[right])
    influence = np.zeros(len(g))
    for a in range(g.shape[1]):
        influence += g[:, a] * np.einsum("nd,nd->n", total[places[:, a]], hidden)
    own = np.where(right, (g**2).sum(1) * (hidden**2).sum(1), 0.0)
    return np.where(right, 1.0, -1.0) * (influence - own)


def weights_of(rewards: np.ndarray, *, p: float, masked: float) -> np.ndarray:
    """Returns 1[|THR| > tau] (1 + sgn(THR) p), [N]. tau is the quantile `masked` of |THR|; with 0 no token is masked."""
    kept = np.abs(rewards) > np.quantile(np.abs(rewards), masked) if masked and len(rewards) else np.ones(len(rewards), bool)
    return kept * (1 + np.sign(rewards) * p)


@dataclass(frozen=True)
class HiddenReward:
    """Gives every action the weight of its token hidden reward. The actions of a group without a right answer have the weight 1."""

    p: float = 0.1  # above 0: favours exploitation; below 0: favours exploration
    masked: float = 0.5  # share of a group's tokens that get the advantage 0: those with the smallest |THR|
    reads: HeadGradient = HeadGradient()
    player: str = "policy"

    def __post_init__(self) -> None:
        check_ranges(self, p="[-1, 1]", masked="[0, 1)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Read(self.player, reads=self.reads),)

    def factors(self, groups: Sequence[Group], signals: Signals) -> list[list[np.ndarray]]:
        rows = signals[self.needs[0]]
        return [self._group(group, [rows[t.id].astype(np.float64) for t in group.trajectories]) for group in groups]

    def _group(self, group: Group, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        counts = [len(row) for row in rows]
        right = np.repeat([t.right for t in group.trajectories], counts)
        if not right.any():
            return [np.ones(count) for count in counts]
        found = hidden_rewards(*head_gradients(np.concatenate(rows)), right)
        return np.split(weights_of(found, p=self.p, masked=self.masked), np.cumsum(counts)[:-1])


thr = grpo.derive(
    "thr",
    "Tokens whose update makes the group's right answers more likely get more or less weight than other tokens, by the sign of p.",
    family="credit",
    credit=Scaled(GroupRelative(), HiddenReward()),
)

claims = (
    same_weights(
        says="With p = 0 and no mask the final weights are those of GRPO.",
        source="arXiv:2510.03669, the reweighting of advantages",
        against="grpo",
        own={"credit.factor.p": "0", "credit.factor.masked": "0"},
    ),
    Claim(
        says="If problems have many right answers, the entropy at the end is at least 0.005 higher with p = -0.1 than with p = 0.1.",
        source="arXiv:2510.03669, main results (pass@k with p < 0, greedy accuracy with p > 0); the ground, its measure and the size are ours",
        against="thr",
        own={"credit.factor.p": "-0.1"},
        measure="entropy:last",
        better_by=0.005,
        ground="many_ways",
    ),
)
