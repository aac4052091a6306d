"""RiskPO: maximises the lower tail and the middle of the scores of bundled questions instead of the mean reward.

    A_g = (w u(s_g) + v(s_g)) / (w + 1) * 1/(std(s)), quad s_g = sum_(q in B) r_(q,g)
    v(s) = (clip(s, q_a, q_b) - q_b) / (b - a)
    u(s) = -(max(q_a - s, 0)) / a
    q_c := q_c + eta (c - mean(1[s < q_c]))
    loss = 1/N sum_i -min(s_i A_i, clip(s_i, 1 - 0.2, 1 + 0.2) A_i), quad s_i = ((pi(y_i)) / (pi_old(y_i)))^(1/|y_i|)

B is a bundle of five questions of the batch. The answer set g contains the g-th answer to each question of the bundle, like the answers of one
student in an exam. The score $s_g$ of the set is the sum of the rewards $r_(q,g)$ of these answers. $q_a$ and $q_b$ are estimates of the quantiles of
all scores at the levels a = 0.2 and b = 0.8. The tail part u, with weight w = 1.5, falls steeply below $q_a$. The range part v is 0 above $q_b$, so
answer sets with a higher score have advantage 0. All answers of a set get the advantage $A_g$. The deviation is taken over the scores of the bundle.
$s_i$ is the ratio of answer $y_i$ of $|y_i|$ tokens, and N counts the answers.

The first batch sets $q_a$ and $q_b$ to its own quantiles. After each later batch, both quantiles move by the fourth line, with eta = 0.1, for c = a
and c = b. The advantages of a batch come from the values before this move. If scores have few distinct values, the estimate can lie anywhere between
two of them.

Use if: rewards have two values, the entropy of the policy falls early, and hard questions should count more than solved questions.
Avoid if: rewards are graded within a question (see dr_grpo), or batches are small. In small batches the score is a noisy signal for a single answer,
because four fifths of the score come from answers to other questions. To compare the answers to a single question, see grpo.
Reference: Ren et al., RiskPO: Risk-based Policy Optimization via Verifiable Reward for LLM Post-Training, arXiv:2510.00911: Mixed Value-at-Risk,
bundles, tracking of quantiles, ratio per answer. Bundles of five, ten answers per question, w, levels, eta and four mini-batches per batch are as in
the released script for DAPO-Math.
Departures: In the article the slopes of tail and range have the ratio 1 + w to 1. In the released code, as here, the slopes are w / a and 1 / (b -
a), which is 4.5 to 1. In the released script for DAPO-Math v is higher by $(q_b - q_a) / (b - a)$: `--credit.lowered false`. Then most answers become
more likely, right or wrong, and the policy does not learn the toy task. The released code adds 1e-6 to the deviation of the sample; here A is not
divided if all scores of a bundle are equal. The code computes ratio and mean per token (`--objective.policy.ratio TokenRatio`,
`--objective.policy.average TokenMean`). The released scripts divide A among the answers of a set in proportion to their distance from the question's
mean (`--credit.share distance`), or they divide A by the deviation of the question (`--credit.share deviation`). In the snapshot of the released code
each bundle has its own quantiles. If the last bundle has fewer than five questions, its scores are scaled as if it had five; the released code does
not scale them. If the groups of a bundle differ in size, the answers beyond the smallest size have A = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from gradus.credit.groups import Scale, spread
from gradus.objectives.ratios import SequenceRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Group, UserError
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

Share = Literal["uniform", "distance", "deviation"]


def paper_scores(rewards: Sequence[np.ndarray], *, size: int) -> np.ndarray:
    """Returns [P], the scores of the answer sets of a bundle, scaled to `size` questions. P is the smallest number of answers to one of the questions.

    `rewards` contains the rewards of the answers to each question of the bundle.
    """
    papers = min(len(r) for r in rewards)
    return np.stack([r[:papers] for r in rewards]).sum(axis=0) * (size / len(rewards))


def mixed_risk(scores: np.ndarray, *, low: tuple[float, float], high: tuple[float, float], tail: float, lowered: bool) -> np.ndarray:
    """Returns (tail u + v) / (tail + 1) for scores [P]: u is the part below the low quantile, v the part between both quantiles.

    `low`, `high`: (level, quantile) of each end of the range. If `lowered` is set, v is 0 above the high quantile and negative below it. If `lowered`
    is not set, v is 0 below the low quantile and positive above it.
    """
    (a, at_a), (b, at_b) = low, high
    middle = np.maximum(scores - at_a, 0) - np.maximum(scores - at_b, 0) + (at_a - at_b if lowered else 0.0)
    below = -np.maximum(at_a - scores, 0) / a if tail else np.zeros_like(scores)
    return (tail * below + middle / (b - a)) / (tail + 1)


def tracked(quantile: float, scores: np.ndarray, *, level: float, rate: float) -> float:
    """Returns the estimate of a quantile after one more batch of scores: q + rate (level - share of the scores below q)."""
    return quantile + rate * (level - float(np.mean(scores < quantile)))


def shares(advantage: float, gains: np.ndarray, spreads: np.ndarray, *, share: Share) -> np.ndarray:
    """Returns [B], the advantages of the answers of an answer set.

    "uniform": each answer has the advantage of the set. "distance": the advantage times the answer's part in the sum of `gains`; equal parts if the sum is 0.
    "deviation": the advantage divided by the deviation of each question.

    Args: `gains` [B]: reward minus the mean of the question; `spreads` [B]: deviation of the rewards of the question, 1 if it is 0.
    """
    if share == "distance":
        total = float(gains.sum())
        return advantage * gains / total if abs(total) > 1e-6 else np.full(len(gains), advantage / len(gains))
    return advantage / spreads if share == "deviation" else np.full(len(gains), advantage)


def deviation(values: np.ndarray, scale: Scale) -> float:
    """Returns the standard deviation of `values`; 1 for `scale` "none", for a single value and for equal values."""
    if scale == "none" or len(values) < 2:
        return 1.0
    found = float(values.std(ddof=int(scale == "sample")))
    return found if found > 1e-12 * np.abs(values).max() else 1.0


@dataclass(frozen=True)
class BundledRisk:
    """Bundles the questions of a batch. All answers of an answer set get the mixed risk of the set's score. The quantiles are tracked over the run."""

    low: float = 0.2  # level a; it can be 0 only if `tail` is 0
    high: float = 0.8  # level b
    tail: float = 1.5  # w, the weight of the tail part
    bundle: int = 5  # number of questions per bundle
    rate: float = 0.1  # eta, the step size of the quantiles
    scale: Scale = "sample"  # deviation of the scores of a bundle; "none": no division
    share: Share = "uniform"
    lowered: bool = True  # the range part is 0 above the high quantile and negative below it; False: it is 0 below the low quantile and positive above it
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, 1)", high="(0, 1]", tail="[0, inf)", bundle="[1, inf)", rate="[0, inf)")
        if self.low >= self.high:
            raise UserError(f"BundledRisk.low is {self.low}, which is not below BundledRisk.high ({self.high}); set `low` to a number below {self.high}")
        if self.tail and not self.low:
            raise UserError(
                f"BundledRisk.low is 0, so no score is in the lower tail, but `tail` (the weight of such scores) is {self.tail}; set `low` above "
                "0, or set `tail` to 0"
            )

    def start(self) -> dict[str, Any]:
        return {"quantiles": []}

    def assign(self, groups: Sequence[Group], signals: Signals, state: dict[str, Any]) -> tuple[list[list[Credited]], dict[str, Any]]:
        if not groups:
            return [], state
        bundles = [[g.rewards for g in groups[at : at + self.bundle]] for at in range(0, len(groups), self.bundle)]
        scores = [paper_scores(rewards, size=self.bundle) for rewards in bundles]
        everything, levels = np.concatenate(scores), (self.low, self.high)
        old = state["quantiles"] or np.quantile(everything, levels).tolist()
        rows = [row for rewards, mine in zip(bundles, scores, strict=True) for row in self._bundle(rewards, mine, old)]
        moved = [tracked(q, everything, level=c, rate=self.rate) for q, c in zip(old, levels, strict=True)]
        return spread(groups, rows), {"quantiles": moved if state["quantiles"] else old}

    def _bundle(self, rewards: Sequence[np.ndarray], scores: np.ndarray, quantiles: Sequence[float]) -> list[np.ndarray]:
        """Returns the advantages [G] of the answers to each question of a bundle."""
        low, high = ((self.low, quantiles[0]), (self.high, quantiles[1]))
        papers = mixed_risk(scores, low=low, high=high, tail=self.tail, lowered=self.lowered) / deviation(scores, self.scale)
        gains = [r - r.mean() for r in rewards]
        spreads = np.array([deviation(r, "sample") for r in rewards])
        rows = [np.zeros(len(r)) for r in rewards]
        for g, advantage in enumerate(papers):
            for row, value in zip(rows, shares(advantage, np.array([x[g] for x in gains]), spreads, share=self.share), strict=True):
                row[g] = value
        return rows


risk_po = grpo.derive(
    "risk_po",
    "The advantage depends on the lower tail and the middle of the scores of bundled questions, with quantiles that are tracked over the run.",
    family="objectives",
    credit=BundledRisk(),
    objective__policy__ratio=SequenceRatio(),
    objective__policy__trust=Clip(0.2, 0.2),
    objective__kl=None,
    players__reference=None,
    update__count=4,
)

claims = (
    same_weights(
        says="With bundles of one question, the levels 0 and 1 and no tail part, the objective is the mean reward, and the final weights are equal.",
        source="arXiv:2510.00911, the range value at risk between the levels 0 and 1",
        against="risk_po --credit BatchBaseline --credit.baseline none",
        own={"credit.bundle": "1", "credit.tail": "0", "credit.low": "0", "credit.high": "1", "credit.scale": "none", "credit.lowered": "false"},
        fields={"prompts": "8", "group": "4", "study": "none"},
    ),
    Claim(
        says="Where problems have many right answers, the entropy after training is at least 0.05 nats above that of group-relative advantages.",
        source="arXiv:2510.00911, slower fall of entropy under risk aversion; the size of the effect and the task are ours",
        against="risk_po --credit GroupRelative",
        measure="entropy:last",
        better_by=0.05,
        ground="many_ways",
        fields={"prompts": "10"},
    ),
    Claim(
        says="The mean reward over 20 steps is at least 0.02 above that of group-relative advantages.",
        source="arXiv:2510.00911, RiskPO above GRPO on mathematics; the size of the effect and the task are ours",
        against="risk_po --credit GroupRelative",
        measure="reward:mean",
        better_by=0.02,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "10", "group": "10", "learning_rate": "3e-4", "warmup": "0", "study": "none"},
        budget="steps=20",
    ),
)
