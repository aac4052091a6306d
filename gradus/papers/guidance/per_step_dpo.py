"""Per-step DPO: continuations from each step of a wrong answer show its first bad step, and DPO compares continuations that start before this step.

    Q_i = 1/n sum_j R(x, y_(1:i), y'_j), quad y'_j ~ pi(y | x, y_(1:i))
    A_i = Q_i - Q_(i-1), quad c = min {i : A_i <= -0.3} quad "or, if there is none," c = "argmin" A_i
    loss = -log sigmoid(beta (log (pi(y^+ | x, y_(1:c-1))) / (pi_ref(y^+ | x, y_(1:c-1))) - log (pi(y_(c:L) | x, y_(1:c-1))) / (pi_ref(y_(c:L) | x, y_(1:c-1)))))

The policy answers the problem x. The steps $y_1, ..., y_L$ of each wrong answer get values from n = 5 continuations after each step. $Q_i$ is the
mean reward R of the continuations after step i, and $Q_0$ is the mean reward from the prompt. $Q_L = 0$ is the reward of the wrong answer itself. The
first pit c is the first step with an advantage of -0.3 or less; if there is no such step, c is the step with the lowest advantage. The better text
$y^+$ is the first right continuation from before the pit. The worse text is the wrong answer from the pit on. Both texts follow the same prefix,
which gets no gradient. So the policy unlearns the step that fails, and keeps the steps before it.

An answer gives no pair if all its advantages are 0 or more, or if no continuation from before the pit is right. No update uses the sampled answers
and the other continuations. With n = 5, values are multiples of 0.2. A fall of 0.2 is within the noise, and 0.4 is the smallest fall beyond the bound. The
reference $pi_ref$ is the start model, which was fine-tuned on right answers. Metrics: pairs (per wrong answer), pit (mean number of the first pit, counted
from 1), value, spread.

Use if: answers have steps, wrong answers begin with right steps, and the policy sometimes continues these right steps to a right answer.
Avoid if: answers have one step (see dpo), a reward model of steps exists, or sampling is the bottleneck, because each step of a wrong answer costs 5
continuations.
Reference: Setlur et al., RL on Incorrect Synthetic Data Scales the Efficiency of LLM Math Reasoning by Eight-Fold, arXiv:2406.14532: advantages of
steps from continuations, pairs with a shared prefix before the first pit, DPO on wrong answers of the same model. The paper shows that this DPO is equivalent
to RL with the advantages of steps as weights.
Departures: The authors' repository (ars22/scaling-LLM-math-synthetic-data) has no code. Our own choices are n = 5, the bound -0.3, the rule for answers
without a pit, and beta 0.1. Answers come from the policy of each step; the paper samples them once from the fine-tuned model. Two stages come before:
fine-tuning on given answers (recipe sft), and on right answers of the model (recipe rft).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim
from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.spans import check_text, places, rows_of
from gradus.rollouts.values import Start, continued, mean_reward
from gradus.types import Frozen, Group, Request, Sampling, Trajectory
from gradus.types.parts import Rollout, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.spans import STEPS, Marking


def first_pit(values: Sequence[float], bound: float = -0.3) -> int | None:
    """Returns the number of the first pit, counted from 0; None if no step has a negative advantage.

    `values` [L + 1]: the value of the prompt, then of the end of each step.

    >>> first_pit([0.6, 0.7, 0.2, 0.0]), first_pit([0.6, 0.4, 0.2]), first_pit([0.0, 0.2, 0.2])
    (1, 0, None)
    """
    advantages = [round(b - a, 9) for a, b in pairwise(values)]
    deep = [i for i, a in enumerate(advantages) if a <= bound]
    lowest = min(advantages, default=0.0)
    return deep[0] if deep else advantages.index(lowest) if lowest < 0 else None


@dataclass(frozen=True)
class PitPairs:
    """Adds one pair per wrong answer. The better text is a right continuation that starts before the first pit (a step with a low advantage). The
    worse text is the wrong answer from the same place on. Pairs are auxiliary groups; no update uses the sampled answers."""

    rollout: Rollout = Auto()
    marking: Marking = STEPS
    count: int = 5  # number of continuations from the end of each step
    bound: float = -0.3  # the largest advantage of a pit
    plays: ClassVar[str] = "answers"
    asks_right: ClassVar[str] = "DemonstratedPairs"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)", bound="(-inf, 0]")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text, because steps are places in a text."""
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the judged groups of `rollout`, marked so that no update uses them."""
        groups = await rolled(self.rollout, requests, world)
        sampling = {r.problem.id: sampling_of(r, world) for r in requests}
        wrong = [t for g in groups for t in g.trajectories if t.failed is None and not t.right and t.actions]
        pairs = await asyncio.gather(*(self._pair(t, sampling[t.problem.id], world) for t in wrong))
        world.also([pair for pair in pairs if pair is not None])
        for pair in pairs:
            world.note("pairs", float(pair is not None))
        return [g.but(trajectories=tuple(t.but(trained=False) for t in g.trajectories)) for g in groups]

    async def _pair(self, wrong: Trajectory, sampling: Sampling, world: World) -> Group | None:
        """Returns the pair of a wrong answer; None if the answer has no pit, or no right continuation that starts before the pit."""
        (row,) = rows_of(self.marking, wrong, world)
        (context,) = wrong.contexts
        starts = [Start(wrong, context, at) for at in places(context, row)]
        tried = [await continued(start, self.count, sampling, world) for start in starts]
        values = [mean_reward(made, world) for made in tried]
        pit = first_pit([*values, wrong.value], self.bound)
        if pit is None:
            return None
        world.note("pit", pit + 1)
        right = next((one for one in tried[pit] if one.right), None)
        return None if right is None else pair_of(wrong, right, starts[pit].at)


def pair_of(wrong: Trajectory, right: Trajectory, at: int) -> Group:
    """Returns the pair of a right continuation and the last part of the wrong answer. Both parts begin after the first `at` tokens, and only tokens of
    these parts are trained."""
    (context,) = wrong.contexts
    said = int((context.action_positions < at).sum())
    chosen = np.zeros(len(context.sequence) - at, bool)
    chosen[context.action_positions[said:] - at] = True
    logprobs, versions = (None if rows is None else rows[said:] for rows in (context.logprobs, context.versions))
    rest = replace(
        context, tokens=context.sequence[at:].copy(), chosen=chosen, logprobs=logprobs, versions=versions, parent=(context, at),
        streams=Frozen({name: rows[said:] for name, rows in context.streams.items()}), rewards=(), seen=(),
    )  # fmt: skip
    better = right.but(id=f"{wrong.id}/better", trained=True)
    return Group(f"{wrong.id}/pair", (better, wrong.but(id=f"{wrong.id}/worse", contexts=(rest,))), pool=(better.value, wrong.value))


per_step_dpo = dpo.derive(
    "per_step_dpo",
    "DPO on a right continuation against the rest of a wrong answer, both from before the first step with a clear loss of value.",
    family="guidance",
    rollout=PitPairs(),
    objective__given=None,
)

_TERMS: Any = {
    "against": "dpo",
    "measure": "accuracy",
    "better_by": 0.05,
    "task": "arithmetic",
    "fields": {"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
    "budget": "steps=8",
    "problems": 60,
    "samples": 2,
}

claims = (
    Claim(
        says="After 8 steps of as many answers, accuracy on sums is at least 0.05 above that of DPO on whole answers.",
        source="arXiv:2406.14532, comparison with DPO on whole answers; the size of the effect, the task and the sizes are ours",
        options={"level": "3"},
        **_TERMS,
    ),
    Claim(
        says="After 8 steps from a model that was shown worked sums, accuracy on longer sums is at least 0.05 above that of DPO on whole answers.",
        source=(
            "arXiv:2406.14532, as above; stated again after a look at the first pits: most wrong answers of the built-in model have one step. The start "
            "model is the built-in one after 30 steps of supervised fine-tuning on worked sums"
        ),
        options={"level": "5"},
        script="benchmarks.warmed per_step_dpo",
        **_TERMS,
    ),
)
