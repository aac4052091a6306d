"""Time-R1: questions about the months of events. The reward falls with the error in months, and factors punish an answer that contradicts itself.

    s(d) = e^(-a |d - d^*|)
    "inference:" s(d); quad "completion:" 0.5 s(d) + 0.5 e^(-3 a delta)
    "difference:" (0.25 s_1 + 0.25 s_2 + 0.5 e^(-a_d |n - n^*|)) P, quad "ordering:" (0.2 (s_1 + s_2 + s_3) + 0.4 c) P
    R = "accuracy" + 0.05 "valid" + 0.025 "form" + 0.025 "tags" - "no event" - "penalty"

d is a month of the answer, and $d^*$ is the right month; both are counted in months. n is the claimed number of months between two events; $a_d$ is a if n <
25, else 0.05. c is the share of right pairs among the three pairs of an order; each right pair counts 0.333. delta is the error of the completed year, or of
the completed month; months are counted around the year, so December is next to January.

P compares the answer with the months that the answer itself gives. Difference: $P = e^(-a_p |n - "own gap"|)$, where $a_p$ is 0.1 if n < 25, else 0.1
* 25 / n. Ordering: P is 1, 0.7, 0.4 or 0.2 for 3, 2, 1 or 0 pairs that agree with the answer's own months. P is multiplied by 0.2 if the three months
are equal, rise month by month in the order 1-2-3, or fall month by month in the order 3-2-1. So a policy cannot guess the second part alone.

The rate a is 0.1 for easy problems. For hard problems (level `hard_from` or more), the schedule keeps the rate 0.07 for 100 steps, then raises it to
0.1 over 50 steps. "valid" is 1 if all parts of an answer have their forms. Otherwise "valid" and the accuracy are 0. "No event" costs 0.1, and an
answer without its parts costs 0.2. There is a penalty for length (from 900 words on) and a penalty for repetition. Only the larger of the two counts.
Apart from this, the method is GRPO with 5 answers and a KL weight of 0.001.

Use if: answers are numbers or dates, a near miss deserves a part of the reward, and the parts of an answer can contradict each other.
Avoid if: only exact answers count, or the error has no scale.
Reference: Liu et al., Time-R1: Towards Comprehensive Temporal Reasoning in LLMs, arXiv:2505.13508, section 3, and the released code
(ulab-uiuc/Time-R1): reward_score/time_reasoning.py and time_prediction.py, read wholly (decays, factors, forms, penalties), main_ppo_s1_p3.py (the
rate from 0.07 to 0.1 in 50 steps), and stage1_phase3.sh (group 5, KL weight 0.001, learning rate 2e-6).
Departures: Phase 1 (inference on easy problems) is a separate run: `--task dates --task.kinds inference --task.level 1`; this recipe has phases 2 and
3. Stage 2 has the same reward with `--reward.no_event 0.2 --reward.missing 0.3`. Stage 3 trains nothing and is left out. The numbers of steps of the
phases are our choices. Repetition counts equal words in a row and equal runs of five words; the released code also searches phrases. Parts are
separated by blanks. The last tag counts; in the released code the first tag counts. Tags need no line break and no end token. The level gives one
rate per problem, not one per event.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import ClassVar

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.beside_verdict import Terms, beside_verdict
from gradus.rewards.combine import Combines
from gradus.rewards.tags import in_tags
from gradus.schedules.ramp import Ramp
from gradus.types import Group, Problem, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_FORMS = {"difference": r"[0-9]{1,4}", "ordering": r"(?!.*([123]).*\1)[123]-[123]-[123]", "completion": r"[0-9]{1,4}"}  # forms of the last part
_SHAPES = {"difference": r"(\d{4}-\d\d ){2}\d+", "ordering": r"(\d{4}-\d\d ){3}\d-\d-\d", "completion": r"\d{4}-\d\d \S+"}
_ENTITIES = {"year": range(1900, 2101), "month": range(1, 13)}  # the allowed answers to a completion
_AGREE = {3: 1.0, 2: 0.7, 1: 0.4, 0: 0.2}


def months(text: str) -> int | None:
    """Returns the number of months since the year 0 of a text such as "2003-05"; None for another text."""
    found = _MONTH.fullmatch(text)
    return int(found[1]) * 12 + int(found[2]) - 1 if found else None


def agreement(order: str, dates: Sequence[int]) -> int:
    """Returns how many of the three pairs of events are in the right order, if `order` (such as "2-1-3") is compared with their months. Equal months agree
    with the order 1-2-3."""
    place = {int(event) - 1: at for at, event in enumerate(order.split("-"))}
    return sum((place[i] < place[j]) == ((dates[i], i) < (dates[j], j)) for i, j in combinations(range(3), 2))


def difference(said: Sequence[int], due: Sequence[int], claimed: int, rate: float) -> tuple[float, float]:
    """Returns the accuracy of a difference without P, and P. The months are numbers.

    >>> start = months("2020-01")
    >>> [round(x, 4) for x in difference((start, start + 9), (start, start + 6), 9, 0.1)]
    [0.8056, 1.0]
    """
    far = 0.05 if claimed >= 25 else rate
    parts = sum(0.25 * math.exp(-rate * abs(a - b)) for a, b in zip(said, due, strict=True))
    own = 0.1 * min(1.0, 25 / claimed) if claimed >= 25 else 0.1
    return parts + 0.5 * math.exp(-far * abs(claimed - abs(due[1] - due[0]))), math.exp(-own * abs(claimed - abs(said[1] - said[0])))


def ordering(said: Sequence[int], due: Sequence[int], order: str, right: str, rate: float) -> tuple[float, float]:
    """Returns the accuracy of an ordering without P, and P."""
    ranks = [right.split("-").index(str(i + 1)) for i in range(3)]
    accuracy = 0.2 * sum(math.exp(-rate * abs(a - b)) for a, b in zip(said, due, strict=True)) + 0.4 * 0.333 * agreement(order, ranks)
    step = {"1-2-3": 1, "3-2-1": -1}.get(order)
    plain = len(set(said)) == 1 or said[1] - said[0] == said[2] - said[1] == step
    return accuracy, _AGREE[agreement(order, said)] * (0.2 if plain else 1.0)


def completion(date: float, said: int, due: int, rate: float, hides: str) -> float:
    """Returns the accuracy of a completion. `date`: s of its month; `said`, `due`: the year, or the number of the month."""
    apart = abs(said - due)
    return 0.5 * date + 0.5 * math.exp(-3 * rate * (apart if hides == "year" else min(apart, 12 - apart)))


def penalty(text: str) -> float:
    """Returns the larger of the penalties for length and for repetition."""
    words = text.split()
    length = 0.3 * min(1.0, (len(words) - 900) / 124) if len(words) > 900 else 0.0
    row = max((len(list(same)) for _, same in groupby(words)), default=0) if len(words) > 50 else 0
    runs = [tuple(words[i : i + 5]) for i in range(min(len(words) - 5, 500))] if len(words) > 200 else []
    equal = max(0.5 - len(set(runs)) / len(runs), 0.0) if runs else 0.0
    return max(length, 0.1 * min(5, row - 4) if row >= 5 else 0.0, equal)


@dataclass(frozen=True)
class Closeness(Combines):
    """The reward of months (see `time_r1`). A problem without the column `parts` gets the task's verdict as its reward."""

    easy: float = 0.1  # the rate a of easy problems, 1 / month
    hard: float = 0.07  # the rate a of hard problems
    hard_from: int = 3  # the level from which a problem is hard
    consistency: bool = True  # False: P is 1
    no_event: float = 0.1
    missing: float = 0.2
    form: float = 1.0  # factor on all rewards and penalties of form
    name: ClassVar[str] = "closeness"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, easy="[0, inf)", hard="[0, inf)", no_event="[0, inf)", missing="[0, inf)", form="[0, inf)")

    def accuracy(self, problem: Problem, said: str) -> Mapping[str, float]:
        """Returns the accuracy, P, whether all parts have their forms, and the error of the last month in months. P and the error are missing if a
        part does not have its form."""
        kind, due, parts = problem.meta["category"], list(problem.meta["parts"]), said.split()
        count = {"inference": 1, "difference": 2, "ordering": 3, "completion": 1}[kind]
        dates = [n for part in parts[:count] if (n := months(part)) is not None]
        rest = parts[count:]
        fits = len(dates) == count and (len(rest) == 1 and re.fullmatch(_FORMS[kind], rest[0]) if kind in _FORMS else not rest)
        if not fits or (kind == "completion" and int(rest[0]) not in _ENTITIES[problem.meta["hides"]]):
            return {"accuracy": 0.0, "valid": 0.0}
        right = [n for part in due[:count] if (n := months(part)) is not None]
        rate = self.hard if float(problem.meta.get("difficulty", 0)) >= self.hard_from else self.easy
        own = 1.0
        if kind == "difference":
            value, own = difference(dates, right, int(rest[0]), rate)
        elif kind == "ordering":
            value, own = ordering(dates, right, rest[0], due[3], rate)
        else:
            value = math.exp(-rate * abs(dates[0] - right[0]))
            value = completion(value, int(rest[0]), int(due[1]), rate, problem.meta["hides"]) if kind == "completion" else value
        return {"accuracy": value * own if self.consistency else value, "agrees": own, "valid": 1.0, "months": float(abs(dates[-1] - right[-1]))}

    def absent(self, kind: str, said: str) -> float:
        """Returns the cost of an answer without its parts, or of "no event"."""
        if not said or (kind in _SHAPES and not re.fullmatch(_SHAPES[kind], " ".join(said.split()))):
            return self.missing
        return self.no_event if kind not in _SHAPES and re.search("no event|none", said.lower()) else 0.0

    def terms(self, trajectory: Trajectory, verdict: float) -> Terms | None:
        if "parts" not in trajectory.problem.meta:
            return None
        text = trajectory.completion
        said = ("", *_ANSWER.findall(text))[-1].strip()
        parts = self.accuracy(trajectory.problem, said)
        shape = 0.025 * in_tags(text, ("think", "answer")) + 0.025 * 0.33 * sum(text.count(tag) == 1 for tag in ("</think>", "<answer>", "</answer>"))
        cost = self.absent(trajectory.problem.meta["category"], said) + penalty(text)
        return parts["accuracy"] + self.form * (0.05 * parts["valid"] + shape - cost), parts

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await beside_verdict(groups, world, self.terms)


time_r1 = grpo.derive(
    "time_r1",
    "The reward falls with the error in months, and factors lower it if an answer contradicts its own months.",
    family="rewards",
    reward=Closeness(),
    objective__kl__coefficient=0.001,
    schedule=Ramp("reward.hard", ((100, 0.07), (150, 0.1))),
    setting__group=5,
)

_DATES = {"prompts": "8", "group": "5", "warmup": "0", "study": "none", "learning_rate": "3e-4", "schedule": "ConstantSchedule"}

claims = (
    same_weights(
        says="With the task's verdict, exact answers only, the final weights are those of GRPO with the same KL weight.",
        source="arXiv:2505.13508, exact answers",
        against="grpo --objective.kl.coefficient 0.001",
        own={"reward": "Verified", "schedule": "ConstantSchedule"},
    ),
    Claim(
        says="With P, the mean agreement of answers with their own months is after 15 steps at least 0.03 above that without P.",
        source="arXiv:2505.13508, consistency factors against contradictions; task, start model, sizes and bound are ours",
        against="time_r1 --reward.consistency false",
        measure="reward/agrees:last",
        better_by=0.03,
        task="dates",
        options={"kinds": "difference,ordering", "level": "2"},
        fields=_DATES,
        budget="steps=15",
        script="benchmarks.warmed time_r1",
    ),
)
