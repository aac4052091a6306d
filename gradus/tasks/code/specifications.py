"""The task specifications: write the conditions of a small integer function. A checker tries all small inputs to decide whether they are true."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_LONGEST = 300  # characters of a program
_INPUTS = range(-8, 9)
_RESULTS = range(-40, 41)
_LINE = re.compile(r"\s*(req|ens|assume|code)\s+(.+?)\s*")
_COMPARE: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b,
}  # fmt: skip
_ARITHMETIC: Mapping[type, Callable[[int, int], int]] = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b}


@dataclass(frozen=True)
class Program:
    """A program: its code lines, its demands on callers, its promises, and its assumptions, as texts."""

    code: tuple[str, ...]
    requires: tuple[str, ...]
    ensures: tuple[str, ...]
    assumes: tuple[str, ...]


@dataclass(frozen=True)
class Checked:
    """The stages that an answer reached. The fields tell whether the code of the answer is the problem's code, compiles, cheats and is verified, and whether
    the specification is as strong as the reference."""

    code: bool
    compiles: bool = False
    cheats: bool = False
    verified: bool = False
    strong: bool = False
    ensures: int = 0  # promises


def specifications(level: int = 2) -> Task:
    """Makes the task. The prompt shows the code of a function of x with the result r, such as "code r = x+1; code r = r*2"; `level` 1 to 4: lines.

    An answer has the same code lines, and demands ("req x >= 0") and promises ("ens r >= x"), separated by ";". Conditions compare sums, differences and products
    of x, r and numbers; && and || join them. The checker decides by trying all x from -8 to 8 and all r from -40 to 40. The verdict is 1 if the answer is
    verified and its specification is at least as strong as the reference.
    """
    return generated_task(
        "specifications", _specifications, Checker(), level=level, levels=(1, 4), max_tokens=120, chance=0.0,
        about='conditions of small functions: "code r = x+3" -> "req x >= 0; code r = x+3; ens r >= 3"; level: lines of code',
    )  # fmt: skip


def _specifications(rng: random.Random, level: int) -> Draft:
    lines = [f"r = x{rng.choice('+-')}{rng.randint(1, 20)}"]
    lines += [f"r = r{rng.choice('+-')}{rng.randint(1, 3)}" for _ in range(level - 1)]
    least = rng.randint(-6, 6)
    shift = _value(lines, 0)
    demand, promise = f"x >= {least}", rng.choice((f"r == x{shift:+d}", f"r >= {least + shift}", f"r > {least + shift - 1}"))
    code = "; ".join(f"code {line}" for line in lines)
    answer = f"req {demand}; {code}; ens {promise}"
    meta = Frozen(category="straight", lines=tuple(lines), requires=(demand,), ensures=(promise,))
    return Draft(f"{code} | {demand} | {promise.split()[1]}", answer, answer, f"{code} {demand} {promise}", meta)


def _value(lines: list[str], x: int) -> int:
    names = {"x": x}
    for line in lines:
        names["r"] = _number(_tree(line.partition("=")[2].strip()), names)
    return names["r"]


@lru_cache(maxsize=4096)
def _tree(text: str) -> ast.expr:
    """Parses an expression. Raises SyntaxError if the text is not an expression of this language."""
    if len(text) > _LONGEST or not text.isascii():
        raise SyntaxError("too long, or not ASCII")
    try:
        return ast.parse(text.replace("&&", " and ").replace("||", " or ").strip(), mode="eval").body
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error)) from None


def _number(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            found = _ARITHMETIC[type(node.op)](_number(node.left, names), _number(node.right, names))
            return found if abs(found) < 10**9 else 10**9
        case ast.UnaryOp(op=ast.USub()):
            return -_number(node.operand, names)
        case ast.Name() if node.id in names:
            return names[node.id]
        case ast.Constant() if type(node.value) is int and abs(node.value) < 10**9:
            return node.value
    raise SyntaxError("not a number")


def _truth(node: ast.expr, names: Mapping[str, int]) -> bool:
    match node:
        case ast.BoolOp():
            parts = [_truth(value, names) for value in node.values]
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
            values = [_number(part, names) for part in (node.left, *node.comparators)]
            return all(_COMPARE[type(op)](a, b) for op, a, b in zip(node.ops, values, values[1:]))
        case ast.Constant() if type(node.value) is bool:
            return node.value
        case ast.Name(id="true" | "false"):
            return node.id == "true"
    raise SyntaxError("not a condition")


def all_hold(conditions: tuple[str, ...], **names: int) -> bool:
    """Returns whether all conditions are true for these values. Raises SyntaxError if a condition cannot be read, even if an earlier condition is
    false."""
    found = [_truth(_tree(text), names) for text in conditions]
    return all(found)


def parsed(text: str) -> Program | None:
    """Reads a program; None if a line has none of the marks req, ens, assume and code."""
    lines = [_LINE.fullmatch(line) for line in text.strip().rstrip(";").split(";")]
    if len(text) > _LONGEST or not all(lines):
        return None
    of: dict[str, list[str]] = {"code": [], "req": [], "ens": [], "assume": []}
    for line in lines:
        if line is not None:
            of[line[1]].append(" ".join(line[2].split()))
    return Program(*(tuple(of[name]) for name in ("code", "req", "ens", "assume")))


def tautology(condition: str) -> bool:
    """Returns whether a condition is true for all small x and r."""
    return all(all_hold((condition,), x=x, r=r) for x in _INPUTS for r in _RESULTS)


def at_least_as_strong(program: Program, requires: tuple[str, ...], ensures: tuple[str, ...]) -> bool:
    """Returns whether the program's specification (P', Q') is at least as strong as the reference (P, Q): P implies P', and P and Q' together imply Q."""
    for x in _INPUTS:
        if all_hold(requires, x=x):
            if not all_hold(program.requires, x=x):
                return False
            if any(all_hold(program.ensures, x=x, r=r) and not all_hold(ensures, x=x, r=r) for r in _RESULTS):
                return False
    return True


@dataclass(frozen=True)
class Checker:
    """A verifier of specifications."""

    def checked(self, problem: Problem, completion: str) -> Checked:
        """Returns the stages that an answer reached. If the completion contains "=>", only the text after the last "=>" counts."""
        program = parsed(completion[-2 * _LONGEST :].rpartition("=>")[2])
        if program is None or program.code != tuple(problem.meta["lines"]):
            return Checked(False)
        try:
            results = {x: _value(list(program.code), x) for x in _INPUTS if all_hold(program.requires, x=x)}
            verified = all(all_hold(program.ensures, x=x, r=r) for x, r in results.items())
            trivial = [tautology(text) for text in program.ensures]
            strong = at_least_as_strong(program, tuple(problem.meta["requires"]), tuple(problem.meta["ensures"]))
        except SyntaxError:
            return Checked(True)
        cheats = bool(program.assumes) or all(trivial) or not {"true", "false"}.isdisjoint(program.ensures)
        return Checked(True, True, cheats, verified, verified and strong, len(program.ensures))

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        found = self.checked(problem, completion)
        return float(found.strong and not found.cheats)
