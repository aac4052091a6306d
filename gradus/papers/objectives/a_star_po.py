"""A*-PO: estimates the optimal value of each problem from answers of the start model, then fits the log-ratio of single answers to r - V.

    V(x) = beta_1 log(1/N sum_(i=1)^N exp(r_i/beta_1))
    loss = mean over answers of (beta_2 sum_t [log pi(y_t) - log pi_ref(y_t)] - (r - V(x)))^2

The optimum of $E[r] - beta KL(pi, pi_ref)$ is $pi^** (y) = pi_ref(y) exp((r - V^**)/beta)$, with $V^** (x) = beta log E_(y ~ pi_ref)[exp(r/beta)]$.
So the log-ratio of the optimal policy, times beta, is the advantage $r - V^**$ of every answer. $pi_ref$ is the start model, $y_t$ are the tokens of
an answer, and r is its reward.

Stage `values`: the start model answers each problem N = 8 times with rewards $r_i$; no weight changes. With $beta_1$ = 0.5 the value lies between the
mean (large $beta_1$) and the maximum (small $beta_1$) of the rewards. The rows that the stage makes have this value in the column `optimal_value`.

Stage `fit`: the policy answers each of these problems once per pass. There is no critic, no group, no clip and no other KL term. $beta_2$ = 0.001 is
far below $beta_1$: $beta_1$ smooths the value, and $beta_2$ is the strength of the KL. Least squares need no bonus for exploration, because the
policy itself draws the answers. A batch is cut into two mini-batches. With 32 steps of `values` and 100 of `fit`, the policy makes 25 passes over the
problems. Metrics: fit_error, fit_log_ratio.

Use if: the problems are a fixed set that is passed many times, and long answers make groups expensive.
Avoid if: each problem is seen once or twice, because N answers for its value then cost as much as a group (see grpo, rloo).
Reference: Brantley et al., Accelerating RL for LLM Reasoning with Optimal Advantage Regression, arXiv:2505.20686, algorithm 1. The released scripts
have N = 8, beta_1 0.5, beta_2 0.001, temperature 1, 25 passes (MATH), and batches of 256 answers with two updates at rate 1e-6.
Departures: Stage `values` covers only the problems that its 32 steps draw. A step of stage `fit` has as many answers as a step of stage `values`. The
largest reward is subtracted before the exponential, so that a small beta_1 does not overflow. The released code adds an entropy bonus of 0.001
(`--objective.entropy EntropyBonus --objective.entropy.coefficient 0.001`). The loss of the paper does not have this bonus. With this beta_2 the
gradient of the loss is so small that the bonus has a visible effect. In the released code beta_1 = 0 gives the mean, and a negative beta_1 gives V =
0; here both values are refused, and `inf` gives the mean. The released option to leave out problems that are never solved is
`--schedule.stages.values.makes.solved true`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.groups import spread
from gradus.curricula.shuffled_epochs import Once, ShuffledEpochs
from gradus.objectives.regression import LogRatioRegression
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.schedules.harvests import OPTIMAL_VALUE, OptimalValues
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Group, Problem, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Credited, Signals
from gradus.types.players import Copy, Player
from gradus.types.signals import Signal


@dataclass(frozen=True)
class OptimalAdvantage:
    """Gives every action the reward of its trajectory minus the problem's `optimal_value`."""

    needs: ClassVar[tuple[Signal, ...]] = ()
    columns: ClassVar[frozenset[str]] = frozenset({OPTIMAL_VALUE})

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [np.array([t.value - value_of(t.problem) for t in g.trajectories]) for g in groups])


def value_of(problem: Problem) -> float:
    """Returns the problem's `optimal_value`. Raises UserError if this value is not a number."""
    value = problem.meta.get(OPTIMAL_VALUE)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(
            f'problem {problem.id}: "{OPTIMAL_VALUE}" is {value!r}; it must be a number; add a stage with makes=OptimalValues(), which writes '
            "this number"
        )
    return float(value)


SAMPLING = Frozen({"curriculum": ShuffledEpochs(group=8), "objective": None, "credit": None})
"""The fields that differ in stage `values`: eight answers per problem, and nothing learns."""

a_star_po = reinforce.derive(
    "a_star_po",
    "Optimal values are estimated once from the start model; then log-ratios of single answers are fitted to r - V.",
    family="objectives",
    curriculum=Once(),
    credit=OptimalAdvantage(),
    objective=Frozen(policy=LogRatioRegression(beta=0.001)),
    players__reference=Player(Copy("policy")),
    update__count=2,
    schedule=Stages(
        Frozen(
            values=Stage(until=Steps(32), changes=SAMPLING, makes=OptimalValues(0.5)),
            fit=Stage(until=Steps(100), task="made:values"),
        )
    ),
)

claims = (
    Claim(
        says="At the start model, with the factor 1/(2 beta_2), the gradient of the regression is that of the policy gradient with V as baseline.",
        source="arXiv:2505.20686, the loss of stage 2 at log-ratio 0",
        against=(
            "a_star_po --objective.policy PolicyGradient --objective.policy.trust Unclipped --objective.policy.average SequenceSum "
            "--objective.policy.coefficient 1"
        ),
        own={"objective.policy.coefficient": "500"},
        measure="grad_norm:mean",
        at_least=0.9999,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "learning_rate": "0", "study": "none"},
        budget="steps=6",
        seeds=2,
    ),
    Claim(
        says="With half of GRPO's answers, those of the first stage included, held-out accuracy is at least 0.97 times GRPO's.",
        source=(
            "arXiv:2505.20686, abstract and experiments (as good as GRPO in half the time); the task, 64 problems, 12 passes and the size of the "
            "effect are ours"
        ),
        against="grpo --prompts 8",
        own={"schedule.stages.values.until": "Steps(count=16)", "schedule.stages.fit.until": "Steps(count=24)"},
        measure="accuracy",
        at_least=0.97,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "eval_every": "0", "learning_rate": "3e-4", "study.problems": "16"},
        budget="steps=40",
        problems=128,
        samples=2,
    ),
)
