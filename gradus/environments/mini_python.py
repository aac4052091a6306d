"""Runs a small part of Python: assignments, arithmetic, lists, one-line `for` and `if`, `print`, and a few functions such as `len`. No sandbox is needed,
because programs can use only this part of Python.

A program ends after 2,000 steps, and values are bounded, so every program ends soon. The cost of a program is counted, not measured, so it is the same
in every run: see `Ran`.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_STEPS, _LONGEST, _LARGEST = 2000, 200, 10**12
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_CALLS: Mapping[str, Callable[..., Any]] = {"len": len, "range": range, "int": int, "str": str, "sum": sum, "max": max, "min": min}


class LimitError(Exception):
    """The error for a program that takes too many steps, or makes a value that is too large."""


@dataclass(frozen=True)
class Ran:
    """The output of a program, the name of the error that ended it (empty: no error), and the counted cost, which does not count for equality.

    `steps`: one for each statement and each part of an expression that is evaluated, and one more for every 2 entries that `sum`, `max` or `min` reads.
    `peak`: the largest number of entries that all lists in variables have together. `area`: the sum of this number over all statements.
    """

    stdout: str
    stderr: str = ""
    steps: int = field(default=0, compare=False, repr=False)
    peak: int = field(default=0, compare=False, repr=False)
    area: int = field(default=0, compare=False, repr=False)


def run(code: str, given: Mapping[str, int] | None = None) -> Ran:
    """Runs a program. An error ends the program, and `stderr` then contains the name of the error. `given`: the first values of variables.

    A program that uses other parts of Python ends with "SyntaxError".

    >>> run("a=3\\nfor i in range(2): a+=i\\nprint(a)"), run("print(1)\\nprint(2%0)")
    (Ran(stdout='4\\n', stderr=''), Ran(stdout='1\\n', stderr='ZeroDivisionError'))
    """
    machine = _Machine()
    machine.names.update(given or {})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning about a program would look for the program's file
            # the program is compiled line by line, because an error in a whole program would look for its file
            body = [one for line in code.split("\n") if line.strip() for one in ast.parse(f"{line}\n", mode="single").body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Ran("", "SyntaxError")
    try:
        machine.block(body)
    except (LimitError, ArithmeticError, LookupError, NameError, TypeError, ValueError, SyntaxError, RecursionError) as error:
        return machine.ran(type(error).__name__)
    return machine.ran()


class _Machine:
    """The variables and the output of one program."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.said: list[str] = []
        self.steps = self.read = self.peak = self.area = 0

    def ran(self, error: str = "") -> Ran:
        return Ran("".join(self.said), error, self.steps + self.read // 2, self.peak, self.area)

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.count()
            self.statement(statement)
            held = sum(len(v) for v in self.names.values() if isinstance(v, list))
            self.peak, self.area = max(self.peak, held), self.area + held

    def count(self) -> None:
        self.steps += 1
        if self.steps > _STEPS:
            raise LimitError("too many steps")

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target], value=value):
                self.assign(target, self.value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self.assign(target, self.operated(op, self.value(target), self.value(value)))
            case ast.For(target=ast.Name(), iter=over, body=body, orelse=[]):
                for item in self.items(over):
                    self.assign(node.target, item)
                    self.block(body)
            case ast.If(test=test, body=body, orelse=other):
                self.block(body if self.value(test) else other)
            case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=args, keywords=[])):
                self.say(" ".join(str(self.value(a)) for a in args) + "\n")
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="append"), args=[item], keywords=[])):
                self.grow(self.value(held), self.value(item))
            case _:
                raise SyntaxError("outside of the language")

    def items(self, over: ast.expr) -> Iterator[Any]:
        found = self.value(over)
        if not isinstance(found, range | list | str):
            raise TypeError("not iterable")
        return iter(found)

    def say(self, text: str) -> None:
        self.said.append(text)
        if sum(map(len, self.said)) > _LONGEST:
            raise LimitError("too much output")

    def grow(self, held: Any, item: Any) -> None:
        if not isinstance(held, list):
            raise TypeError("append needs a list")
        if isinstance(item, list):
            raise TypeError("a list cannot contain another list")
        held.append(self.bounded(item))
        self.bounded(held)

    def assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self.names[name] = value
            case ast.Subscript(value=held, slice=place):
                found = self.value(held)
                if isinstance(value, list) or not isinstance(found, list):
                    raise TypeError("only an entry of a list can be set, and only to a number or a text")
                found[self.value(place)] = value
            case _:
                raise SyntaxError("outside of the language")

    def value(self, node: ast.expr) -> Any:
        self.count()
        match node:
            case ast.Constant(value=int() | str() as value):
                return self.bounded(value)
            case ast.Name(id=name):
                if name not in self.names:
                    raise NameError(name)
                return self.names[name]
            case ast.List(elts=items):
                return self.bounded([self.value(i) for i in items])
            case ast.BinOp(left=left, op=op, right=right):
                return self.operated(op, self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.operated(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.operated(ast.Sub(), 0, self.value(operand))
            case ast.Subscript(value=held, slice=place):
                return self.value(held)[self.value(place)]
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
                return self.called(name, [self.value(a) for a in args])
        raise SyntaxError("outside of the language")

    def operated(self, op: ast.AST, left: Any, right: Any) -> Any:
        if type(op) not in _OPERATORS:
            raise SyntaxError("outside of the language")
        if isinstance(op, ast.Mod) and isinstance(left, str):
            raise TypeError("texts are not formatted")
        if isinstance(op, ast.Mult) and not (isinstance(left, int) and isinstance(right, int)):
            long, times = (left, right) if isinstance(right, int) else (right, left)
            if isinstance(long, str | list) and isinstance(times, int) and len(long) * max(times, 0) > _LONGEST:
                raise LimitError("too long")
        return self.bounded(_OPERATORS[type(op)](left, right))

    def called(self, name: str, args: list[Any]) -> Any:
        found = _CALLS[name](*args)
        if name in ("sum", "max", "min") and len(args) == 1 and isinstance(args[0], list | range | str):
            self.read += len(args[0])
        if isinstance(found, range) and len(found) > _STEPS:
            raise LimitError("too long a range")
        return self.bounded(found)

    def bounded(self, value: Any) -> Any:
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise LimitError("too large")
        if isinstance(value, str | list) and len(value) > _LONGEST:
            raise LimitError("too long")
        return value

