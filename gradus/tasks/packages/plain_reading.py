"""Functions that read values and expressions, and never run a text as code. The functions replace `eval` and `parse_expr` in the scorers of reasoning-gym.

Some of these scorers call `eval`, or SymPy's parser, which uses `eval`, on a model's answer. Without this replacement, a model could run code through its answer.
"""

from __future__ import annotations

import ast
import importlib
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from gradus.tasks.packages import imported

LONGEST = 200_000  # characters of a text that is read
BITS = 2048  # bits of the largest power and shift

FUNCTIONS = ("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "ln", "sqrt", "Abs")
CONSTANTS = ("pi", "E", "I")

LITERALS = (
    "algorithmic.string_insertion", "algorithmic.spiral_matrix", "algorithmic.binary_matrix", "games.n_queens", "algorithmic.number_sorting",
)  # fmt: skip
INTEGERS = ("arithmetic.bitwise_arithmetic",)
NUMBERS = ("games.countdown", "games.puzzle24")
MODULES = {"algebra.simple_integration": "sympy", "algebra.intermediate_integration": "sympy", "algebra.polynomial_multiplication": "sp"}
"""Module that calls `parse_expr` of sympy -> the name of sympy in this module."""


@cache
def read_plainly() -> None:
    """Replaces `eval` and `parse_expr` by functions of this module, in those modules of reasoning-gym whose scorers would run an answer as code."""
    for names, name, reader in ((LITERALS, "eval", literal), (INTEGERS, "eval", integer), (NUMBERS, "parse_expr", arithmetic)):
        for module in names:
            setattr(imported_part(module), name, reader)
    for module, name in MODULES.items():
        setattr(imported_part(module), name, PlainSympy(importlib.import_module("sympy")))


def imported_part(name: str) -> Any:
    """Returns a module of reasoning-gym."""
    imported("reasoning_gym")
    return importlib.import_module(f"reasoning_gym.{name}")


class PlainSympy:
    """The module sympy, but with the function `expression` as its `parse_expr`."""

    def __init__(self, sympy: Any) -> None:
        self._sympy = sympy
        self.parse_expr = expression

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sympy, name)


def literal(text: str) -> Any:
    """Returns the value of a Python literal. Raises ValueError for any other text."""
    try:
        return ast.literal_eval(shortened(text))
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"not a literal: {error}") from None


def integer(text: str) -> int:
    """Returns the value of an expression of whole numbers. Raises ValueError if the expression has other parts."""
    value: int = read(text, lambda constant: constant, refuse, {})
    return value


def arithmetic(text: str) -> Any:
    """Returns the value of an expression of numbers and operators, as a SymPy number. Raises ValueError if the expression has other parts."""
    return read(text, number, refuse, {})


def expression(text: str, local_dict: Mapping[str, Any] | None = None) -> Any:
    """Returns a text of numbers, names, operators and elementary functions as a SymPy expression. Raises ValueError if the text has other parts."""
    import sympy

    def named(name: str) -> Any:
        known = local_dict or {}
        return known[name] if name in known else getattr(sympy, name) if name in CONSTANTS else sympy.Symbol(name)

    return read(text, number, named, {name: getattr(sympy, name) for name in FUNCTIONS})


def number(constant: int | float) -> Any:
    """Returns a constant as a SymPy number."""
    import sympy

    return sympy.Integer(constant) if isinstance(constant, int) else sympy.Float(str(constant))


OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.RShift: operator.rshift,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
    ast.LShift: lambda value, by: value << bounded(by), ast.Pow: lambda base, exponent: power(base, exponent),
}  # fmt: skip


def read(text: str, number: Callable[[Any], Any], named: Callable[[str], Any], functions: Mapping[str, Callable[[Any], Any]]) -> Any:
    """Returns the value of an expression in Python's grammar. Raises ValueError for a part that is not allowed.

    `number`, `named` and `functions` give the values of constants, of names and of calls with one argument.
    """

    def value(node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=bool() | str() | bytes() | complex() | None):
                return refuse(text)
            case ast.Constant(value=int() | float() as constant):
                return number(constant)
            case ast.Name(id=name):
                return named(name)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in functions:
                return functions[name](value(argument))
        return refuse(text)

    try:
        return value(ast.parse(shortened(text).strip(), mode="eval").body)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"not an expression: {error}") from None


def power(base: Any, exponent: Any) -> Any:
    """Returns base ** exponent. Raises ValueError if the result could have more than BITS bits."""
    if getattr(base, "is_number", True) and getattr(exponent, "is_number", True):
        if exponent.__class__.__name__ in ("Pow", "exp") or abs(exponent) * max(1, int(abs(base)).bit_length()) > BITS:
            refuse(f"{base}**{exponent}")
    elif getattr(exponent, "is_number", True) and abs(exponent) > BITS:
        refuse(f"{base}**{exponent}")
    return base**exponent


def bounded(by: int) -> int:
    """Returns the number of bits of a shift unchanged. Raises ValueError if it is above BITS."""
    return by if by <= BITS else refuse(str(by))


def shortened(text: str) -> str:
    """Returns the text unchanged. Raises ValueError if the text has more than LONGEST characters."""
    return text if len(text) <= LONGEST else refuse(text)


def refuse(text: str) -> Any:
    raise ValueError(f"not read: {text[:60]}")
