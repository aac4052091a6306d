"""The task physics: school problems with one or two laws, such as F=m*a. The answer is a number with its unit."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import ending, hints, verify_exact
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

THINGS = ("car", "cart", "sled", "boat", "bike", "box", "robot", "train")
DEVICES = ("lamp", "heater", "motor", "fan", "radio", "bell", "pump", "press")


_TAIL = 64  # the result must be within this number of characters at the end of a completion


@dataclass(frozen=True)
class Law:
    """A law "result=left SIGN right" with the unit of its result, and a sentence with the two numbers {x} and {y} and the thing {o}."""

    text: str  # such as "F=m*a"
    unit: str
    sentence: str

    @property
    def result(self) -> str:
        return self.text.partition("=")[0]

    @property
    def sign(self) -> str:
        return "/" if "/" in self.text else "*"


PRODUCTS = (
    Law("s=v*t", "m", "a {o} moves at {x} m/s for {y} s"),
    Law("F=m*a", "N", "a {o} of {x} kg speeds up by {y} m/s2"),
    Law("W=F*s", "J", "a {o} is pushed with {x} N over {y} m"),
    Law("U=R*I", "V", "a {o} of {x} ohm carries {y} A"),
    Law("Q=I*t", "C", "a {o} carries {x} A for {y} s"),
    Law("E=P*t", "J", "a {o} draws {x} W for {y} s"),
)
QUOTIENTS = (
    Law("v=s/t", "m/s", "a {o} moves {x} m in {y} s"),
    Law("a=F/m", "m/s2", "a force of {x} N moves a {o} of {y} kg"),
    Law("R=U/I", "ohm", "a {o} at {x} V carries {y} A"),
    Law("P=E/t", "W", "a {o} uses {x} J in {y} s"),
)
CHAINS = (  # the result of the first law and the number {z} give the second result
    (PRODUCTS[1], Law("W=F*s", "J", "a {o} of {x} kg speeds up by {y} m/s2 over {z} m")),
    (PRODUCTS[0], Law("W=s*F", "J", "a {o} moves at {x} m/s for {y} s, pushed with {z} N")),
    (Law("P=U*I", "W", ""), Law("E=P*t", "J", "a {o} at {x} V carries {y} A for {z} s")),
)


def physics(level: int = 2) -> Task:
    """Makes the task. Level 1: products of numbers from 2 to 9. Level 2: also quotients. Level 3: one number has two digits. Level 4: two laws, one after the
    other.

    `meta` has the last law in `law`, its numbers in `put`, and the unit of the answer in `unit`. The thing in a problem does not affect the split. Scripted
    judges read the verifier's `truth`, a quality in four parts.
    """
    return generated_task(
        "physics",
        _physics,
        Exact(),
        level=level,
        levels=(1, 4),
        max_tokens=48,
        chance=0.0,
        about='school physics: "a cart of 3 kg speeds up by 4 m/s2; F?" -> "F=m*a 3*4=12 N"; level: numbers, laws',
        provides=("hints", "law", "put", "unit"),
    )


@dataclass(frozen=True)
class Exact:
    """A verifier: 1.0 if the text after the last "=" is the number and the unit, else 0.0."""

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return verify_exact(problem, completion)

    def truth(self, problem: Problem, completion: str) -> float:
        """Returns the share of four checks that an answer passes. The checks are: the law, the numbers of the law, the unit, and the number of the result."""
        number, _, unit = (ending(completion, _TAIL) or "").partition(" ")
        due = str(problem.answer).partition(" ")[0]
        checks = (problem.meta["law"] in completion, problem.meta["put"] in completion, unit == problem.meta["unit"], number == due)
        return sum(checks) / len(checks)


def worked(law: Law, x: int, y: int) -> tuple[str, int]:
    """Returns the written step of a law and its result.

    >>> worked(PRODUCTS[1], 3, 4)
    ('F=m*a 3*4=12 N', 12)
    """
    value = x // y if law.sign == "/" else x * y
    return f"{law.text} {x}{law.sign}{y}={value} {law.unit}", value


def _physics(rng: random.Random, level: int) -> Draft:
    x, y, z = (rng.randint(2, 9) for _ in range(3))
    if level == 3:
        x = rng.randint(11, 99)
    if level == 4:
        first, law = rng.choice(CHAINS)
        step, found = worked(first, x, y)
        steps, put = [step], (found, z)
    else:
        law = rng.choice(PRODUCTS if level == 1 else PRODUCTS + QUOTIENTS)
        steps, put = [], (x * y if law.sign == "/" else x, y)
        x = put[0]
    last, value = worked(law, *put)
    things = DEVICES if any(word in law.sentence for word in ("ohm", " A", " W", " J")) else THINGS
    question = f"{law.sentence.format(o=rng.choice(things), x=x, y=y, z=z)}; {law.result}?"
    solution = " ".join([*steps, last])
    content = f"{law.sentence} {x} {y} {z if level == 4 else ''}"
    help_ = hints(("a law gives the wanted quantity", ", the unit belongs to the answer"), ("write the law", ", put the numbers in", f"; use {law.text}"), solution)
    meta = Frozen(category=law.text, law=law.text, put=f"{put[0]}{law.sign}{put[1]}", unit=law.unit, hints=help_)
    return Draft(question, f"{value} {law.unit}", solution, content, meta)
