"""Metis-RISE: RL first, without a cold start; then SFT on the problems that are still solved rarely or never.

    s = right / K, quad K = 8 answers of the RL model to each problem
    s = 1: nothing
    0 < s < 1: the shortest right answer of the model itself is added to the data
    s = 0: the worked solution of an expert is added to the data
    stages: RL (DAPO), then K answers per problem, then SFT on the data, from the RL model

RL activates the abilities of the model. The model's own right answers teach it to be right each time, and expert solutions teach missing abilities.
The RL stage is DAPO: clip from 0.2 below to 0.28 above, no KL term, a mean over tokens, only groups with right and wrong answers, and the penalty for
overlong answers over the last quarter of the limit. The second stage only measures: its learning rate is 0. The third stage starts from the RL weights.

Use if: the start model solves a part of the problems by itself, and an expert's solutions exist for the other problems.
Avoid if: the model solves almost nothing (see sft, luffy), or no solutions exist (see dapo). To imitate only the policy's own answers, see rft.
Reference: Qiu et al., Metis-RISE: RL Incentivizes and SFT Enhances Multimodal Reasoning Model Learning, arXiv:2506.13056 (RL without cold
start, then self-distilled and expert-augmented SFT). We read a summary, but not the paper. The public repository
(MM-Thinking/Metis-RISE) has no code of the training.
Departures: The shortest right answer and the numbers of steps are our choices. The 16 updates per batch and the verdict 1 or -1 come from DAPO, which
is also our choice. A task's worked solution replaces the stronger model. The reward has no points for the form. The policy reads pictures if its
model does (task shapes); the method does not depend on the kind of input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gradus.papers.bases.dapo import dapo
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim
from gradus.rewards.overlong import Overlong
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import answer_text
from gradus.schedules.harvests import answers
from gradus.schedules.stages import Stage, Stages
from gradus.selection.filters import Everything
from gradus.types import Frozen, Group, Problem
from gradus.types.moments import Steps


@dataclass(frozen=True)
class Repairs:
    """Makes demonstrations by pass rate: the shortest right answer if some answers to a problem are right, and the worked solution if no answer is
    right.

    Problems that are always solved give no row. Unsolved problems without a solution give no row, either. Answers that a limit cut off count as wrong.
    """

    own: bool = True  # False: only unsolved problems give rows
    expert: bool = True  # False: only problems solved in part give rows

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns at most one row per problem, in the order of the problems' first answers."""
        found: dict[str, tuple[Problem, list[tuple[bool, str]]]] = {}
        for t in answers(groups, cut=True):
            found.setdefault(t.problem.id, (t.problem, []))[1].append((t.right, t.completion))
        texts = ((problem, self._text(problem, given)) for problem, given in found.values())
        return [{"problem": problem, "solution": text} for problem, text in texts if text is not None]

    def _text(self, problem: Problem, given: list[tuple[bool, str]]) -> str | None:
        right = [text for is_right, text in given if is_right]
        if len(right) == len(given):
            return None
        if right:
            return min(right, key=len) if self.own else None
        return answer_text(problem, "solution") if self.expert and problem.meta.get("solution") is not None else None


LOOK = Frozen({"setting.learning_rate": 0.0, "rollout": Auto(), "selection": Everything(), "update.count": 1})

metis_rise = dapo.derive(
    "metis_rise",
    "RL first, then SFT on own right answers to problems solved in part, and on expert solutions of unsolved problems.",
    family="guidance",
    reward=2 * Verified() - 1 + Overlong(share=0.25),
    schedule=Stages(
        Frozen(
            rl=Stage(until=Steps(100)),
            look=Stage(until=Steps(16), changes=LOOK, makes=Repairs()),
            repair=Stage(sft, Steps(50), task="made:look"),
        )
    ),
    setting__group=8,
)

_STEPS = {"schedule.stages.rl.until": "Steps(count=10)", "schedule.stages.look.until": "Steps(count=6)", "schedule.stages.repair.until": "Steps(count=10)"}
_SMALL = {"prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "64", "study.greedy": "false"}

claims = (
    Claim(
        says="Where the policy almost never solves a problem, RL followed by repairs has an accuracy at least 0.3 above that of as many steps of RL alone.",
        source="arXiv:2506.13056, ablation of the SFT stage; the task, the steps and the size of the effect are ours",
        against="dapo --update.count 1",
        measure="accuracy",
        better_by=0.3,
        task="keychain",
        options={"level": "3"},
        fields=_SMALL,
        own={**_STEPS, "update.count": "1"},
        budget="steps=26",
        problems=60,
    ),
    Claim(
        says="On string functions, repairs with own and expert answers end at least 0.02 above repairs with own answers only.",
        source="arXiv:2506.13056, section 3 (expert data for what the model cannot do); the task, the steps and the size of the effect are ours",
        against="metis_rise --schedule.stages.look.makes.expert false",
        measure="accuracy",
        better_by=0.02,
        task="string_ops",
        options={"level": "4"},
        fields={**_SMALL, **_STEPS, "update.count": "1"},
        budget="steps=26",
        problems=100,
    ),
)
