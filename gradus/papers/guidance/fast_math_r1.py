"""Fast-Math-R1: a long stage of SFT raises accuracy to its ceiling; a short stage of GRPO with rewards for length keeps the accuracy and shortens the
answers.

    R = R_form + R_cos + R_len
    R_form = (1 if a boxed answer occurs before </think>; 0 otherwise)
    R_cos = (0.1 + 0.45 (1 + cos(pi u)) if right; -0.1 - 0.45 (1 + cos(pi u)) if wrong), quad u = min(1, n / 30000)
    R_len = (lambda if right; min(0, lambda) if wrong), quad lambda = 1/2 - (n - min(n)) / (max(n) - min(n))

n is the number of characters of an answer, and min and max are over the group. In the line of R_cos, pi is the number 3.14.... A right answer gets from 1.0
(short) to 0.1 (long), a wrong answer from -1.0 (short) to -0.1 (long). There is no other reward for a right answer. R_form lets a server stop at the first boxed
answer. If all answers of a group have the same length, R_len is 0.

The first stage imitates worked solutions of hard problems for many epochs. The second stage is GRPO: groups of 8, 40 steps, the KL term 0.04 to the model of the
first stage, and a learning rate that falls along a cosine. A test takes the majority: `--search Majority`.

Use if: long worked solutions exist, and accuracy and length both matter.
Avoid if: no solutions exist (see grpo). If only the length matters, use `grpo --reward GroupLength`.
Reference: Yoshihara et al., A Practical Two-Stage Recipe for Mathematical LLMs: Maximizing Accuracy with SFT and Efficiency with Reinforcement Learning,
arXiv:2507.08267, sections 3 and 4. The released code (analokmaus/kaggle-aimo2-fast-math-r1) has 40 steps of GRPO. The first stage of this code is planned for
20 epochs and ends at step 350; the paper reports about 10 epochs.
Departures: R_len compares lengths within a group; the released code compares all answers of one call. The deviation of the group is the
population's deviation, without an added constant; the code has the sample's deviation plus 1e-4. The loss is the mean over answers, as in GRPO; the
code takes the mean over the tokens of a small batch. The code samples with top_p 0.9 and min_p 0.05, and packs sequences of 24,000 tokens; both are
left out here. If texts have only about 100 characters, set `limit` near this length, because R_cos is nearly constant otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.length import CosineLength, group_lengths, right_of
from gradus.rewards.reshaped import reshaped
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Group, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class AnswerBefore(Combines):
    """The reward is 1 if a text of the form `answer` occurs before the text `end`, else 0. Without the text `end` the value is 0."""

    answer: str = r"oxed\{.*?\}"  # regular expression of the answer
    end: str = "</think>"
    name: ClassVar[str] = "form"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        try:
            re.compile(self.answer)
        except re.error as error:
            raise UserError(f"AnswerBefore.answer is not a regular expression: {error}; put a backslash before a literal bracket") from None

    def value(self, completion: str) -> float:
        """Returns the value of a completion."""
        found = re.search(self.answer, completion, re.DOTALL)
        return float(found is not None and self.end in completion[found.end() :])

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        values = [[self.value(t.completion) for t in g.trajectories] for g in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in values]


def characters_of(group: Group) -> np.ndarray:
    """Returns the numbers of characters [G] of the completions."""
    return np.array([len(t.completion) for t in group.trajectories], np.float64)


CURVES = CosineLength(right=(1.0, 0.1), wrong=(-1.0, -0.1), exceeds=None)


@dataclass(frozen=True)
class CharacterCosine(Combines):
    """R_cos: the reward `curve` with numbers of characters as lengths. Answers of more than `limit` characters get the reward at the limit."""

    curve: CosineLength = CURVES
    limit: int = 30000
    name: ClassVar[str] = CosineLength.name

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.curve.needs

    def check(self, task: Task) -> None:
        check_reward(self.curve, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        def rule(judged: Sequence[Group]) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
            found = [self.curve.values(characters_of(g), right_of(g), self.limit) for g in judged]
            return [(values, {"length": values}) for values in found]

        return await reshaped(self.curve.reward, groups, signals, world, rule)


@dataclass(frozen=True)
class CharacterLength(Combines):
    """Adds R_len to `reward`: the length reward of Kimi k1.5 (`group_lengths`), with the numbers of characters as lengths."""

    reward: Reward = CharacterCosine() + AnswerBefore()
    name: ClassVar[str] = "group_length"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        def rule(judged: Sequence[Group]) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
            found = [group_lengths(characters_of(g), right_of(g)) for g in judged]
            return [(g.rewards + values, {"length": values}) for g, values in zip(judged, found, strict=True)]

        return await reshaped(self.reward, groups, signals, world, rule)


fast_math_r1 = grpo.derive(
    "fast_math_r1",
    "A long stage of SFT, then a short stage of GRPO with rewards that shorten right answers.",
    family="guidance",
    reward=CharacterLength(),
    optimizer__decay="cosine",
    schedule=Stages(Frozen(imitate=Stage(sft, Steps(350)), shorten=Stage(until=Steps(40)))),
    requires=frozenset({"solution"}),
)

_SMALL = {"prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "64", "study.greedy": "false"}
_STEPS = {"schedule.stages.imitate.until": "Steps(count=40)", "schedule.stages.shorten.until": "Steps(count=20)"}

claims = (
    Claim(
        says="With verbose solutions the answers are at most 0.75 times as long as after as much SFT and GRPO with a reward for right answers alone.",
        source="arXiv:2507.08267, abstract and table of lengths (accuracy kept, fewer tokens); the task, the steps and the factor are ours",
        against="sft:40,grpo:20",
        measure="length",
        at_most=0.75,
        fields=_SMALL,
        own={**_STEPS, "reward.reward.parts.cosine_length.limit": "200"},
        task="arithmetic",
        options={"level": "2", "repeats": "4"},
        budget="steps=60",
        problems=100,
    ),
    Claim(
        says="The accuracy is at least 0.02 above that of a short first stage of 5 steps with as many steps of GRPO.",
        source="arXiv:2507.08267, ablation of the number of epochs; the task, the steps and the size of the effect are ours",
        against=(
            "fast_math_r1 --schedule.stages.imitate.until Steps(count=5) --schedule.stages.shorten.until Steps(count=20) "
            "--reward.reward.parts.cosine_length.limit 200"
        ),
        measure="accuracy",
        better_by=0.02,
        fields=_SMALL,
        own={**_STEPS, "reward.reward.parts.cosine_length.limit": "200"},
        task="arithmetic",
        options={"level": "2", "repeats": "4"},
        budget="steps=60",
        problems=100,
    ),
)
