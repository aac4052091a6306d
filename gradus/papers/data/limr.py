"""LIMR: after a recorded run, training starts again with the problems whose accuracy over the run moved like the average of all problems.

    a_k = mean_i r_(i,k)
    s_i = 1 - (sum_(k=1)^K (r_(i,k) - a_k)^2) / (sum_(k=1)^K (1 - a_k)^2)
    D = {i : s_i >= theta}

Stage `record` runs PPO on all problems for K = 21 passes. $r_(i,k)$ is the share of right answers at the k-th visit of problem i. The score $s_i$ is
1 if the curve of a problem equals the average curve a, and 0 if the problem is always solved. Stage `train` begins with the first weights again.
Stage `train` has as many steps as stage `record`, on D alone, with theta = 0.6. A visit without an answer takes the value of the next visit; a
problem that still has a gap is left out. A problem that is never solved is left out too, because its score is large if most problems are hard. A pass
counts only if all problems have finished it. Metrics: made/rows, the number of problems in D.

Use if: the same problems are used many times, and a smaller set is wanted for further runs.
Avoid if: only one run is planned, because the recording costs as much as a training (see mopps, difficulty_staged_rl), or every problem is new.
Reference: Li, Zou & Liu, LIMR: Less is More for RL Scaling, arXiv:2502.11886, section 2 and the released selection. In the paper theta = 0.6 keeps 1,389 of
8,523 problems. The authors train with KL coefficient 0.01, temperature 1.2, 8 answers per problem, one epoch per batch, and lambda = 0.95 in the
advantages. A batch of the released scripts has 1,024 problems in updates of 256 answers: `limr.but(update__count=32)`.
Departures: The reward is 1 for a right answer, else 0. In the paper a wrong answer earns -0.5, and an answer of a wrong form -1; the released scripts
normalise these rewards. The paper's curves show rewards; here, and in the released code, the curves show shares of right answers. Our own choices are
the pool of 64 problems (from a source without end), the number of steps, one update per batch, and the rule that leaves out unsolved problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.credit.gae import GAE
from gradus.credit.kl_penalty import KLPenalty
from gradus.curricula.rates import SuccessRates
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.schedules.harvests import accuracy_curves
from gradus.schedules.stages import FIRST, Stage, Stages
from gradus.types import Frozen, Group
from gradus.types.moments import Steps
from gradus.types.ranges import check_ranges

POOL = 64
LENGTH = Steps(21 * POOL // 16)  # 21 passes over the pool, with 16 problems per step


def impact(curves: np.ndarray) -> np.ndarray:
    """Returns the score s_i of each curve [N] of `curves` [N, K], which has no gaps. If all problems are always solved, every score is 0."""
    average = curves.mean(0) if len(curves) else 0.0
    largest = float(np.square(1 - average).sum())
    return 1 - np.square(curves - average).sum(1) / largest if largest else np.zeros(len(curves))


@dataclass(frozen=True)
class LearningImpact:
    """Selects the problems whose accuracy over the passes of the stage moves like the average. `impact` is a column of the rows."""

    theta: float = 0.6  # smallest score of a selected problem; -inf: every problem whose curve has no gap
    unsolved: bool = False  # whether problems that were never solved can be selected

    def __post_init__(self) -> None:
        check_ranges(self, theta="[-inf, 1]")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"impact"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per selected problem: the problem and its `impact`. Problems are in the order of their first visits."""
        problems, curves = accuracy_curves(groups)
        return [
            {"problem": problem, "impact": float(score)}
            for problem, curve, score in zip(problems, curves, impact(curves), strict=True)
            if score >= self.theta and (self.unsolved or curve.any() or self.theta == -np.inf)
        ]


limr = ppo.derive(
    "limr",
    "Training starts again on the problems whose accuracy over a recorded run moved like the average of all problems.",
    family="data",
    curriculum=SuccessRates(factor=1, pool=POOL),
    credit=KLPenalty(GAE(gamma=1.0, lam=0.95), 0.01, "k1"),
    update__epochs=1,
    schedule=Stages(
        Frozen(record=Stage(until=LENGTH, makes=LearningImpact(theta=0.6)), train=Stage(until=LENGTH, start=FIRST, task="made:record"))
    ),
    setting__temperature=1.2,
)

_RECORD = "schedule.stages.record"
_LADDER = {
    "prompts": "8", "group": "8", "eval_every": "0", "curriculum.pool": "32", f"{_RECORD}.until": "Steps(count=12)",
    "schedule.stages.train.until": "Steps(count=10)",
}  # fmt: skip

claims = (
    same_weights(
        says="With theta = -inf every problem is selected, and the final weights are those of a choice of all problems by pass rate.",
        source="arXiv:2502.11886, the selection with the lowest threshold",
        against=f"limr --{_RECORD}.makes PassRates --{_RECORD}.makes.highest 1",
        own={f"{_RECORD}.makes.theta": "-inf"},
        fields={
            "prompts": "4", "group": "4", "study": "none", "curriculum.pool": "8", f"{_RECORD}.until": "Steps(count=4)",
            "schedule.stages.train.until": "Steps(count=2)",
        },
        budget="steps=6",
    ),
    Claim(
        says=(
            "If four of five problems are trivial or impossible, the accuracy on the others after ten steps on the selected problems is at "
            "least that after ten steps on all problems."
        ),
        source="arXiv:2502.11886, table 2 (1,389 selected problems as good as 8,523); the ground and the numbers of steps are ours",
        against=f"limr --{_RECORD}.makes.theta -inf",
        measure="accuracy@middle",
        better_by=0.0,
        ground="ladder",
        fields=_LADDER,
        budget="steps=22",
    ),
)  # fmt: skip
