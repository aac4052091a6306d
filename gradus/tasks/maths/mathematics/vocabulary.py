"""The known signs and commands of LaTeX, with their meanings."""

from __future__ import annotations

import re
from fractions import Fraction

from gradus.tasks.maths.mathematics.terms import INFINITY, PI, Term, Unreadable, number

DIGITS = 400  # largest number of digits of a number

RELATIONS = {
    "=": "=", "==": "=", "\\in": "=", "\\equiv": "=", "<": "<", "\\lt": "<", ">": ">", "\\gt": ">",
    "\\le": "<=", "\\leq": "<=", "\\leqslant": "<=", "≤": "<=", "\\ge": ">=", "\\geq": ">=", "\\geqslant": ">=", "≥": ">=",
    "\\ne": "!=", "\\neq": "!=", "≠": "!=", "\\approx": "~", "≈": "~",
}  # fmt: skip
REGIONS = {
    "\\cup": "union",
    "∪": "union",
    "\\cap": "intersection",
    "∩": "intersection",
    "\\setminus": "difference",
    "\\backslash": "difference",
}
TIMES, OVER = ("*", "\\cdot", "\\times", "×", "·", "\\ast"), ("/", "\\div", "÷", ":")
_NAMED = "sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan exp ln log"
FUNCTIONS = {
    **{f"\\{name}": name for name in _NAMED.split()},
    "\\lg": "log",
}
INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}
LISTS = {"\\max": "max", "\\min": "min", "\\gcd": "gcd", "\\lcm": "lcm"}
CONSTANTS = {"\\pi": PI, "π": PI, "\\infty": INFINITY, "∞": INFINITY, "\\emptyset": Term("set", ()), "\\varnothing": Term("set", ())}
_LETTERS = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau upsilon phi varphi "
    "chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell triangle angle"
)
GREEK = frozenset(f"\\{name}" for name in _LETTERS.split())
ACCENTS = ("\\vec", "\\hat", "\\bar", "\\overline", "\\tilde", "\\dot", "\\overrightarrow")
CLOSING = {"(": ")", "[": "]", "\\{": "\\}", "\\langle": "\\rangle", "{": "}"}
MATRICES = ("matrix", "pmatrix", "bmatrix", "Bmatrix", "array", "smallmatrix")
_NUMBER = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+")
_ENDINGS = ", ; ) ] } \\} \\rangle & \\\\ ^ _ ! % + - \\pm \\mp \\rfloor \\rceil \\mid \\rvert"
STOPS = frozenset([*RELATIONS, *REGIONS, *TIMES, *OVER, *_ENDINGS.split()])
"""Tokens that do not begin a factor."""


def literal(token: str) -> Term:
    """Returns the value of a token that is a number. Raises Unreadable if the token is not a number or has too many digits."""
    if not _NUMBER.fullmatch(token) or len(token) > DIGITS:
        raise Unreadable(f"{token[:20]} is not a number")
    whole, _, decimals = token.partition(".")
    return number(Fraction(int((whole or "0") + decimals), 10 ** len(decimals)), decimal=bool(decimals))
