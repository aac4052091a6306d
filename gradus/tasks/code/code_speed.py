"""The task code_speed: write a faster program with the same output. The cost of a program is counted by an interpreter, so it never depends on the machine."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from gradus.environments.mini_python import run
from gradus.environments.program_cost import INPUTS, Cost, asks, before, cost
from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem, UserError, unknown
from gradus.types.parts import Task
from gradus.types.tags import contents

LEVELS = (1, 4)
GOALS = ("time", "memory", "integral")

VERSIONS: Mapping[str, tuple[str, ...]] = Frozen(
    constant=("l=[]\nfor i in range(n): l.append({a})\ns={b}\nfor i in l: s+=i\nprint(s)", "s={b}\nfor i in range(n): s+={a}\nprint(s)", "print({a}*n+{b})"),
    linear=(
        "l=[]\nfor i in range(n): l.append(i*{a})\ns={b}\nfor i in l: s+=i\nprint(s)",
        "s={b}\nfor i in range(n): s+=i*{a}\nprint(s)",
        "print(sum(range(n))*{a}+{b})",
        "print(n*(n-1)//2*{a}+{b})",
    ),
    last=(
        "l=[]\nfor i in range(n): l.append(i*{a}+{b})\nfor i in l: s=i\nprint(s)",
        "for i in range(n): s=i*{a}+{b}\nprint(s)",
        "print(max(range(n))*{a}+{b})",
        "print((n-1)*{a}+{b})",
    ),
    multiples=(
        "l=[]\nfor i in range(n): l.append((i%{a}==0)*{b})\ns=0\nfor i in l: s+=i\nprint(s)",
        "s=0\nfor i in range(n): s+=(i%{a}==0)*{b}\nprint(s)",
        "print(len(range(0,n,{a}))*{b})",
    ),
)
"""Kind of program -> its versions with the numbers a and b, the slowest first."""


@dataclass(frozen=True)
class Faster:
    """A verifier: 1.0 if the program of a reply passes all tests, and if the old program costs at least `factor` times as much; else 0.0."""

    factor: float = 1.1
    form: str = "program"
    answers_are_tests: ClassVar[bool] = True  # a problem's answer contains the outputs of the tests

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        made = self.cost(problem, completion)
        return float(made.right and before(problem).time >= self.factor * made.time)

    def cost(self, problem: Problem, completion: str) -> Cost:
        """Returns the cost of the program of a reply."""
        return cost(self.program(completion), problem.answer)

    def program(self, completion: str) -> str:
        """Returns the program of a reply: the whole reply, or the text in <solution>. An empty text if the form is broken."""
        if self.form == "program":
            return completion.strip("\n")
        parts = contents(completion, ("thinking", "solution"))
        return "" if parts is None else parts[1].strip("\n")

def code_speed(level: int = 2, form: Literal["program", "goal"] = "program", factor: float = 1.1) -> Task:
    """Makes the task. A program in a small part of Python prints a function of n. `level` 1: one loop with small numbers; 2: larger numbers; 3: two
    functions in one program; 4: two functions with larger numbers.

    `form` "program": the prompt is the program, and the reply is a program. "goal": the prompt has a goal (time, memory or integral), the state of the program
    (passed or failed, and its three costs) and the program. Some of these programs are wrong. The reply has <thinking> and <solution>. A reply is right if it
    passes all tests, and if the old program takes at least `factor` times as many steps; with `factor` 0 the tests alone decide. Raises: UserError for an
    unknown form or a negative factor.
    """
    if form not in ("program", "goal"):
        raise unknown("form of task code_speed", form, ("program", "goal"))
    if factor < 0:
        raise UserError(f"task code_speed: `factor` is {factor}; give 0 or a positive number")
    return generated_task(
        "code_speed",
        partial(draft, form=form),
        Faster(factor, form),
        level=level,
        levels=LEVELS,
        max_tokens=70 * (2 if level > 2 else 1) + (70 if form == "goal" else 0),
        chance=0.0,
        about='make a program faster: "s=4|for i in range(n): s+=7|print(s)" -> "print(7*n+4)"; costs are counted; level: numbers and loops',
        provides=("program", "fast", "collected"),
    )


def draft(rng: random.Random, level: int, form: str = "program") -> Draft:
    """Draws a function and a slow program for it. The worked solution is a random version that is faster; the column `fast` has the fastest one."""
    high = 30 if level in (1, 3) else 99
    parts = [(rng.choice(tuple(VERSIONS)), rng.randint(2, high), rng.randint(2, high)) for _ in range(1 if level <= 2 else 2)]
    versions = [[text.format(a=a, b=b) for text in VERSIONS[kind]] for kind, a, b in parts]
    outputs = [run(joined([v[-1] for v in versions]), {"n": n}).stdout for n in INPUTS]
    places = [rng.randrange(len(v) - 1) for v in versions]
    later = [rng.randrange(place + 1, len(v)) for v, place in zip(versions, places, strict=True)]
    shown, made, fast = (joined([v[i] for v, i in zip(versions, at, strict=True)]) for at in (places, later, [-1] * len(versions)))
    goal, spoiled = "", False
    if form == "goal":
        goal, spoiled = rng.choice(GOALS), rng.random() < 0.25
    if spoiled:  # a program with another number
        shown = joined([VERSIONS[k][i].format(a=a, b=b + 1) for (k, a, b), i in zip(parts, places, strict=True)])
    name = "; ".join(f"{kind} {a} {b}" for kind, a, b in parts)
    solution = made if form == "program" else f"<thinking>{parts[0][0]}</thinking><solution>\n{made}\n</solution>"
    question = shown if form == "program" else asks(name, goal, cost(shown, outputs), shown)
    collected = [joined([v[min(i, len(v) - 1)] for v in versions]) for i in range(max(map(len, versions)))]
    meta = Frozen(category=parts[0][0], program=shown, fast=fast, goal=goal, says=name, collected=collected)
    return Draft(question, outputs, solution, name, meta)


def joined(parts: Sequence[str]) -> str:
    """Returns one program that prints the outputs of all parts."""
    return "\n".join(parts)
