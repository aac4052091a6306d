"""FAPO: a right answer with a wrong step earns less than a clean answer. So a flawed answer helps while the policy is weak, and becomes rare later.

    R = 1 "if the answer is right and clean;" 1 - lambda "if it is right and flawed;" -1 "if it is wrong"
    A_i = (R_i + overlong_i - mean(R + overlong)) / (std(R + overlong))
    A_flawed prop N - P, quad lambda = 1

An answer is flawed if its result is right but a step is wrong. A detector, a generative reward model, reads the problem, the reference answer and the
steps, and names the first wrong step, or -1. The detector is asked only about right answers. If the detector's text has no readable index, the answer
counts as clean. With lambda = 1, the rewards are 1, 0 and -1. Let N be the number of wrong answers in the group, and P the number of clean right answers.
Then the advantage of a flawed answer has the sign of N - P. So training makes flawed answers more likely as long as wrong answers outnumber clean
answers, and less likely afterwards. No schedule is needed.

The detector learns by RL, too; the function `located` computes its reward. An unreadable output, a wrong "no error" and a wrong "error" give -1; a right "no
error" gives 1. If one of the n steps is wrong and t* is the first wrong step, an index t gives 1 - |t - t*| / n. The clip has the bounds 0.2 and 0.28 and the
ceiling 10, the loss is a mean over tokens, there is no KL term, and the penalty for length is as in DAPO. A batch is cut into 16 mini-batches.
Training uses all groups.

Use if: answers reach right results by wrong steps, and a detector of wrong steps exists.
Avoid if: the result determines the steps, or the detector is worse than chance on right answers (see dapo).
Reference: Ding et al., FAPO: Flawed-Aware Policy Optimization for Efficient and Reliable Reasoning, arXiv:2510.22543: the rewards, lambda = 1, and
the condition on N and P. The released code (yyDing1/FAPO) has 8 answers to each of 512 problems in mini-batches of 32 problems, the buffer 4096 for
overlong answers, and the learning rate 1e-6; the detector has 16 answers at temperature 1.2.
Departures: Steps are lines (`--reward.parts.flaws.cascade.then.steps.separator`); the released code gives the whole solution to the detector. The
last whole number of the detector's text is the index; the released code reads the index from a \\boxed{}. An index outside the steps counts as clean;
in the released code it counts as a flaw. If the detector gives no reply, a right answer has failed; in the released code such an answer counts as
clean. The recipe for the detector is left out, because no task has solutions with labelled errors; only the detector's reward is here (`located`). The
released code samples each batch once, so the further sampling and the selection of dapo are left out. The penalty for length grows over the last fifth of the
sampling limit, as in dapo; in the released script it grows over the last half. Claims use a scripted detector without errors. The two claims about an effect
have two updates per batch, because 16 mini-batches would have only 4 answers each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.objectives.trust import DualClip
from gradus.papers.bases.dapo import dapo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.cascade import Cascade
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.judged import JudgedSteps
from gradus.rollouts.auto import Auto
from gradus.selection.filters import Everything
from gradus.types import Failed, Frozen, Group, NotApplicable, Outcome
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.players import Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def located(text: str, first: int, count: int) -> float:
    r"""Returns the detector's reward for a text whose last \boxed{} has the index of the first wrong step. `first`: the true index, -1 without an error;
    `count`: the number of steps.

    >>> [round(located(rf"so \boxed{{{t}}}", first, 10), 4) for t, first in ((5, 3), (-1, 3), (-1, -1), (4, -1))], located("5", 3, 10)
    ([0.8, -1.0, 1.0, -1.0], -1.0)
    """
    boxed = re.match(r"\s*(-?[0-9]{1,6})\s*\}", text.rpartition("\\boxed{")[2]) if "\\boxed{" in text else None
    index = count if boxed is None else int(boxed[1])
    if not -1 <= index < count or (index < 0) != (first < 0):
        return -1.0
    return 1.0 if first < 0 else 1.0 - abs(index - first) / count


@dataclass(frozen=True)
class OfReached(Cascade):
    """A cascade: `first` judges all answers, and `then` judges only the answers that have a value of at least `bound` under `first`."""

    def sent(self, value: Outcome) -> bool:
        return not isinstance(value, Failed | NotApplicable) and value >= self.bound


@dataclass(frozen=True)
class Flaws(Combines):
    """The reward is minus `penalty` for a right answer with a wrong step, and 0 for every other answer. Only right answers reach the detector. Metric:
    `flawed`, the share of right answers with a wrong step."""

    cascade: Cascade = OfReached(JudgedSteps())
    penalty: float = 1.0
    name: ClassVar[str] = "flaws"

    def __post_init__(self) -> None:
        check_ranges(self, penalty="[0, 2]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.cascade.needs

    def check(self, task: Task) -> None:
        check_reward(self.cascade, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[self.judged(j, world) for j in row] for row in await self.cascade.score(groups, signals, world)]

    def judged(self, found: Judgement, world: World) -> Judgement:
        clean = found.components.get(JudgedSteps.name)
        if isinstance(found.reward, Failed):
            return Judgement(found.reward, Frozen({self.name: found.reward}))
        if not isinstance(clean, int | float):
            return Judgement(0.0, Frozen({self.name: 0.0}))
        world.note("flawed", 1 - clean)
        value = self.penalty * (clean - 1)
        return Judgement(value, Frozen({self.name: value}), extra=found.extra)


fapo = dapo.derive(
    "fapo",
    "A right answer with a wrong step earns less than a clean answer, so it helps a weak policy and becomes rare later.",
    family="rewards",
    reward=dapo.reward + Flaws(),
    rollout=Auto(),
    selection=Everything(),
    objective__policy__trust=DualClip(0.2, 0.28, 10.0),
    players__detector=Player(),
)

_DETECTOR = {
    "reward.parts.flaws.cascade.then.judge": "ScriptedJudge", "reward.parts.flaws.cascade.then.steps": "Separated(separator='[ =]')",
}  # fmt: skip

claims = (
    same_weights(
        says="With lambda = 0, the final weights are those of DAPO without further sampling.",
        source="arXiv:2510.22543, at lambda = 0",
        against='dapo --rollout Auto --selection Everything --objective.policy.trust "DualClip(low=0.2, high=0.28, ceiling=10)"',
        task="flawed",
        options={"level": "2", "letters": "1"},
        own={**_DETECTOR, "reward.parts.flaws.penalty": "0"},
    ),
    Claim(
        says="After 20 steps on answers whose steps training does not check, the share of held-out answers with only right steps is at least 0.1 above lambda = 0.",
        source=(
            "arXiv:2510.22543, main results (fewer flawed answers than with the outcome reward); stated again after a first measurement, in which 16 updates per "
            "batch of 64 answers took both arms to 0.04; ground, detector, two updates per batch and the size of the effect are ours"
        ),
        against="fapo --reward.parts.flaws.penalty 0",
        measure="accuracy",
        better_by=0.1,
        ground="flawed",
        fields={**_DETECTOR, "update.count": "2"},
        seeds=3,
    ),
    Claim(
        says="On the same answers, the share of flawed answers among the right ones of the last step is at most 0.7 times that at lambda = 0.",
        source="arXiv:2510.22543, ratio of flawed positives; stated again as the claim above; ground, detector and the factor are ours",
        against="fapo --reward.parts.flaws.penalty 0",
        measure="flawed:last",
        at_most=0.7,
        ground="flawed",
        fields={**_DETECTOR, "update.count": "2"},
        seeds=3,
    ),
)
