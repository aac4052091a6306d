"""ACE-RL: each writing instruction has its own checklist, and the reward is the mean grade over the checklist plus a length reward.

    R = (R_con + R_len) / 2
    R_con = 1/m sum_(j=1)^m g_j, quad g_j in {0, 1/2, 1}
    R_len = 1 "if" |l - L| <= delta L, "else" exp(-(|l - L| / L - delta) / 0.25)
    A_i = (R_i - mean(R)) / (std(R))

A strong model writes the checklist once, from the stated demands of the instruction (explicit constraints) and from its intent, audience and kind of
text (implicit constraints). The checklist is stored with the instruction, so it is the same in every epoch. A verifier model gives each constraint
the grade 0 (not met), 1/2 or 1 (met). l is the length of the answer in words, L is the length that the instruction asks for, and delta = 0.1. An answer
that the sampling limit cuts off has R_len = 0. Apart from this, the method is GRPO with a KL coefficient of 0.001.

One grade for the whole answer, such as 1 to 10, differs less within a group than the mean over a checklist. The shorter the checklist, the larger the
spread; 3 to 6 constraints are enough.

Use if: instructions for long texts have several demands, and no reference texts or preferences exist.
Avoid if: a single verdict suffices (see grpo), or all checklists are the same (because the rubric of mpo_meta is then simpler).
Reference: Chen et al., ACE-RL: Adaptive Constraint-Enhanced Reward for Long-form Generation Reinforcement Learning, arXiv:2509.04903: checklists,
three grades, length reward, GRPO.
Departures: Only the abstract and summaries were read; the released code (ZNLP/ACE-RL) could not be read. Our own choices are the equal weights, the form of
the decay, delta and the KL coefficient. The checklist is the problem's column `checklist`, or comes from the task's verifier; the model that writes it
is not part of the recipe. L is the column `length`, or comes from the task's verifier. For a problem without L, R = R_con / 2. Words are separated by
spaces; the text begins after the last "=" in tasks whose answers have a draft. The judge is a copy of the start model, unless `--players.judge.model` names
another model. In the claims, every problem asks for a number of words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.checklist import Checklist
from gradus.rewards.combine import Combines, Sum
from gradus.rewards.judge import WrittenPoints
from gradus.types import NOT_APPLICABLE, Ended, Frozen, Group, Outcome, Problem, Trajectory
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.players import Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def length_score(words: int, wanted: float, *, delta: float = 0.1, width: float = 0.25) -> float:
    """Returns 1 within the share `delta` of the wanted length, else exp(-(|l - L| / L - delta) / width).

    >>> length_score(105, 100), round(length_score(135, 100), 4)
    (1.0, 0.3679)
    """
    apart = abs(words - wanted) / wanted
    return 1.0 if apart <= delta else math.exp(-(apart - delta) / width)


@dataclass(frozen=True)
class AskedLength(Combines):
    """The score of an answer's length in words (see `length_score`); 0 for an answer that the sampling limit cuts off. The score does not apply to a
    problem without a wanted length.

    The wanted length is the problem's column `length`, or comes from the function `length` of the task's verifier.
    """

    delta: float = 0.1
    width: float = 0.25
    name: ClassVar[str] = "length"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, delta="[0, inf)", width="(0, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[self.value(t, world.task) for t in g.trajectories] for g in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]

    def value(self, t: Trajectory, task: Task) -> Outcome:
        wanted = length_of(t.problem, task)
        if wanted is None or wanted <= 0:
            return NOT_APPLICABLE
        if t.contexts and t.contexts[-1].ended in (Ended.LENGTH, Ended.CONTEXT):
            return 0.0
        return length_score(len(t.completion.rpartition("=")[2].split()), wanted, delta=self.delta, width=self.width)


def length_of(problem: Problem, task: Task) -> float | None:
    """Returns the wanted length in words; None if the problem has none."""
    given = problem.meta.get("length")
    if given is None:
        found: Callable[[Problem], float | None] | None = getattr(task.verify, "length", None)
        return None if found is None else found(problem)
    return float(given)


ace_rl = grpo.derive(
    "ace_rl",
    "Each instruction has its own checklist, and the reward is the mean grade over the checklist plus a length reward.",
    family="rewards",
    reward=Sum(Frozen(checklist=Checklist(WrittenPoints(), grades=2), length=AskedLength()), Frozen(checklist=0.5, length=0.5)),
    objective__kl__coefficient=0.001,
    players__judge=Player(),
    requires=frozenset({"checklist"}),
)

_SCRIPT = {"reward.parts.checklist.judge": "ScriptedPoints"}

claims = (
    same_weights(
        says="With the task's verdict in place of checklist and length, the final weights are those of GRPO.",
        source="arXiv:2509.04903, without its reward",
        against="grpo --objective.kl.coefficient 0.001",
        task="instructions",
        own={"reward": "Verified"},
    ),
    Claim(
        says="On texts with a number of words, a first and a last word, the share of held-out constraints met after 20 steps is at least 0.03 above one verdict's.",
        source=(
            "arXiv:2509.04903, comparison with one grade by the same judge; stated again before a measurement, with a wanted length in every problem; task, judge "
            "and the size of the effect are ours"
        ),
        against="ace_rl --reward Verified",
        measure="held_out/reward:last",
        better_by=0.03,
        task="instructions",
        options={"level": "2", "kinds": "words,first,last"},
        fields={
            "prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", "study.reward": "Checklist", "study.reward.judge": "ScriptedPoints",
            "study.problems": "64",
            "study.greedy": "false",
        },
        own=_SCRIPT,
        budget="steps=20",
    ),
)  # fmt: skip
