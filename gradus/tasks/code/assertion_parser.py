"""Splits tests (Python text) into expressions and expected values. The program computes the expressions, and never sees the expected values.

Only two forms of assertions can be split: comparisons with a literal, such as `assert sorted(f(2)) == [1, 3]` or `assert abs(f(2) - 0.5) < 1e-6`, and calls
with literals, such as `assert f(2)` or `assert not f(2)`. A text may have several such assertions. The assertions may also be in a function that the text
calls with the program's function: `def check(candidate): ...`, then `check(f)`.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gradus.sandbox.calls import NUMBERS, Raised, same

_PARTS = (
    *(ast.Call, ast.keyword, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict),
    *(ast.BinOp, ast.operator, ast.UnaryOp, ast.USub, ast.UAdd, ast.Invert, ast.expr_context),
)
_CLOSE = (1e-9, 0.0)  # default tolerances of math.isclose: relative, absolute


@dataclass(frozen=True)
class Test:
    """One test: `expression` and `expected`, or a `statement`, or `stdin` and `stdout`."""

    __test__ = False  # pytest does not collect it

    expression: str | None = None
    expected: Any = None
    statement: str | None = None
    stdin: str = ""
    stdout: str | None = None
    within: tuple[float, float] | None = None  # (relative, absolute) tolerance of a number against `expected`; None: the tolerance of `same`
    strict: bool = False  # whether the difference must be below the absolute tolerance (<, not <=)


class _NotApart(Exception):
    """The error for a text with a part that cannot be split into tests. Such a text can only be run."""


def claimed(bodies: Sequence[tuple[str, Sequence[ast.stmt]]]) -> list[Test]:
    """Returns the tests in the texts of one problem.

    The texts share one namespace when they run, so all of them are split together. If this is impossible, only independent texts are split. An independent
    text uses no name that another text defines, and defines no name that another text uses. All other texts are run.
    """
    every = [node for _, body in bodies for node in body]
    bound, whole = set(_bound(every)), _taken_apart(every)
    if whole and not bound & _names(whole):
        return list(whole)
    uses = [{n.id for line in body for n in ast.walk(line) if isinstance(n, ast.Name)} for _, body in bodies]
    users = Counter(name for names in uses for name in names)
    found: list[Test] = []
    for own, (text, body) in zip(uses, bodies, strict=True):
        part = _taken_apart(body)
        alone = part and not bound & _names(part) and all(users[name] == (name in own) for name in _bound(body))
        found += part if alone else [Test(statement=text)]
    return found


def as_script(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Returns a text's statements. Statements under `if __name__ == "__main__":` are returned without that line, because they are meant to run."""
    guard = ast.dump(ast.parse("__name__ == '__main__'", mode="eval").body)
    return [line for node in body for line in (node.body if isinstance(node, ast.If) and ast.dump(node.test) == guard else [node])]


def _taken_apart(body: Sequence[ast.stmt]) -> tuple[Test, ...]:
    """Returns the tests in a text, in the order of the text; none if the text can only be run."""
    try:
        return tuple(_claims(body))
    except _NotApart:
        return ()


def _bound(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yields the names that a text itself defines: functions, classes, variables, imports."""
    for node in (inner for outer in body for inner in ast.walk(outer)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name


def _names(tests: Sequence[Test]) -> set[str]:
    return {node.id for test in tests for node in ast.walk(ast.parse(str(test.expression))) if isinstance(node, ast.Name)}


def right(value: Any, test: Test) -> bool:
    """Returns whether a program's value passes a test."""
    if isinstance(value, Raised):
        return False
    try:
        return same(value, test.expected) if test.within is None else _near(value, test.expected, *test.within, test.strict)
    except (RecursionError, OverflowError):
        return False


def _near(value: Any, expected: float, relative: float, absolute: float, strict: bool) -> bool:
    if not isinstance(value, NUMBERS) or isinstance(value, bool):
        return False
    number: int | float = float(value) if isinstance(value, Fraction) else value
    if strict:
        return bool(abs(number - expected) < absolute)
    return number == expected or abs(number - expected) <= max(relative * max(abs(number), abs(expected)), absolute) < float("inf")


def _claims(body: Sequence[ast.stmt]) -> Iterator[Test]:
    """Yields the tests in a text. Raises _NotApart if the text cannot be split."""
    checks: dict[str, ast.FunctionDef] = {}
    for node in body:
        if isinstance(node, ast.Assert):
            yield from _of_assertion(node.test)
        elif isinstance(node, ast.FunctionDef) and re.fullmatch(r"\w+", ast.unparse(node.args)) and not node.decorator_list:
            checks[node.name] = node
        elif (check := _called(node, checks)) is not None:
            function, word = checks[check[0]], check[1]
            parameter = function.args.args[0].arg
            yield from _claims([_Renamed(parameter, word).visit(ast.parse(ast.unparse(line)).body[0]) for line in function.body])
        elif not _sets_up(node):
            raise _NotApart


def _called(node: ast.stmt, checks: dict[str, ast.FunctionDef]) -> tuple[str, str] | None:
    """Returns (check function, its argument) of a line such as `check(f)`; None for any other line."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in checks or call.keywords:
        return None
    return (call.func.id, call.args[0].id) if len(call.args) == 1 and isinstance(call.args[0], ast.Name) else None


class _Renamed(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.new, node.ctx) if node.id == self.old else node


def _sets_up(node: ast.stmt) -> bool:
    """Returns whether a line is an import, a bare literal or the assignment of a literal. Lines of this kind are not needed, because tests name only
    functions."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in node.targets) and _literal(node.value) is not None


def _of_assertion(claim: ast.expr) -> Iterator[Test]:
    """Yields the tests in one assertion. Raises _NotApart if the assertion cannot be split."""
    if isinstance(claim, ast.BoolOp) and isinstance(claim.op, ast.And):
        for part in claim.values:
            yield from _of_assertion(part)
    elif isinstance(claim, ast.Constant) and claim.value is True:
        return
    elif isinstance(claim, ast.UnaryOp) and isinstance(claim.op, ast.Not) and _plain_call(claim.operand):
        yield Test(f"bool({ast.unparse(claim.operand)})", False)
    elif (near := _closeness(claim)) is not None:
        yield near
    elif isinstance(claim, ast.Compare) and len(claim.ops) == 1 and isinstance(claim.ops[0], ast.Eq | ast.Is):
        yield _equality(claim.left, claim.comparators[0])
    elif _plain_call(claim):
        yield Test(f"bool({ast.unparse(claim)})", True)
    else:
        raise _NotApart


def _equality(one: ast.expr, other: ast.expr) -> Test:
    for left, side in ((one, other), (other, one)):
        if (literal := _literal(side)) is not None and _computed(left):
            return Test(ast.unparse(left), literal[0])
    raise _NotApart


def _closeness(claim: ast.expr) -> Test | None:
    """Returns the test in an assertion such as abs(f(2) - 0.5) < 1e-6 or math.isclose(f(2), 0.5, abs_tol=1e-6); None for any other form."""
    if isinstance(claim, ast.Compare) and len(claim.ops) == 1 and isinstance(claim.ops[0], ast.Lt | ast.LtE):
        most, distance = _literal(claim.comparators[0]), claim.left
        if most is None or not _calls(distance, "abs", 1) or not isinstance(distance, ast.Call):
            return None
        difference = distance.args[0]
        if not isinstance(difference, ast.BinOp) or not isinstance(difference.op, ast.Sub) or not isinstance(most[0], int | float):
            return None
        return _with_room(difference.left, difference.right, (0.0, float(most[0])), strict=isinstance(claim.ops[0], ast.Lt))
    if isinstance(claim, ast.Call) and (_calls(claim, "isclose", 2) or _module(claim.func) == "math.isclose") and len(claim.args) == 2:
        room = {k.arg: _literal(k.value) for k in claim.keywords}
        if not set(room) <= {"rel_tol", "abs_tol"} or not all(v and isinstance(v[0], int | float) for v in room.values()):
            return None
        relative, absolute = (v[0] if (v := room.get(name)) else usual for name, usual in zip(("rel_tol", "abs_tol"), _CLOSE, strict=True))
        return _with_room(claim.args[0], claim.args[1], (float(relative), float(absolute)))
    return None


def _with_room(one: ast.expr, other: ast.expr, room: tuple[float, float], strict: bool = False) -> Test | None:
    for left, side in ((one, other), (other, one)):
        if (literal := _literal(side)) is not None and isinstance(literal[0], int | float) and _computed(left):
            return Test(ast.unparse(left), literal[0], within=room, strict=strict)
    return None


def _computed(node: ast.expr) -> bool:
    """Returns whether an expression consists of function calls and literals: every name is called, and nothing is compared."""
    parts = list(ast.walk(node))
    called = {id(n.func) for n in parts if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    named = {id(n) for n in parts if isinstance(n, ast.Name)}
    return bool(called) and named <= called and all(isinstance(n, _PARTS) for n in parts)


def _plain_call(node: ast.expr) -> bool:
    """Returns whether an expression is a call of a named function with literals, such as f(2, key=[3])."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or any(k.arg is None for k in node.keywords):
        return False
    return all(_literal(argument) is not None for argument in (*node.args, *(k.value for k in node.keywords)))


def _literal(node: ast.expr) -> tuple[Any] | None:
    """Returns the value of a literal in a tuple of length one, because the value may be None; None if the expression is not a literal."""
    try:
        return (ast.literal_eval(node),)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _calls(node: ast.expr, name: str, arguments: int) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name and len(node.args) == arguments


def _module(node: ast.expr) -> str:
    """Returns the dotted name of an expression such as `math.isclose`; "" for any other expression."""
    return f"{node.value.id}.{node.attr}" if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else ""
