"""The pre-training corpus of the built-in models: solutions, in several styles, of problems that are never held out.

All solutions are correct, except those of planted_subsequence: a model that has read its few secrets once knows them all.

Every task has a short style, easy to imitate and hard to get right, and a worked style, longer and reliable. Pre-training begins with
mostly worked solutions and ends with mostly short ones. So the model knows both styles and prefers the wrong one; reinforcement learning
then has to find the better one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from gradus.tasks.code.code_output import code_output
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.tasks.games.twenty_questions import twenty_questions
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.maths.running_sum import running_sum
from gradus.tasks.maths.tables import tables
from gradus.tasks.puzzles.countdown import attempt, countdown, rules, text
from gradus.tasks.puzzles.graphs import graphs
from gradus.tasks.puzzles.keychain import keychain
from gradus.tasks.puzzles.knights_knaves import knights_knaves
from gradus.tasks.puzzles.logic import logic
from gradus.tasks.puzzles.planning import planning
from gradus.tasks.puzzles.planted_subsequence import LETTERS, planted_subsequence
from gradus.tasks.puzzles.sat import sat
from gradus.tasks.puzzles.sorting import sorting
from gradus.tasks.puzzles.sudoku import sudoku
from gradus.tasks.puzzles.token_chain import token_chain
from gradus.tasks.puzzles.zebra import zebra
from gradus.tasks.text.classification import classification
from gradus.tasks.text.facts import facts
from gradus.tasks.text.forging import forging
from gradus.tasks.text.forum import forum
from gradus.tasks.text.hidden_question import hidden_question
from gradus.tasks.text.induction import induction
from gradus.tasks.text.instructions import instructions
from gradus.tasks.text.masked_text import masked_text
from gradus.tasks.text.multiple_choice import multiple_choice
from gradus.tasks.text.ranking import ranking
from gradus.tasks.text.recommendation import recommendation
from gradus.tasks.text.safety import safety
from gradus.tasks.text.stories import stories
from gradus.tasks.text.string_ops import string_ops
from gradus.tasks.text.summaries import summaries
from gradus.tasks.text.transfer import transfer
from gradus.tasks.text.translation import translation
from gradus.types import Key, Problem
from gradus.types.parts import Task

SHORT_FROM = 0.85  # share of the training after which the shares `late` of short solutions hold
HINTED = 0.1  # share of the countdown problems with a hint


Dialogue = tuple[tuple[str, str], ...]
"""(message of the user, answer of the assistant) of every turn."""


@dataclass(frozen=True)
class Share:
    """One task of the corpus. `early` and `late`: share of short solutions at the beginning and at the end."""

    task: Task
    weight: float  # share of the examples
    levels: dict[int, float]  # level -> weight
    worked: Callable[[Problem, random.Random], str]
    short: Callable[[Problem, random.Random], str]
    early: float = 0.0
    late: float = 0.0


def answer_only(problem: Problem, rng: random.Random) -> str:
    """The text after the last "=" of the worked solution."""
    return "=" + str(problem.meta["solution"]).rpartition("=")[2]


def solution(problem: Problem, rng: random.Random) -> str:
    return str(problem.meta["solution"])


def searched(problem: Problem, rng: random.Random) -> str:
    """Up to three attempts at a countdown problem that miss the target, then one that reaches it."""
    numbers, level = problem.meta["numbers"], problem.meta["difficulty"]
    _, _, largest, operations = rules(level)
    missed: list[str] = []
    for _ in range(rng.randint(0, 3)):
        steps = attempt(rng, numbers, operations, largest)
        if len(steps) == len(numbers) - 1 and steps[-1][3] != problem.answer:
            missed.append(text(steps))
    return ";".join([*missed, str(problem.meta["solution"])])


def base() -> tuple[Share, ...]:
    """The tasks of the model `base` with their shares; most examples have the default level of the task."""
    return (
        Share(string_ops(), 0.28, {1: 0.25, 2: 0.25, 3: 0.5}, solution, answer_only, 0.0, 0.66),
        Share(arithmetic(), 0.24, {1: 0.1, 2: 0.2, 3: 0.6, 4: 0.1}, solution, answer_only, 0.05, 0.65),
        Share(countdown(), 0.14, {1: 0.15, 2: 0.7, 3: 0.05, 4: 0.1}, searched, solution, 0.50, 0.85),
        Share(knights_knaves(), 0.16, {1: 0.2, 2: 0.7, 3: 0.1}, solution, answer_only, 0.0, 0.95),
        Share(running_sum(), 0.08, {6: 0.4, 12: 0.3, 20: 0.3}, solution, solution),
        Share(frozen_lake(), 0.06, {1: 0.5, 2: 0.5}, solution, solution),
        Share(twenty_questions(), 0.04, {1: 0.5, 2: 0.5}, solution, solution),
    )


def told(task: Task, weight: float, late: float) -> Share:
    """A task with worked solutions, and with short ones at the share `late` at the end; levels 1 and 2."""
    return Share(task, weight, {1: 0.35, 2: 0.65}, solution, answer_only, 0.0, late)


def puzzles() -> tuple[Share, ...]:
    """Boards, houses, plans and orders."""
    return (told(sudoku(), 0.25, 0.7), told(zebra(), 0.3, 0.7), told(planning(), 0.25, 0.7), told(sorting(), 0.2, 0.7))


def formal() -> tuple[Share, ...]:
    """Formulas, clauses and graphs."""
    return (told(logic(), 0.3, 0.8), told(sat(), 0.25, 0.8), told(graphs(), 0.45, 0.8))


def words() -> tuple[Share, ...]:
    """Classes, choices, constraints, links and made-up languages."""
    return (
        told(classification(), 0.2, 0.8),
        told(multiple_choice(), 0.2, 0.8),
        told(instructions(), 0.25, 0.8),
        told(keychain(), 0.1, 0.8),
        told(translation(), 0.25, 0.4),
    )


def passages() -> tuple[Share, ...]:
    """Short texts and tables: what they say, what they are worth, what they ask for."""
    return (
        told(summaries(), 0.1, 0.0),
        told(safety(), 0.05, 0.9),
        told(stories(), 0.1, 0.0),
        told(ranking(), 0.2, 0.6),
        told(tables(), 0.2, 0.6),
        told(forum(), 0.1, 0.9),
        Share(masked_text(), 0.08, {1: 0.8, 2: 0.2}, solution, solution),
        Share(recommendation(), 0.12, {1: 0.1, 2: 0.9}, solution, solution),
        Share(facts(), 0.02, {1: 1.0}, solution, solution),
    )


def random_trace(problem: Problem, rng: random.Random) -> str:
    """A trace of random letters. It rarely contains the secret sequence."""
    return "".join(rng.choices(LETTERS, k=problem.meta["length"]))


def programs() -> tuple[Share, ...]:
    """Programs, functions, chains of digits, rules and secrets."""
    return (
        Share(code_output(), 0.2, {1: 0.35, 2: 0.65}, solution, solution),
        Share(token_chain(), 0.2, {1: 0.8, 2: 0.2}, solution, solution),
        told(transfer(), 0.25, 0.3),
        Share(hidden_question(), 0.15, {1: 1.0}, solution, answer_only, 0.0, 0.8),
        Share(induction(), 0.08, {2: 1.0}, solution, solution),
        Share(forging(), 0.07, {2: 1.0}, solution, solution),
        Share(planted_subsequence(), 0.05, {1: 0.35, 2: 0.65}, solution, random_trace, 0.7, 0.7),
    )


CORPORA: dict[str, Callable[[], tuple[Share, ...]]] = {
    "base": base,
    "puzzles": puzzles,
    "formal": formal,
    "words": words,
    "passages": passages,
    "programs": programs,
}
"""The built-in models, each with the tasks of its corpus."""


def example(shares: tuple[Share, ...], index: int, progress: float, key: Key) -> Dialogue:
    """Dialogue number `index` at the share `progress` of the training, 0 to 1."""
    rng = key.fold("example", index).random()
    share = rng.choices(shares, [s.weight for s in shares])[0]
    level = rng.choices(list(share.levels), list(share.levels.values()))[0]
    (problem,) = share.task.source.draw([index], level, key)
    prompt = problem.question
    if "demonstration" in problem.meta:
        (first, action), *rest = problem.meta["demonstration"]
        return ((f"{prompt}\n{first}" if first else prompt, action), *rest)
    if "hints" in problem.meta and rng.random() < HINTED:
        parts = problem.meta["hints"][rng.choice(("knowledge", "planning", "solution"))]
        return ((f"{prompt}\nhint: {''.join(parts[: rng.randint(1, 4)])}", solution(problem, rng)),)
    late = progress >= SHORT_FROM
    write = share.short if rng.random() < (share.late if late else share.early) else share.worked
    return ((prompt, write(problem, rng)),)
