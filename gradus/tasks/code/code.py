"""The task code: write a Python function that does a few steps on a list. Hidden tests call the function in a sandbox."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from gradus.sandbox import Sandbox, isolation_named
from gradus.tasks.code.unit_tests import LIMITS, UnitTests
from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen, hints
from gradus.types import Frozen, unknown
from gradus.types.parts import Task

_LEVELS = (1, 6)  # steps
_LIMITS = {1: 110, 2: 160, 3: 210, 4: 260, 5: 310, 6: 360}  # level -> characters of the longest solution, and some more
_TESTS = 8  # inputs of a function's tests, the empty list among them
_VOWELS, _CONSONANTS = "aeiou", "bcdfghjklmnpqrstvwxyz"


@dataclass(frozen=True)
class Step:
    """One step on a list x, written in words, in Python, and as a function of the list and k. `end`: the result is not a list."""

    words: str  # the step in words, with {k}
    code: str  # an expression of x, with {k}
    does: Callable[[list[Any], Any], Any]
    end: bool = False


def code(level: int = 2, kinds: str = "all", reward: str = "all", isolation: str = "bubblewrap") -> Task:
    """Makes the task: write Python functions of `level` steps, 1 to 6. The last step determines the kind of the problem.

    `kinds`: "all" or names of steps. `reward`: "all" (1 if all tests pass) or "share" (the share of tests passed). `isolation`:
    "bubblewrap", or "rlimits". With `isolation` "rlimits", only resources are limited, so a program can read and write every file that you can.
    Raises: UserError for an unknown kind, reward or isolation.
    """
    names = chosen("code", kinds, {**NUMBERS, **WORDS})
    if reward not in ("all", "share"):
        raise unknown("reward of task code", reward, ("all", "share"))
    verify = UnitTests(share=reward == "share", sandbox=Sandbox(isolation_named(isolation), LIMITS))
    return generated_task(
        "code",
        partial(_code, kinds=names),
        verify,
        level=level,
        levels=_LEVELS,
        max_tokens=_LIMITS.get(level, 0),
        chance=0.0,
        about=f'write Python: "Write f(x) for a list of numbers. Keep the even ones. Return their sum."; {_TESTS} hidden tests call it in a '
        "sandbox; level: how many steps",
        provides=("tests", "hints"),
    )


def _code(rng: random.Random, level: int, kinds: Sequence[str]) -> Draft:
    """Draws a problem with steps on numbers or on words. A function that leaves out a step does not pass the tests."""
    kind = rng.choice(kinds)
    steps, draw, subject = (NUMBERS, _numbers, "integers") if kind in NUMBERS else (WORDS, _words, "words")
    middle = [name for name, step in steps.items() if not step.end]
    while True:
        names = [*(rng.choice(middle) for _ in range(level - 1)), kind]
        chain = [(steps[name], _parameter(name, rng) if "{k}" in steps[name].words else None) for name in names]
        inputs: list[list[Any]] = [[], *(draw(rng) for _ in range(_TESTS - 1))]
        if _telling(chain, inputs):
            break
    asked = " ".join(f"{step.words.format(k=_said(k))}." for step, k in chain)
    end = "" if chain[-1][0].end else " Return the list."
    example = repr(inputs[-1])
    question = f"Write a Python function f(x) for a list x of {subject}. {asked}{end}\nf({example}) is {_run(chain, inputs[-1])!r}"
    tests = tuple(f"assert f({given!r}) == {_run(chain, given)!r}" for given in inputs)
    solution = _solution(chain)
    content = " ".join(name if k is None else f"{name} {k}" for name, (_, k) in zip(names, chain, strict=True))
    meta = Frozen(
        category=kind,
        steps=tuple(names),
        hints=hints(
            [f"{step.words.format(k=_said(k))}: {step.code.format(k=repr(k))}" for step, k in chain], ["one step per line"], solution
        ),
    )
    return Draft(question, tests, solution, content, meta)


def _solution(chain: Sequence[tuple[Step, Any]]) -> str:
    lines = [f"    x = {step.code.format(k=repr(k))}" for step, k in chain[:-1]]
    last, k = chain[-1]
    return "\n".join(["def f(x):", *lines, f"    return {last.code.format(k=repr(k))}"])


def _run(chain: Sequence[tuple[Step, Any]], given: list[Any]) -> Any:
    value: Any = list(given)
    for step, k in chain:
        value = step.does(value, k)
    return value


def _telling(chain: Sequence[tuple[Step, Any]], inputs: Sequence[list[Any]]) -> bool:
    """Returns whether each step matters, that is, some test fails without this step. The tests must also have at least 4 different answers, so that no
    constant passes."""
    right = [_run(chain, given) for given in inputs]
    if len({repr(value) for value in right}) < 4:
        return False
    last = chain[-1][0]
    for i in range(len(chain) - (1 if last.end else 0)):
        rest = [*chain[:i], *chain[i + 1 :]]
        if [_run(rest, given) for given in inputs] == right:
            return False
    return True


def _parameter(name: str, rng: random.Random) -> Any:
    """Draws the parameter k of a step: a small number or a letter."""
    if name in ("having", "lacking"):
        return rng.choice("aeioulmnrst")
    if name in ("above", "below"):
        return rng.randint(-5, 9)
    return rng.randint(2, 5)


def _said(k: Any) -> str:
    return f'"{k}"' if isinstance(k, str) else str(k)


def _numbers(rng: random.Random) -> list[Any]:
    """Draws 5 to 9 numbers from -9 to 20. The last number, or the last two numbers, repeat earlier numbers."""
    some = [rng.randint(-9, 20) for _ in range(rng.randint(4, 7))]
    return [*some, *rng.choices(some, k=rng.randint(1, 2))]


def _words(rng: random.Random) -> list[Any]:
    """Draws 4 to 7 words of 2 to 7 letters, one of them twice."""
    some = ["".join(rng.choice(_CONSONANTS if i % 2 else _VOWELS) for i in range(rng.randint(2, 7))) for _ in range(rng.randint(3, 6))]
    return [*some, rng.choice(some)]


def _first_of_each(x: list[Any]) -> list[Any]:
    return list(dict.fromkeys(x))


NUMBERS: Mapping[str, Step] = Frozen(
    even=Step("Keep the even ones", "[n for n in x if n % 2 == 0]", lambda x, k: [n for n in x if not n & 1]),
    odd=Step("Keep the odd ones", "[n for n in x if n % 2 == 1]", lambda x, k: [n for n in x if n & 1]),
    above=Step("Keep those above {k}", "[n for n in x if n > {k}]", lambda x, k: [n for n in x if not n <= k]),
    below=Step("Keep those below {k}", "[n for n in x if n < {k}]", lambda x, k: [n for n in x if not n >= k]),
    multiples=Step("Keep the multiples of {k}", "[n for n in x if n % {k} == 0]", lambda x, k: [n for n in x if n == k * round(n / k)]),
    square=Step("Square each", "[n * n for n in x]", lambda x, k: [abs(n) ** 2 for n in x]),
    add=Step("Add {k} to each", "[n + {k} for n in x]", lambda x, k: [k + n for n in x]),
    times=Step("Multiply each by {k}", "[n * {k} for n in x]", lambda x, k: [sum([n] * k) for n in x]),
    negate=Step("Negate each", "[-n for n in x]", lambda x, k: [0 - n for n in x]),
    absolute=Step("Take absolute values", "[abs(n) for n in x]", lambda x, k: [max(n, -n) for n in x]),
    up=Step("Sort upwards", "sorted(x)", lambda x, k: sorted(x)),
    down=Step("Sort downwards", "sorted(x, reverse=True)", lambda x, k: sorted(x)[::-1]),
    reverse=Step("Reverse the order", "x[::-1]", lambda x, k: list(reversed(x))),
    distinct=Step("Keep the first of equal ones", "list(dict.fromkeys(x))", lambda x, k: [n for i, n in enumerate(x) if n not in x[:i]]),
    sums=Step("Take running sums", "[sum(x[: i + 1]) for i in range(len(x))]", lambda x, k: list(accumulate(x))),
    steps=Step("Take each minus the one before", "[b - a for a, b in zip(x, x[1:])]", lambda x, k: [b - a for a, b in pairwise(x)]),
    drop=Step("Drop the first {k}", "x[{k}:]", lambda x, k: [n for i, n in enumerate(x) if i >= k]),
    first=Step("Keep the first {k}", "x[:{k}]", lambda x, k: [n for i, n in enumerate(x) if i < k]),
    sum=Step("Return the sum", "sum(x)", lambda x, k: [0, *accumulate(x)][-1], end=True),
    largest=Step("Return the largest, or 0 without any", "max(x, default=0)", lambda x, k: sorted(x)[-1] if x else 0, end=True),
    smallest=Step("Return the smallest, or 0 without any", "min(x, default=0)", lambda x, k: sorted(x)[0] if x else 0, end=True),
    count=Step("Return how many are above {k}", "len([n for n in x if n > {k}])", lambda x, k: sum(n > k for n in x), end=True),
    kinds=Step("Return how many different ones there are", "len(set(x))", lambda x, k: len(_first_of_each(x)), end=True),
    spread=Step("Return largest minus smallest, or 0 without any", "max(x) - min(x) if x else 0", lambda x, k: _spread(x), end=True),
    median=Step("Return the lower median, or 0 without any", "sorted(x)[(len(x) - 1) // 2] if x else 0", lambda x, k: _median(x), end=True),
)
"""Steps on lists of numbers. `does` is written differently from `code`, so an error in either becomes visible."""

WORDS: Mapping[str, Step] = Frozen(
    upper=Step("Make each upper case", "[w.upper() for w in x]", lambda x, k: ["".join(chr(ord(c) & ~32) for c in w) for w in x]),
    backwards=Step("Reverse the letters of each", "[w[::-1] for w in x]", lambda x, k: ["".join(reversed(w)) for w in x]),
    longer=Step("Keep those of more than {k} letters", "[w for w in x if len(w) > {k}]", lambda x, k: [w for w in x if w[k:]]),
    shorter=Step("Keep those of fewer than {k} letters", "[w for w in x if len(w) < {k}]", lambda x, k: [w for w in x if not w[k - 1 :]]),
    having=Step("Keep those with the letter {k}", "[w for w in x if {k} in w.lower()]", lambda x, k: [w for w in x if w.lower().count(k)]),
    lacking=Step("Drop those with the letter {k}", "[w for w in x if {k} not in w.lower()]", lambda x, k: _lacking(x, k)),
    alphabet=Step("Sort by the alphabet", "sorted(x)", lambda x, k: sorted(x)),
    lengths=Step("Sort by length, equal ones as they stand", "sorted(x, key=len)", lambda x, k: _by_length(x)),
    tails=Step("Drop the first letter of each", "[w[1:] for w in x]", lambda x, k: ["".join(list(w)[1:]) for w in x]),
    heads=Step("Keep the first {k} letters of each", "[w[:{k}] for w in x]", lambda x, k: ["".join(list(w)[:k]) for w in x]),
    unique=Step("Keep the first of equal ones", "list(dict.fromkeys(x))", lambda x, k: [w for i, w in enumerate(x) if w not in x[:i]]),
    joined=Step("Return them joined by -", '"-".join(x)', lambda x, k: "".join(f"-{w}" for w in x)[1:], end=True),
    letters=Step("Return how many letters they have", "sum(len(w) for w in x)", lambda x, k: len("".join(x)), end=True),
    longest=Step("Return the first longest, or '' without any", 'max(x, key=len, default="")', lambda x, k: _longest(x), end=True),
    vowels=Step(
        "Return how many of a, e, i, o, u they have",
        'sum(c in "aeiou" for w in x for c in w.lower())',
        lambda x, k: sum("".join(x).lower().count(v) for v in _VOWELS),
        end=True,
    ),
    initials=Step(
        "Return their first letters as one text", '"".join(w[:1] for w in x)', lambda x, k: "".join(w[0] for w in x if w), end=True
    ),
)
"""Steps on lists of words."""


def _spread(x: list[int]) -> int:
    return sorted(x)[-1] - sorted(x)[0] if x else 0


def _median(x: list[int]) -> int:
    return statistics.median_low(x) if x else 0


def _lacking(x: list[str], k: str) -> list[str]:
    return [w for w in x if w.lower().find(k) < 0]


def _by_length(x: list[str]) -> list[str]:
    return [w for n in range(max(map(len, x), default=0) + 1) for w in x if len(w) == n]


def _longest(x: list[str]) -> str:
    return next((w for w in x if all(len(w) >= len(other) for other in x)), "")
