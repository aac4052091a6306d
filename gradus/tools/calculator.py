"""A calculator for exact arithmetic."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from gradus.types import Frozen, Key, Problem
from gradus.types.parts import World

LONGEST = 200  # largest number of characters of an expression
BITS = 2048  # largest number of bits of an intermediate result
_OPERATIONS: Mapping[type, Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


@dataclass(frozen=True)
class Calculator:
    """Computes an expression of numbers, + - * / // % ** and parentheses exactly. If the result is not a whole number, it is written as a decimal with 12
    digits.
    """

    name: str = "calculate"
    about: ClassVar[str] = "Computes an arithmetic expression."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object", properties={"expression": {"type": "string", "description": "such as (2 + 3) * 4"}}, required=["expression"]
    )
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = True

    def open(self, problem: Problem, key: Key, world: World | None) -> Calculator:
        return self

    def fork(self, key: Key) -> Calculator:
        return self

    def call(self, expression: str) -> str:
        """Returns the value. Raises ValueError for a text that is no expression, and ZeroDivisionError for a division by zero."""
        return written(value_of(expression))


def value_of(expression: str) -> Fraction:
    """Computes an expression exactly. Raises ValueError if the text is no expression or too large, and ZeroDivisionError for a division by zero.

    >>> value_of("(1 + 2) * 3 / 2")
    Fraction(9, 2)
    """
    if len(expression) > LONGEST:
        raise ValueError(f"the expression has {len(expression)} characters; at most {LONGEST} are allowed")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError("this is no arithmetic expression") from None
    return _value(tree.body)


def _value(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _checked(Fraction(str(node.value)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        inside = _value(node.operand)
        return -inside if isinstance(node.op, ast.USub) else inside
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow):
            if right.denominator != 1 or abs(right) > BITS:
                raise ValueError(f"the exponent {written(right)} is no whole number of at most {BITS}")
            if abs(right) * max(left.numerator.bit_length(), left.denominator.bit_length()) > BITS:
                raise ValueError("the number is too large")
            return _checked(Fraction(left ** int(right)))
        if type(node.op) in _OPERATIONS:
            return _checked(Fraction(_OPERATIONS[type(node.op)](left, right)))
    raise ValueError("this is no arithmetic expression; write numbers, + - * / // % ** and parentheses")


def _checked(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > BITS:
        raise ValueError("the number is too large")
    return value


def written(value: Fraction) -> str:
    """Returns a number as text. A whole number has all its digits. Any other number is a decimal with at most 12 significant digits.

    >>> written(Fraction(9, 2)), written(Fraction(1, 3))
    ('4.5', '0.333333333333')
    """
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"
