"""Computes the value of a term: an exact fraction, a residue that separates unequal terms, or a floating-point number.

Every computation is bounded: exact numbers have at most BITS bits, exponents and factorials have limits, and a term outside the range of a
double has no value. So the length of an answer bounds the time that its comparison takes.
"""

from __future__ import annotations

import cmath
import hashlib
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from gradus.tasks.maths.mathematics.terms import Term

BITS = 4096
PRIME = 2**64 - 59  # 2 is a primitive root: no small power of two is 1, -1 or i modulo PRIME
ROOT_OF_MINUS_ONE = pow(2, PRIME // 4, PRIME)
EXPONENT = 10_000  # largest exponent of a residue
FACTORIAL = 170  # the largest number whose factorial is a double
NUMERIC = frozenset(["number", "symbol", "+", "*", "^", "call", "percent"])


class Valueless(ArithmeticError):
    """The error for a term without a value of the requested kind, or with a value beyond the limits."""


def exact(term: Term) -> Fraction:
    """Returns the rational value of a term. Raises Valueless if the value is irrational, unknown or too large."""
    head, parts = term
    if head == "number":
        return _limited(parts[0])
    if head == "percent":
        return exact(parts[0]) / 100
    if head == "+":
        return _limited(sum((exact(p) for p in parts), Fraction(0)))
    if head == "*":
        value = Fraction(1)
        for part in parts:
            value = _limited(value * exact(part))
        return value
    if head == "^":
        return _limited(power(exact(parts[0]), exact(parts[1])))
    if head == "call" and parts[0] in EXACT:
        return _limited(_called(EXACT[parts[0]], [exact(p) for p in parts[1:]]))
    raise Valueless(head)


def _called(function: Callable[..., Fraction], arguments: list[Fraction]) -> Fraction:
    try:
        return function(*arguments)
    except (OverflowError, ZeroDivisionError, ValueError) as error:  # logarithms of numbers outside the range of a double
        raise Valueless(str(error)) from None


def _limited(value: Fraction) -> Fraction:
    if value.numerator.bit_length() + value.denominator.bit_length() > BITS:
        raise Valueless("too large")
    return value


def power(base: Fraction, exponent: Fraction) -> Fraction:
    """Returns base^exponent. Raises Valueless if the power is irrational, or has more than BITS bits."""
    if exponent.denominator > 1:
        base, exponent = exact_root(base, exponent.denominator), Fraction(exponent.numerator)
    count = int(exponent)
    if base == 0 and count <= 0:
        raise Valueless("a power of zero")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size > 1 and size * abs(count) > BITS:
        raise Valueless("too large")
    return base ** (count if abs(base) != 1 else count % 2)


def exact_root(value: Fraction, degree: int) -> Fraction:
    """Returns the rational root of a positive fraction.

    Raises Valueless if the root is irrational, if the value is 0 or less, or if the degree is above 64.
    """
    if value <= 0 or degree > 64:
        raise Valueless("a root that is not rational")
    ends = [_whole_root(value.numerator, degree), _whole_root(value.denominator, degree)]
    if ends[0] ** degree != value.numerator or ends[1] ** degree != value.denominator:
        raise Valueless("a root that is not rational")
    return Fraction(ends[0], ends[1])


def _whole_root(value: int, degree: int) -> int:
    if degree == 2:
        return math.isqrt(value)
    low, high = 1, 1 << -(-value.bit_length() // degree)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
    return low


def _whole(value: Fraction, most: int) -> int:
    if value.denominator != 1 or not 0 <= value <= most:
        raise Valueless("a number that is not whole or is too large")
    return int(value)


def _logarithm(value: Fraction, base: Fraction) -> Fraction:
    """Returns log_base(value) if this logarithm is a fraction with a numerator up to 512 and a denominator up to 12. Else raises Valueless."""
    if value <= 0 or base <= 0 or base == 1:
        raise Valueless("a logarithm that is not rational")
    near = Fraction(math.log(value) / math.log(base)).limit_denominator(12)
    if abs(near.numerator) > 512 or value**near.denominator != power(base, Fraction(near.numerator)):
        raise Valueless("a logarithm that is not rational")
    return near


EXACT: Mapping[str, Callable[..., Fraction]] = {
    "abs": abs,
    "floor": lambda x: Fraction(math.floor(x)),
    "ceil": lambda x: Fraction(math.ceil(x)),
    "factorial": lambda x: Fraction(math.factorial(_whole(x, FACTORIAL))),
    "binomial": lambda n, k: Fraction(math.comb(_whole(n, 2000), _whole(k, 2000))),
    "max": lambda *xs: max(xs),
    "min": lambda *xs: min(xs),
    "gcd": lambda *xs: Fraction(math.gcd(*[_whole(x, 2**512) for x in xs])),
    "lcm": lambda *xs: Fraction(math.lcm(*[_whole(x, 2**64) for x in xs])),
    "log": _logarithm,
}


def residue(term: Term, point: int) -> int:
    """Computes the value modulo PRIME. Every variable, and every part that is not polynomial, has a random value. The name of the variable or part,
    and `point`, determine this value.

    Two equal terms that are rational in their variables have equal residues. Two different terms of this kind have different residues; the chance of an
    exception is about their degree divided by PRIME. For other terms different residues prove nothing. Raises Valueless for a division by zero.
    """
    head, parts = term
    if head == "number":
        return _quotient(parts[0].numerator, parts[0].denominator)
    if head == "symbol":
        return ROOT_OF_MINUS_ONE if parts[0] == "\\i" else _place(parts[0], point)
    if head == "percent":
        return _quotient(residue(parts[0], point), 100)
    if head == "+":
        return sum(residue(p, point) for p in parts) % PRIME
    if head == "*":
        value = 1
        for part in parts:
            value = value * residue(part, point) % PRIME
        return value
    if head == "^" and (count := whole_exponent(parts[1])) is not None:
        base = residue(parts[0], point)
        return pow(base, count, PRIME) if count >= 0 else _quotient(1, pow(base, -count, PRIME))
    if head not in NUMERIC:
        raise Valueless(head)
    names = [p if isinstance(p, str) else str(residue(p, point)) for p in parts]
    return _place("\n".join([head, *names]), point)


def whole_exponent(term: Term) -> int | None:
    """Returns the exponent if it is a whole number from -EXPONENT to EXPONENT; None for any other exponent."""
    if term.head == "number" and term.parts[0].denominator == 1 and abs(term.parts[0]) <= EXPONENT:
        return int(term.parts[0])
    return None


def _quotient(above: int, below: int) -> int:
    if below % PRIME == 0:
        raise Valueless("division by zero")
    return above * pow(below, -1, PRIME) % PRIME


@lru_cache(maxsize=4096)
def _place(name: str, point: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{point}:{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") % PRIME


def polynomial(term: Term) -> bool:
    """Returns whether a term is a quotient of polynomials. For such terms different residues prove that the terms differ."""
    if term.head in ("+", "*", "percent"):
        return all(polynomial(p) for p in term.parts)
    if term.head == "^":
        return polynomial(term.parts[0]) and whole_exponent(term.parts[1]) is not None
    if term.head == "call" and term.parts[0].endswith("()"):
        return all(polynomial(p) for p in term.parts[1:])
    return term.head == "number" or (term.head == "symbol" and term.parts[0] != "\\infty")


def names(term: Term) -> frozenset[str]:
    """Returns the variables of a term."""
    if term.head == "symbol":
        return frozenset() if term.parts[0].startswith("\\") else frozenset(term.parts)
    return frozenset().union(*[names(p) for p in term.parts if isinstance(p, Term)])


def approximate(term: Term, places: Mapping[str, float], tools: Any = None) -> Any:
    """Computes the complex value of a term on principal branches. `places` has the value of each variable.

    The value is a double, or has the precision of mpmath if `tools` is mpmath. Raises Valueless if the value is undefined or outside the range
    of a double.
    """
    try:
        value = _evaluate(term, places, tools or Doubles)
    except (OverflowError, ZeroDivisionError, ValueError, TypeError) as error:
        raise Valueless(str(error)) from None
    if not cmath.isfinite(complex(value)):
        raise Valueless("not finite")
    return value


def _evaluate(term: Term, places: Mapping[str, float], tools: Any) -> Any:
    head, parts = term
    if head == "number":
        return tools.mpf(parts[0].numerator) / parts[0].denominator
    if head == "symbol":
        if parts[0].startswith("\\"):
            return {"\\pi": +tools.pi, "\\e": +tools.e, "\\i": tools.mpc(0, 1)}.get(parts[0], math.inf)
        return tools.mpf(places[parts[0]])
    values = [_evaluate(p, places, tools) for p in parts if isinstance(p, Term)]
    if head == "percent":
        return values[0] / 100
    if head == "+":
        return sum(values)
    if head == "*":
        return math.prod(values)
    if head == "^":
        return tools.power(values[0], values[1])
    if head == "call" and parts[0] in FUNCTIONS:
        return FUNCTIONS[parts[0]](tools, *values)
    raise Valueless(head)


class Doubles:
    """The functions of mpmath that this module uses, in double precision."""

    pi, e, mpc = math.pi, math.e, complex
    sin, cos, tan, sinh, cosh, tanh = cmath.sin, cmath.cos, cmath.tan, cmath.sinh, cmath.cosh, cmath.tanh
    asin, acos, atan, log = cmath.asin, cmath.acos, cmath.atan, cmath.log

    @staticmethod
    def mpf(value: float) -> float:
        return float(value)

    @staticmethod
    def power(base: complex, exponent: complex) -> complex:
        return complex(base) ** exponent

    @staticmethod
    def gamma(value: complex) -> float:
        return math.gamma(_real(value))


def _real(value: Any) -> Any:
    if abs(complex(value).imag) > 1e-12:
        raise Valueless("complex")
    return value.real


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: (lambda tools, x, name=name: getattr(tools, name)(x)) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"arc{name}": (lambda tools, x, name=name: getattr(tools, f"a{name}")(x)) for name in ("sin", "cos", "tan")},
    "cot": lambda tools, x: tools.cos(x) / tools.sin(x),
    "sec": lambda tools, x: 1 / tools.cos(x),
    "csc": lambda tools, x: 1 / tools.sin(x),
    "ln": lambda tools, x: tools.log(x),
    "log": lambda tools, x, base: tools.log(x) / tools.log(base),
    "abs": lambda tools, x: abs(x),
    "factorial": lambda tools, x: tools.gamma(_real(x) + 1),
    "binomial": lambda tools, n, k: tools.gamma(_real(n) + 1) / (tools.gamma(_real(k) + 1) * tools.gamma(_real(n) - _real(k) + 1)),
}
