"""Formulas of wireless channels as text: read without `eval`, compared at random points, and masked in parts."""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence

_LONGEST = 200  # characters of a formula that is read
_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "log": math.log, "ln": math.log, "log2": math.log2, "log10": math.log10, "sqrt": math.sqrt, "exp": math.exp,
}  # fmt: skip
_OPERATORS: Mapping[type, Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: math.pow(a, b),
}  # fmt: skip
_LATEX = (
    (r"\\left|\\right|\\[,;! ]", ""), (r"\\cdot|\\times", "*"), (r"\\log_\{?(2|10)\}?", r"log\1"), (r"\\(log|ln|exp|sqrt)", r"\1"),
)  # fmt: skip
_FRACTION = re.compile(r"\\frac\{([^{}]*)\}\{([^{}]*)\}")


def plain(text: str) -> str:
    r"""Returns a formula in LaTeX in the plain form.

    >>> plain(r"B \log_2\left(1+\frac{S}{N}\right)").replace(" ", "")
    'Blog2(1+((S)/(N)))'
    """
    for pattern, by in _LATEX:
        text = re.sub(pattern, by, text)
    while (found := _FRACTION.search(text)) is not None:
        text = f"{text[: found.start()]}(({found[1]})/({found[2]})){text[found.end() :]}"
    return text.replace("{", "(").replace("}", ")").replace("^", "**").strip()


def parsed(text: str) -> ast.expr | None:
    """Returns the tree of a formula of numbers, names, + - * / ^ and the functions log (natural), ln, log2, log10, sqrt, exp; None for any other text."""
    if not text.isascii() or len(text) > _LONGEST:
        return None
    try:
        tree = ast.parse(plain(text), mode="eval").body
        return tree if _allowed(tree) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _allowed(node: ast.expr) -> bool:
    match node:
        case ast.BinOp():
            return type(node.op) in _OPERATORS and _allowed(node.left) and _allowed(node.right)
        case ast.UnaryOp():
            return isinstance(node.op, ast.USub | ast.UAdd) and _allowed(node.operand)
        case ast.Call():
            named = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
            return named and len(node.args) == 1 and not node.keywords and _allowed(node.args[0])
        case ast.Name():
            return node.id not in _FUNCTIONS
        case ast.Constant():
            return type(node.value) in (int, float)
    return False


def value(node: ast.expr, at: Mapping[str, float]) -> float:
    """Returns the value of a parsed formula for the values of its names. Raises KeyError for an unknown name, and ArithmeticError or ValueError for an
    undefined value."""
    match node:
        case ast.BinOp():
            return _OPERATORS[type(node.op)](value(node.left, at), value(node.right, at))
        case ast.UnaryOp():
            inner = value(node.operand, at)
            return -inner if isinstance(node.op, ast.USub) else inner
        case ast.Call(func=ast.Name(id=name)):
            return _FUNCTIONS[name](value(node.args[0], at))
        case ast.Name():
            return at[node.id]
        case ast.Constant():
            return float(node.value)  # type: ignore[arg-type]
    raise ValueError("not a formula")


def names_of(node: ast.expr) -> set[str]:
    """Returns the names of a formula, without functions."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id not in _FUNCTIONS}


def equivalent(said: str, due: str, *, points: int = 5, tolerance: float = 1e-6) -> bool:
    """Returns whether two formulas agree at `points` random points with names in [1, 3]; False if one of them cannot be read or is undefined there.

    >>> equivalent("B*log2(1+S/N)", "B*ln((N+S)/N)/ln(2)"), equivalent("B*log2(1+S/N)", "B*log(1+S/N)")
    (True, False)
    """
    a, b = parsed(said), parsed(due)
    if a is None or b is None:
        return False
    rng = random.Random(due)
    for _ in range(points):
        at = {name: rng.uniform(1, 3) for name in sorted(names_of(b))}
        try:
            one, other = value(a, at), value(b, at)
        except (KeyError, ArithmeticError, ValueError):
            return False
        if not math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance):
            return False
    return True


def masked(terms: Sequence[str], share: float, rng: random.Random) -> tuple[list[str], list[int]]:
    """Hides a share of the terms, at least one term: replaces each of them by "?". Returns the new terms and the indices of the hidden terms."""
    hidden = sorted(rng.sample(range(len(terms)), max(1, round(share * len(terms)))))
    return ["?" if i in hidden else term for i, term in enumerate(terms)], hidden
