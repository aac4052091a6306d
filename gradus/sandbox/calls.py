"""Calls of a program's functions. Returned values leave the sandbox as plain data. These values are compared in a process that the program cannot change.

The program receives the expressions to compute, but never the expected values. Only right values give a reward. So a program has no advantage from an early
exit, from printed text, from forged answers, or from a redefined `assert`, `==` or standard library.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from gradus.sandbox.pool import Sandbox
from gradus.sandbox.records import Ran

SOLUTION = "solution.py"
NUMBERS = (int, float, Fraction)
SHARE_A_HASH = 64  # largest number of values of a set that may have the same hash


@dataclass(frozen=True)
class Raised:
    """The result of an expression without a usable value.

    The expression raised an exception, or was never evaluated, or gave a value that is not plain data.
    """

    what: str


@dataclass(frozen=True)
class Answered:
    """`values`: for each expression, plain data or Raised. `passed`: for each statement, whether it ran without an exception. `ran`: the run."""

    values: tuple[Any, ...]
    passed: tuple[bool, ...]
    ran: Ran


def ask(
    sandbox: Sandbox, program: str, expressions: Sequence[str], statements: Sequence[str] = (), before: Sequence[int] | None = None
) -> Answered:
    """Imports a program as a module, evaluates expressions in it and runs statements. All of this happens in one sandbox, under its limits.

    `before`: for each statement, the number of expressions that are evaluated before it. These numbers must not decrease from one statement to the next. If
    `before` is None, all expressions are evaluated first. A statement runs in the program's own interpreter, so a dishonest program can forge the verdict of
    the statement. Raises: the same errors as Sandbox.run.
    """
    word = secrets.token_hex(8)
    places = [len(expressions)] * len(statements) if before is None else before
    lines = [(at, 1, "value", at, text) for at, text in enumerate(expressions)]
    lines += [(place, 0, word, at, text) for at, (place, text) in enumerate(zip(places, statements, strict=True))]
    asked = json.dumps([line[2:] for line in sorted(lines, key=lambda line: line[:2])])
    ran = sandbox.run(_inside(), stdin=asked, files={SOLUTION: program})
    values: list[Any] = [Raised("it was not reached")] * len(expressions)
    passed = [False] * len(statements)
    for line in ran.stdout.split("\n"):
        found = _line(line)
        if not isinstance(found, list) or len(found) != 3 or not isinstance(found[1], int):
            continue
        kind, at, value = found
        if kind == "value" and 0 <= at < len(values):
            values[at] = plain(value)
        elif kind == word and 0 <= at < len(passed):
            passed[at] = value is True
    return Answered(tuple(values), tuple(passed), ran)


def plain(coded: Any) -> Any:
    """Returns the value that a line encodes; Raised if the line is malformed. The program may choose every part of the line."""
    try:
        return _decoded(coded)
    except MemoryError:
        raise
    except Exception:
        return Raised("it is not plain data")


def _decoded(coded: Any) -> Any:
    if coded is None or isinstance(coded, bool | int | float | str):
        return coded
    if not isinstance(coded, dict) or len(coded) != 1:
        raise ValueError("not one kind")
    kind, content = next(iter(coded.items()))
    if kind == "list":
        return [_decoded(value) for value in content]
    if kind == "tuple":
        return tuple(_decoded(value) for value in content)
    if kind == "set":
        return set(_spread([_decoded(value) for value in content]))
    if kind == "bytes":
        return bytes(list(content))  # made from a list of numbers, because bytes(10**12) would allocate 10**12 bytes
    if kind == "complex":
        return complex(*content)
    if kind == "ratio":
        above, below = content
        return Fraction(int(above), int(below)) if type(above) is type(below) is int else Raised("it is not plain data")
    if kind == "dict":
        keys = _spread([_decoded(key) for key, _ in content])
        return dict(zip(keys, (_decoded(value) for _, value in content), strict=True))
    return Raised(str(content)[:300])


def _spread(keys: list[Any]) -> list[Any]:
    """Returns the keys unchanged. Raises ValueError if too many of them have the same hash.

    A program may choose such keys on purpose. For n such keys, n^2 comparisons are necessary.
    """
    if max(Counter(map(hash, keys)).values(), default=0) > SHARE_A_HASH:
        raise ValueError("too many keys have the same hash")
    return keys


def same(one: Any, other: Any) -> bool:
    """Compares plain data as Python's `==` does, with two differences.

    First, True does not equal 1, not even inside a set or as a key. Second, two floats, or a float and a fraction, are equal if they differ only by rounding
    (one part in 10^9). An integer equals a float only if it has exactly the same value. Elements of sets and keys must also be exactly equal.
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, NUMBERS) and isinstance(other, NUMBERS):
        return one == other or _rounded(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return _same_keys(one, other) and all(same(value, other[key]) for key, value in one.items())
    return _same_keys(one, other) if isinstance(one, set | frozenset) else bool(one == other)


def _rounded(one: Any, other: Any) -> bool:
    """Whether one of two unequal numbers is a float, and the other one differs from it only by rounding."""
    if isinstance(one, int) or isinstance(other, int) or (not isinstance(one, float) and not isinstance(other, float)):
        return False
    try:
        one, other = float(one), float(other)
    except OverflowError:  # a fraction above the largest float
        return False
    return bool(abs(one - other) <= 1e-9 * max(abs(one), abs(other)) < float("inf"))


def _same_keys(one: Collection[Any], other: Collection[Any]) -> bool:
    """Whether the elements of two sets, or the keys of two mappings, are the same. This function is needed because {True} equals {1} for Python's `==`."""
    partners = {key: key for key in other}
    return len(one) == len(other) and all(key in partners and same(key, partners[key]) for key in one)


def _line(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # ValueError: also a number of more than 4,300 digits
        return None


@cache
def _inside() -> str:
    return Path(__file__).with_name("answering.py").read_text(encoding="utf-8")
