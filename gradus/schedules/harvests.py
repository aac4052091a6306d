"""Makes data from the trajectories of a stage: right answers to imitate, pairs to compare, problems with a low pass rate, or optimal values of problems.

Every class reads only whole answers that the player `policy` sampled in one turn. Failed, untrained and auxiliary trajectories are left out.
Answers that a limit cut off are left out, too, unless the class says otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from gradus.types import Ended, Group, Problem, Trajectory
from gradus.types.ranges import check_ranges

OPTIMAL_VALUE = "optimal_value"  # the column of `OptimalValues`
_CUT = (Ended.LENGTH, Ended.CONTEXT, Ended.TRUNCATED)


@dataclass(frozen=True)
class RightAnswers:
    """Makes demonstrations from the first (or shortest) `most` different right answers to each problem. Each answer is the `solution` of a row.

    The method is rejection sampling as in Zelikman et al., STaR, arXiv:2203.14465, and Yuan et al., RFT, arXiv:2308.01825.
    """

    most: int = 1  # largest number of answers per problem
    shortest: bool = False  # the shortest right answers (in characters) instead of the first ones

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per answer: the problem and its `solution`. Problems are in the order of their first right answers."""
        found: dict[str, tuple[Problem, dict[str, None]]] = {}
        for answer in answers(groups):
            if answer.right:
                found.setdefault(answer.problem.id, (answer.problem, {}))[1][answer.completion] = None
        chosen = ((p, sorted(texts, key=len) if self.shortest else list(texts)) for p, texts in found.values())
        return [{"problem": problem, "solution": text} for problem, texts in chosen for text in texts[: self.most]]


@dataclass(frozen=True)
class RightAndWrong:
    """Makes up to `most` pairs per problem. Pair i has the i-th different right answer (`chosen`) and the i-th different wrong answer (`rejected`).

    If a judge is random, it may judge the same answer as right once and as wrong once. Pairs do not contain such an answer.
    """

    most: int = 1  # largest number of pairs per problem

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"chosen", "rejected"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per pair: the problem, `chosen` and `rejected`. Problems are in the order of their first answers."""
        found: dict[str, tuple[Problem, dict[str, set[bool]]]] = {}
        for answer in answers(groups):
            found.setdefault(answer.problem.id, (answer.problem, {}))[1].setdefault(answer.completion, set()).add(answer.right)
        rows: list[Mapping[str, Any]] = []
        for problem, texts in found.values():
            right, wrong = ([text for text, verdicts in texts.items() if verdicts == {verdict}] for verdict in (True, False))
            pairs = list(zip(right, wrong, strict=False))[: self.most]
            rows += [{"problem": problem, "chosen": better, "rejected": worse} for better, worse in pairs]
        return rows


@dataclass(frozen=True)
class AllPairs:
    """Makes all pairs of two different answers of a group with different rewards: `chosen` has the higher reward. Ranks can be compared only within a
    group."""

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"chosen", "rejected"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per pair, in the order of the groups."""
        pairs = [sorted(pair, key=lambda t: -t.value) for group in groups for pair in combinations(answers([group]), 2)]
        return [
            {"problem": a.problem, "chosen": a.completion, "rejected": b.completion} for a, b in pairs if a.value > b.value and a.completion != b.completion
        ]


@dataclass(frozen=True)
class PassRates:
    """Selects the problems whose pass rate lies in [`least`, `highest`]. The pass rate is over all answers of the stage to the problem.

    The pass rate is the column `pass_rate` of the rows.

    With the defaults, at most half of the answers to a selected problem are right. Answers that a limit cut off count here, too.
    """

    least: float = 0.0
    highest: float = 0.5

    def __post_init__(self) -> None:
        check_ranges(self, least="[0, 1]", highest="[0, 1]")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"pass_rate"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per problem: the problem and its `pass_rate`. Problems are in the order of their first answers."""
        found: dict[str, tuple[Problem, list[bool]]] = {}
        for answer in answers(groups, cut=True):
            found.setdefault(answer.problem.id, (answer.problem, []))[1].append(answer.right)
        rated = ((problem, sum(verdicts) / len(verdicts)) for problem, verdicts in found.values())
        return [{"problem": p, "pass_rate": rate} for p, rate in rated if self.least <= rate <= self.highest]


def optimal_value(rewards: Sequence[float] | np.ndarray, *, beta: float) -> float:
    """Returns beta log mean exp(r / beta) of the rewards [N]. For beta = inf this is their mean; for a small beta it is close to their maximum."""
    found = np.asarray(rewards, np.float64)
    top = float(found.max())
    if beta == float("inf"):
        return float(found.mean())
    return top + beta * float(np.log(np.exp((found - top) / beta).mean()))


@dataclass(frozen=True)
class OptimalValues:
    """Makes one row per problem, with the `optimal_value` of its answers in the stage. Answers that a limit cut off count, too."""

    beta: float = 0.5  # temperature, in units of the reward
    solved: bool = False  # True: leaves out problems whose rewards are all 0

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf]")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({OPTIMAL_VALUE})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns the rows. Problems are in the order of their first answers."""
        found: dict[str, tuple[Problem, list[float]]] = {}
        for answer in answers(groups, cut=True):
            found.setdefault(answer.problem.id, (answer.problem, []))[1].append(answer.value)
        kept = [(problem, rewards) for problem, rewards in found.values() if any(rewards) or not self.solved]
        return [{"problem": problem, OPTIMAL_VALUE: optimal_value(rewards, beta=self.beta)} for problem, rewards in kept]


@dataclass(frozen=True)
class AnswersAndRewards:
    """Keeps the stage's answers to each problem in `answers`, and their rewards in `rewards`. Offline methods use such data (see `RecordedAnswers`)."""

    most: int | None = None  # largest number of answers per problem; None: all answers
    least: int = 2  # problems with fewer answers are left out

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)", least="[1, inf)")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"answers", "rewards"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per problem: the problem, `answers` (texts) and `rewards` (numbers, in the same order)."""
        found: dict[str, tuple[Problem, list[Trajectory]]] = {}
        for answer in answers(groups):
            found.setdefault(answer.problem.id, (answer.problem, []))[1].append(answer)
        kept = [(problem, given[: self.most]) for problem, given in found.values() if len(given) >= self.least]
        return [{"problem": problem, "answers": [t.completion for t in given], "rewards": [t.value for t in given]} for problem, given in kept]


@dataclass(frozen=True)
class AnswersThatAgree:
    """Keeps those answers to a problem that have the most frequent last step, if at least `agree` answers have this step.

    Each kept answer is a `solution`. No verdict is used.

    The last step is the last word of an answer; "=" separates words, too.
    Reference: He et al., Skill-Targeted Adaptive Training (STAT-Syn), arXiv:2510.10023.
    """

    agree: int = 2

    def __post_init__(self) -> None:
        check_ranges(self, agree="[1, inf)")

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"solution"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns one row per kept answer: the problem and its `solution`."""
        found: dict[str, tuple[Problem, list[str]]] = {}
        for answer in answers(groups):
            found.setdefault(answer.problem.id, (answer.problem, []))[1].append(answer.completion)
        return [{"problem": problem, "solution": text} for problem, texts in found.values() for text in agreed(texts, self.agree)]


def agreed(texts: Sequence[str], agree: int) -> list[str]:
    """Returns the texts with the most frequent last step, if at least `agree` texts have this step. If several last steps are equally frequent, the
    first one counts."""
    ends = [(text.replace("=", " ").split() or [""])[-1] for text in texts]
    (end, count), *_ = Counter(ends).most_common(1) or [("", 0)]
    return [text for text, last in zip(texts, ends, strict=True) if last == end] if count >= agree else []


def answers(groups: Iterable[Group], *, cut: bool = False) -> Iterator[Trajectory]:
    """Yields the judged and trained answers, not empty, that the policy itself sampled in one turn. `cut`: whether to include the answers that a limit cut off."""
    for group in groups:
        for t in group.trajectories if not group.aside else ():
            whole = len(t.contexts) == 1 and t.completion.strip() != "" and "turn" not in t.contexts[0].streams
            kept = t.player == "policy" and t.source == "policy" and t.trained and t.failed is None
            if kept and whole and (cut or t.ended not in _CUT):
                yield t


def accuracy_curves(groups: Iterable[Group]) -> tuple[list[Problem], np.ndarray]:
    """Returns the problems, in the order of their first visits, and the share of right answers to each problem at each visit, float64 [N, K].

    K is the smallest number of visits of a problem. Answers that a limit cut off count. If a visit has no answer, it gets the value of the next visit. If a
    problem still has a gap after this, it is left out.
    """
    found: dict[str, tuple[Problem, list[float]]] = {}
    for group in (g for g in groups if not g.aside and g.trajectories):
        problem = group.trajectories[0].problem
        verdicts = [answer.right for answer in answers([group], cut=True)]
        found.setdefault(problem.id, (problem, []))[1].append(float(np.mean(verdicts)) if verdicts else float("nan"))
    count = min((len(curve) for _, curve in found.values()), default=0)
    whole = [(p, curve) for p, visits in found.values() if not np.isnan(curve := filled(visits[:count])).any()]
    return [p for p, _ in whole], np.array([curve for _, curve in whole], np.float64).reshape(len(whole), count)


def filled(curve: Sequence[float]) -> np.ndarray:
    """Returns the curve with each gap (NaN) replaced by the next value, [K]. A gap at the end, or before another gap, stays."""
    values = np.array(curve, dtype=np.float64)
    after = np.append(values[1:], np.nan)
    return np.where(np.isnan(values), after, values)
