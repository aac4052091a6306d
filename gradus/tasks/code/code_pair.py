"""The task code_pair: two players write one program at the same time. The helper sets a variable, and the main player prints a result with it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from gradus.tasks.code.pair_environment import CodePair, Pair
from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Sampling
from gradus.types.parts import Task

LEVELS = (1, 3)  # digits of the numbers of the sum


def code_pair(level: int = 1, turns: int = 1) -> Task:
    """Write a program of two lines as two players: `a=3+6`, and `print(a*2)` for the problem (3+6)*2. `level`: digits of the numbers in the sum, 1 to 3.

    `turns`: the players may write again after they have seen both lines and the output. The joint reward has four levels of 1/4 each (see `levels`).
    Raises: UserError for fewer than one turn.
    """
    environment = CodePair(limit=turns)
    source = Generated("code_pair", make, level, LEVELS)
    return Task(
        "code_pair",
        source,
        replace(source, held_out=True),
        environment=environment,
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about='two players write one program at once: "(3+6)*2" -> "a=3+6" and "print(a*2)"; level: digits; a turn is a line of each player',
        sampling=Sampling(max_tokens=24),
        level=level,
    )


def make(rng: Random, level: int) -> Draft:
    """Draws a sum and a factor. The solution has the lines of the helper and of the main player."""
    x, y = (rng.randint(10 ** (level - 1), 10**level - 1) for _ in range(2))
    factor = rng.randint(2, 20)
    helper, main = f"a={x}+{y}", f"print(a*{factor})"
    question = f"({x}+{y})*{factor}"
    solution, answer = f"{helper}\n{main}", (x + y) * factor
    pairs = demonstrated(Pair(str(answer), CodePair()), [solution])  # here one player writes both lines
    return Draft(question, answer, solution, question, Frozen(question=question, lines=(helper, main), demonstration=pairs))
