"""Shuffled passes that leave some problems out: duplicates, problems whose answer is too frequent in the step, or problems of some tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradus.curricula.shuffled_epochs import problems_at, sweep_order
from gradus.types import Key, Problem, Request, UserError
from gradus.types.parts import Source, Task, World
from gradus.types.ranges import check_ranges

_TRIES = 50  # largest number of left-out problems per requested problem; after that, `BalancedBatch` ignores its conditions
_ROW = 1000  # largest number of problems that `Without` draws in a step per requested problem; after that, it raises an error


def drawn_until(
    source: Source,
    count: int,
    world: World,
    first: int,
    level: float | None,
    keep: Callable[[list[Problem], list[Problem], int], list[Problem]],
) -> tuple[list[Problem], int]:
    """Draws problems in the order of `ShuffledEpochs`, from index `first` on, until `count` problems are kept. Returns the kept problems and the next index.

    `keep(kept, new, drawn)` returns `kept`, followed by the problems of `new` that it keeps. `drawn` is the number of problems that were drawn before `new`.
    The metric `left_out` is the share of the drawn problems that were left out.
    """
    at, found = first, list[Problem]()
    while len(found) < count:
        order = sweep_order(source.size, range(at, at + count - len(found)), world.seed)
        found = keep(found, problems_at(source, order, world, level), at - first)
        at += len(order)
    world.note("left_out", 1 - count / (at - first))
    return found, at


@dataclass(frozen=True)
class BalancedBatch:
    """Requests the problems of `ShuffledEpochs` at `level`, without duplicates and without problems whose answer is too frequent in the step.

    In a request for n problems, each answer occurs at most ceil(most * n) times. If 50 n problems were left out, the next problems are taken without these
    conditions, even if they are duplicates.

    Reference: Lacombe, Quesnel & Sileo, Reasoning Core, arXiv:2509.18083.
    """

    level: float | None = None  # level of generated tasks; for a level such as 1.5, each problem gets level 1 or 2 at random; None: the task's level
    most: float = 0.5  # largest share of a batch with one answer; 1: no limit
    unique: bool = True  # whether a batch has different prompts
    group: int | None = None  # samples per problem; None: `group` of the setting

    def __post_init__(self) -> None:
        check_ranges(self, level="[0, inf)", most="(0, 1]", group="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task lacks the level."""
        if self.level is not None:
            task.source.draw([0], self.level, Key())

    def start(self) -> dict[str, int]:
        return {"drawn": 0}

    def choose(self, source: Source, count: int, world: World, state: dict[str, int]) -> tuple[list[Request], dict[str, int]]:
        """Returns `count` requests. The state is the number of problems that were drawn, including problems that were left out."""

        def keep(found: list[Problem], new: list[Problem], drawn: int) -> list[Problem]:
            limited = drawn - len(found) < _TRIES * count
            return balanced_answers([*found, *new], count, self.most, self.unique) if limited else [*found, *new]

        found, at = drawn_until(source, count, world, state["drawn"], self.level, keep)
        return [Request(problem, count=self.group or world.group) for problem in found], {"drawn": at}


def balanced_answers(problems: Sequence[Problem], count: int, most: float, unique: bool = True) -> list[Problem]:
    """Returns the problems in their order, but at most ceil(most * count) problems with the same answer.

    With `unique`, a problem with the prompt of an earlier problem is left out, too. A problem without an answer has no limit.
    """
    limit, answers, prompts, out = math.ceil(most * count), Counter[str](), set[str](), list[Problem]()
    for problem in problems:
        prompt = str(problem.text if problem.text is not None else problem.messages)
        if (unique and prompt in prompts) or (problem.answer is not None and answers[str(problem.answer)] >= limit):
            continue
        out.append(problem)
        prompts.add(prompt)
        answers[str(problem.answer)] += 1
    return out


@dataclass(frozen=True)
class Without:
    """Requests the problems of `ShuffledEpochs`, without the problems of the tasks in `left_out`."""

    left_out: tuple[str, ...] = ("hidden_question",)  # names of tasks
    group: int | None = None  # samples per problem; None: `group` of the setting

    def __post_init__(self) -> None:
        check_ranges(self, group="[1, inf)")

    def start(self) -> dict[str, int]:
        return {"drawn": 0}

    def choose(self, source: Source, count: int, world: World, state: dict[str, int]) -> tuple[list[Request], dict[str, int]]:
        """Returns `count` requests. The state is the number of drawn problems. Raises UserError if 1000 * `count` problems do not fill the step."""

        def keep(found: list[Problem], new: list[Problem], drawn: int) -> list[Problem]:
            if drawn > _ROW * count:
                raise UserError(
                    f"curriculum.left_out names {', '.join(self.left_out)}, and the last {drawn} problems all came from these tasks; add "
                    "another task to the mixture, or set --curriculum ShuffledEpochs in place of Without"
                )
            return [*found, *(p for p in new if p.task not in self.left_out)]

        found, at = drawn_until(source, count, world, state["drawn"], None, keep)
        return [Request(problem, count=self.group or world.group) for problem in found], {"drawn": at}
