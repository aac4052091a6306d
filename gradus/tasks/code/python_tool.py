"""The task python_tool: questions that a Python tool helps to answer. `with_python` adds a Python tool to any one-turn task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from gradus.environments.python_tool import LIMITS, PythonTool
from gradus.sandbox import Sandbox, isolation_named
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Sampling, UserError
from gradus.types.parts import Task

INSTRUCTION = "Use Python. Write python: code, or answer: number"
LEVELS = (1, 4)
SLIP = "SyntaxError: unmatched ')'"  # the result of a program with a typing error


@dataclass(frozen=True)
class Question:
    """A kind of question. `words` and `code` contain {a} and {b}. `value` computes the answer by another method than `code`."""

    words: str
    code: str
    value: Callable[[int, int], int]
    most: int = 99  # largest b


def python_tool(
    level: int = 2, limit: int = 4, isolation: str = "bubblewrap", instruction: bool = True, slips: float = 0.0, words: float = 0.0
) -> Task:
    """Makes the task: compute a number that is hard to compute without a program. `level`: 1 to 4; a higher level has larger numbers.

    `limit`: number of turns. `isolation`: "bubblewrap", or "rlimits". With `isolation` "rlimits", only resources are limited, so a program can read and write
    every file that you can. `instruction`: whether the prompt says how to write programs and answers; turn it off for a recipe with its own tools.

    `slips`: the share of the demonstrations whose first program has a typing error; the second program is right. `words`: the share of the questions that
    are easy without a program (the column `needs` is "words", else "code"). Raises: UserError for an unknown isolation, or for a share out of range.
    """
    for name, share in (("slips", slips), ("words", words)):
        if not 0 <= share <= 1:
            raise UserError(f"task python_tool: {name} is {share}; give a share from 0 to 1")
    source = Generated("python_tool", partial(make, instruction=instruction, slips=slips, words=words), level, LEVELS)
    return Task(
        "python_tool",
        source,
        replace(source, held_out=True),
        environment=PythonTool(Sandbox(isolation_named(isolation), LIMITS), limit=limit),
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="compute a number that needs a program; a turn is a program, run in a sandbox, or the answer",
        sampling=Sampling(max_tokens=96),
        level=level,
    )


def with_python(task: Task, *, sandbox: Sandbox = Sandbox(limits=LIMITS), limit: int = 4) -> Task:
    """Turns a one-turn task into a task of several turns with a Python tool. The task's verifier judges the text after "answer:".

    Raises UserError for a task without a verifier, or with its own environment.
    """
    if task.verify is None or task.environment is not None:
        reason = "has its own environment" if task.environment is not None else "has no verifier"
        raise UserError(f"task {task.name} {reason}; a Python tool needs a task of one turn with a verifier")
    environment = PythonTool(sandbox, task.verify, limit=limit)
    return replace(task, verify=None, environment=environment, about=f"{task.about}; with a Python tool")


def make(rng: Random, level: int, instruction: bool = True, slips: float = 0.0, words: float = 0.0) -> Draft:
    """Draws a question. The demonstration runs the code and gives the output as the answer."""
    easy = words > 0 and rng.random() < words
    kinds = EASY if easy else QUESTIONS
    kind = rng.choice(sorted(kinds))
    question = kinds[kind]
    a, b = rng.randint(5 * 4**level, 20 * 4**level), rng.randint(2, min(9 + level, question.most))
    asked, code, value = question.words.format(a=a, b=b), question.code.format(a=a, b=b), question.value(a, b)
    pairs = [("", f"answer: {value}")] if easy else [("", f"python: {code}"), (str(value), f"answer: {value}")]
    if slips > 0 and not easy and rng.random() < slips:
        pairs = [("", f"python: {code})"), (SLIP, pairs[0][1]), pairs[1]]
    needs = {"needs": "words" if easy else "code"} if words else {}
    meta = Frozen(question=asked, category=kind, demonstration=pairs, **needs)
    return Draft(f"{INSTRUCTION}\n{asked}" if instruction else asked, str(value), "\n".join(action for _, action in pairs), asked, meta)


def _digit_sum(a: int, b: int) -> int:
    total, rest = 0, a**b
    while rest:
        rest, digit = divmod(rest, 10)
        total += digit
    return total


def _primes(a: int, b: int) -> int:
    composite = {n for i in range(2, math.isqrt(a) + 1) for n in range(i * i, a, i)}
    return max(a - 2, 0) - len(composite)


def _fibonacci(a: int, b: int) -> int:
    one, two = 0, 1
    for _ in range(a):
        one, two = two, (one + two) % 10**6
    return one


def _collatz(a: int, b: int) -> int:
    return 0 if a == 1 else 1 + _collatz(a // 2 if a % 2 == 0 else 3 * a + 1, b)


QUESTIONS: Mapping[str, Question] = Frozen(
    digits=Question("What is the sum of the digits of {a} to the power {b}?", "sum(map(int, str({a}**{b})))", _digit_sum),
    primes=Question("How many primes are below {a}?", "sum(all(n % i for i in range(2, n)) for n in range(2, {a}))", _primes),
    multiples=Question(
        "What is the sum of the multiples of {b} below {a}?",
        "sum(range(0, {a}, {b}))",
        lambda a, b: b * ((a - 1) // b) * ((a - 1) // b + 1) // 2,
    ),
    squares=Question(
        "What is the sum of the squares of 1 to {a}, modulo 1000{b}?",
        "sum(i * i for i in range(1, {a} + 1)) % 1000{b}",
        lambda a, b: a * (a + 1) * (2 * a + 1) // 6 % int(f"1000{b}"),
    ),
    divisors=Question(
        "How many divisors has {a} times {b}?",
        "sum({a} * {b} % i == 0 for i in range(1, {a} * {b} + 1))",
        lambda a, b: sum(1 + (i * i != a * b) for i in range(1, math.isqrt(a * b) + 1) if a * b % i == 0),
    ),
    power=Question("What is {b} to the power {a}, modulo 10007?", "{b}**{a} % 10007", lambda a, b: pow(b, a, 10007)),
    binary=Question(
        "How many ones has {a} to the power {b} in binary?", "bin({a}**{b}).count('1')", lambda a, b: sum(c == "1" for c in f"{a**b:b}")
    ),
    fibonacci=Question(
        "What are the last digits, modulo 1000000, of Fibonacci number {a} (0 is 0, 1 is 1)?",
        "x, y = 0, 1; exec('x, y = y, x + y;' * {a}); x % 10**6",
        _fibonacci,
    ),
    collatz=Question(
        "How many steps (halve if even, else 3n+1) lead from {a} to 1?",
        "f = lambda n: 0 if n == 1 else 1 + f(3 * n + 1 if n % 2 else n // 2); f({a})",
        _collatz,
    ),
    letters=Question(
        "How often does the digit {b} stand in the numbers 1 to {a}?",
        "''.join(map(str, range(1, {a} + 1))).count('{b}')",
        lambda a, b: sum(str(n).count(str(b)) for n in range(1, a + 1)),
        most=9,
    ),
)

EASY: Mapping[str, Question] = Frozen(
    first=Question("What is the first digit of {a}?", "str({a})[0]", lambda a, b: int(str(a)[0])),
    last=Question("What is the last digit of {a}?", "{a} % 10", lambda a, b: a % 10),
    length=Question("How many digits has {a}?", "len(str({a}))", lambda a, b: len(str(a))),
    odd=Question("Is {a} odd? 1 for yes, 0 for no", "{a} % 2", lambda a, b: a % 2),
)
"""Kinds of questions that need no program."""
