"""Pairs of a gold text and an answer's text: many kinds of answers, each equal, right in another form, or nearly right."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple


class Pair(NamedTuple):
    kind: str
    gold: str
    answer: str


Draw = random.Random
Make = Callable[[Draw], tuple[str, str]]
"""A gold answer and another, both as formulas without their frame."""


def fraction(r: Draw) -> Fraction:
    return Fraction(r.choice([-1, 1]) * r.randint(1, 40), r.randint(2, 30))


def tex(value: Fraction | int, r: Draw) -> str:
    """A rational number in one of its usual notations."""
    value = Fraction(value)
    if value.denominator == 1:
        return str(value.numerator)
    sign, n, d = "-" * (value < 0), abs(value.numerator), value.denominator
    ways = [f"\\frac{{{n}}}{{{d}}}", f"\\dfrac{{{n}}}{{{d}}}", f"{n}/{d}", f"\\tfrac{{{n}}}{{{d}}}"]
    if n < 10 and d < 10:
        ways.append(f"\\frac{n}{d}")
    if n > d:
        ways.append(f"{n // d}\\frac{{{n % d}}}{{{d}}}")
    return sign + r.choice(ways)


def near(value: Fraction, r: Draw) -> Fraction:
    """Mostly the value, else a close one."""
    return r.choice([value, value, value, -value, value + 1, value + Fraction(1, value.denominator + 1), 1 / value if value else value + 2])


def integer(r: Draw) -> tuple[str, str]:
    n = r.randint(-(10 ** r.randint(1, 9)), 10 ** r.randint(1, 9))
    m = r.choice([n, n, n, n + 1, -n, n * 10])
    return str(n), r.choice([str(m), f"{m:,}", f"{m}.0", f"{m:,}".replace(",", "{,}"), f"{m}.00"])


def rational(r: Draw) -> tuple[str, str]:
    value = fraction(r)
    return tex(value, r), tex(near(value, r), r)


def decimal(r: Draw) -> tuple[str, str]:
    value = Fraction(r.randint(-99999, 99999), 10 ** r.randint(1, 4))
    other = near(value, r)
    text = f"{float(value)}"
    return text, r.choice([tex(other, r), f"{float(value)}", f"{float(value)}0", f"{float(value) + 0.01:.4f}"])


def rounded(r: Draw) -> tuple[str, str]:
    value = fraction(r)
    return r.choice([(tex(value, r), f"{float(value):.{d}f}") for d in (2, 4, 5, 6, 7, 9)])


def percent(r: Draw) -> tuple[str, str]:
    n = r.randint(1, 400)
    ways = [f"{n}\\%", f"{n}", f"{n / 100}", f"{n}\\%", f"{n + 1}\\%", tex(Fraction(n, 100), r), f"{n / 10}\\%"]
    return r.choice(ways[:4]), r.choice(ways)


def money(r: Draw) -> tuple[str, str]:
    n = r.randint(1, 20000)
    return f"\\${n}", r.choice([f"\\${n}", f"{n}", f"\\${n:,}", f"\\${n}.00", f"{n + 1}", f"{n} \\text{{ dollars}}", f"{n}.50"])


def units(r: Draw) -> tuple[str, str]:
    n, m = r.randint(1, 500), r.choice([0, 0, 0, 1])
    unit = r.choice(
        ["cm", "km", "m", "hours", "miles", "apples", "degrees", "minutes", "square units", "cm^2", "red marbles", "meters per second"]
    )
    inside = unit.removesuffix("^2")
    after = f"\\text{{ {inside}}}" + ("^2" if unit.endswith("^2") else "")
    ways = [
        f"{n + m}",
        f"{n + m}{after}",
        f"{n + m} {after}",
        f"{n + m}\\ {after}",
        f"{n + m}\\,{after}",
        f"{n + m}\\mathrm{{{inside}}}",
        f"{n + m}^\\circ",
    ]
    return r.choice([str(n), f"{n}{after}"]), r.choice(ways)


def radical(r: Draw) -> tuple[str, str]:
    a, b, c = r.randint(1, 9), r.choice([2, 3, 5, 6, 7, 10, 11]), r.randint(1, 9)
    ways = [
        f"{a}\\sqrt{{{b}}}", f"\\sqrt{{{a * a * b}}}", f"{a} \\cdot \\sqrt{{{b}}}", f"\\frac{{{a * b}}}{{\\sqrt{{{b}}}}}",
        f"{a}\\sqrt{b}", f"{a * b**0.5:.6f}",
        f"{a + c}\\sqrt{{{b}}}", f"\\sqrt{{{a * b}}}", f"{a * b**0.5:.3f}", f"-{a}\\sqrt{{{b}}}", f"{a}*{b}^{{1/2}}",
        f"{a}\\times {b}^{{\\frac{{1}}{{2}}}}",
    ]  # fmt: skip
    return r.choice(ways[:2]), r.choice(ways)


def surd_sum(r: Draw) -> tuple[str, str]:
    a, b, c, d = r.randint(1, 9), r.randint(1, 5), r.choice([2, 3, 5, 7]), r.randint(2, 6)
    ways = [
        f"\\frac{{{a}+{b}\\sqrt{{{c}}}}}{{{d}}}", f"\\frac{{{a}}}{{{d}}}+\\frac{{{b}\\sqrt{{{c}}}}}{{{d}}}",
        f"\\frac{{{b}\\sqrt{{{c}}}+{a}}}{{{d}}}",
        f"\\frac{{{a}-{b}\\sqrt{{{c}}}}}{{{d}}}", f"\\frac{{{a}+{b + 1}\\sqrt{{{c}}}}}{{{d}}}", f"({a}+{b}\\sqrt{{{c}}})/{d}",
        f"\\frac{{{a}+\\sqrt{{{b * b * c}}}}}{{{d}}}",
    ]  # fmt: skip
    return ways[0], r.choice(ways)


def of_pi(r: Draw) -> tuple[str, str]:
    value, other = abs(fraction(r)), abs(fraction(r))
    n, d = value.numerator, value.denominator
    ways = [
        f"\\frac{{{n}\\pi}}{{{d}}}", f"\\frac{{{n}}}{{{d}}}\\pi", f"{n}\\pi/{d}", f"\\frac{{{2 * n}\\pi}}{{{2 * d}}}",
        f"{float(value) * 3.141592653589793:.7f}",
        f"\\frac{{{n + 1}\\pi}}{{{d}}}", f"-\\frac{{{n}\\pi}}{{{d}}}", f"\\frac{{{other.numerator}\\pi}}{{{other.denominator}}}",
        f"{float(value) * 3.14:.2f}",
    ]  # fmt: skip
    return r.choice(ways[:2]), r.choice(ways)


def power(r: Draw) -> tuple[str, str]:
    a, n = r.randint(2, 9), r.randint(2, 8)
    ways = [
        f"{a}^{{{n}}}",
        f"{a**n}",
        f"{a}^{n}",
        f"{a**n + 1}",
        f"{a}^{{{n + 1}}}",
        f"{a} \\cdot {a}^{{{n - 1}}}",
        f"\\frac{{1}}{{{a}^{{{-n}}}}}",
        f"{a}^{{-{n}}}",
    ]
    return r.choice(ways[:2]), r.choice(ways)


def scientific(r: Draw) -> tuple[str, str]:
    m, e = r.randint(1, 99), r.randint(2, 7)
    head = r.choice([str(m), f"{m / 10}", f"{m / 100:.2f}"])
    value = Fraction(head) * 10**e
    plain = str(value) if value.denominator == 1 else f"{float(value)}"
    ways = [
        plain,
        f"{head} \\times 10^{{{e}}}",
        f"{head} \\cdot 10^{e}" if e < 10 else plain,
        f"{head}\\times 10^{{{e + 1}}}",
        f"{head} * 10^{{{e}}}",
    ]
    return f"{head} \\times 10^{{{e}}}", r.choice(ways)


def special(r: Draw) -> tuple[str, str]:
    n, k = r.randint(4, 9), r.randint(1, 3)
    ways = [
        (f"\\binom{{{n}}}{{{k}}}", str(math.comb(n, k))), (f"{k + 2}!", str([1, 1, 2, 6, 24, 120][k + 2])), (f"\\log_2 {2**n}", str(n)),
        ("\\ln e", "1"), ("\\sin\\frac{\\pi}{6}", "\\frac12"), ("\\cos\\pi", "-1"), ("\\log_{3} 9", "2"),
        (f"|-{n}|", str(n)), (f"\\sqrt[3]{{{n**3}}}", str(n)),
        ("\\infty", r.choice(["\\infty", "-\\infty", "+\\infty",
        "5"])), (f"\\lfloor {n}.7 \\rfloor", str(n)), (f"\\frac{{{n}!}}{{{n - 1}!}}", str(n)), ("e^2", "7.389056"),
        (f"\\log_2 {2**n}", str(n + 1)), ("\\tan\\frac{\\pi}{4}", "1"), (f"\\left|{-n}\\right|", str(-n)), ("\\arctan 1",
            "\\frac{\\pi}{4}"), ("\\ln 8", "3\\ln 2"),
    ]  # fmt: skip
    pair = r.choice(ways)
    return pair if r.random() < 0.5 else pair[::-1]


def listed(r: Draw) -> tuple[str, str]:
    """Sets and several answers."""
    values = [fraction(r) if r.random() < 0.3 else Fraction(r.randint(-20, 20)) for _ in range(r.randint(2, 4))]
    other = list(values)
    r.shuffle(other)
    if r.random() < 0.4:
        change = r.randrange(3)
        other = other[:-1] if change == 0 else [*other, Fraction(21)] if change == 1 else [other[0] + 1, *other[1:]]
    return _list(values, r, "set"), _list(other, r, r.choice(["set", "bare", "and"]))


def _list(values: list[Fraction], r: Draw, how: str) -> str:
    items = [tex(v, r) for v in values]
    if how == "set":
        return r.choice(["\\{{{}\\}}", "\\left\\{{{}\\right\\}}"]).format(", ".join(items))
    if how == "and" and len(items) > 1:
        return ", ".join(items[:-1]) + " \\text{ and } " + items[-1]
    return ", ".join(items)


def several(r: Draw) -> tuple[str, str]:
    """Values of one unknown."""
    a, b = r.sample(range(-9, 10), 2)
    c = r.choice([b, b, b, b + 10])
    ways = [
        f"x={a}, x={c}",
        f"x={c} \\text{{ or }} x={a}",
        f"{a}, {c}",
        f"x={a}, {c}",
        f"x \\in \\{{{c}, {a}\\}}",
        f"\\{{{a},{c}\\}}",
        f"x={a}",
        f"{a} \\text{{ or }} {c}",
    ]
    return r.choice([f"x={a}, x={b}", f"{a}, {b}", f"\\{{{a}, {b}\\}}"]), r.choice(ways)


def signs(r: Draw) -> tuple[str, str]:
    a, b = r.randint(1, 9), r.choice([2, 3, 5, 7])
    ways = [
        f"{a} \\pm \\sqrt{{{b}}}",
        f"{a}+\\sqrt{{{b}}}, {a}-\\sqrt{{{b}}}",
        f"{a}-\\sqrt{{{b}}}, {a}+\\sqrt{{{b}}}",
        f"{a}+\\sqrt{{{b}}}",
        f"{a + 1} \\pm \\sqrt{{{b}}}",
        f"x = {a} \\pm \\sqrt{{{b}}}",
    ]
    simple = [f"\\pm {a}", f"{a}, -{a}", f"\\{{-{a}, {a}\\}}", f"x=\\pm {a}", f"{a}", f"\\pm {a + 1}"]
    chosen = r.choice([ways, simple])
    return chosen[0], r.choice(chosen)


def point(r: Draw) -> tuple[str, str]:
    values = [fraction(r) if r.random() < 0.3 else Fraction(r.randint(-9, 9)) for _ in range(r.choice([2, 2, 3]))]
    other = r.choice([values, values, values[::-1], [values[0] + 1, *values[1:]]])
    ways = [f"({', '.join(tex(v, r) for v in other)})", f"\\left({','.join(tex(v, r) for v in other)}\\right)"]
    if len(values) == 2:
        ways.append(f"(x,y)=({tex(other[0], r)},{tex(other[1], r)})")
    return f"({', '.join(tex(v, r) for v in values)})", r.choice(ways)


def points(r: Draw) -> tuple[str, str]:
    found = [(r.randint(-9, 9), r.randint(-9, 9)) for _ in range(2)]
    other = r.choice([found, found[::-1], [found[0], (found[1][0], found[1][1] + 1)]])
    return tuple(", ".join(f"({a}, {b})" for a, b in f) for f in (found, other))  # type: ignore[return-value]


def interval(r: Draw) -> tuple[str, str]:
    a = r.randint(-9, 9)
    low, high = Fraction(a), a + abs(fraction(r)) + 1
    opening, closing = r.choice("(["), r.choice(")]")
    ways = [
        f"{opening}{low}, {tex(high, r)}{closing}", f"{opening}{low},{tex(high, r)}{closing}",
        f"x \\in {opening}{low}, {tex(high, r)}{closing}",
        f"{r.choice('([')}{low}, {tex(high, r)}{closing}", f"{opening}{low}, {tex(high + 1, r)}{closing}",
        f"\\left{opening}{low}, {tex(high, r)}\\right{closing}",
    ]  # fmt: skip
    return ways[0], r.choice(ways)


def union(r: Draw) -> tuple[str, str]:
    a, b = sorted(r.sample(range(-9, 10), 2))
    left, right = f"(-\\infty, {a})", f"({b}, \\infty)"
    ways = [
        f"{left} \\cup {right}", f"{right} \\cup {left}", f"x \\in {left} \\cup {right}", f"(-\\infty, {a}] \\cup {right}",
        f"{left} \\cup ({b + 1}, \\infty)",
        f"{left}\\cup({b},+\\infty)", f"(-\\infty, {b})",
    ]  # fmt: skip
    return ways[0], r.choice(ways)


def inequality(r: Draw) -> tuple[str, str]:
    a = r.randint(-9, 9)
    op, flipped = r.choice([("<", ">"), (">", "<"), ("\\le", "\\ge"), ("\\geq", "\\leq")])
    b = a + r.randint(1, 9)
    single = [
        f"x {op} {a}",
        f"{a} {flipped} x",
        f"x{op} {a}",
        f"x {flipped} {a}",
        f"x {op} {a + 1}",
        f"y {op} {a}",
        f"-x {flipped} {-a}",
        f"x - {b} {op} {a - b}",
    ]
    chain = [f"{a} < x < {b}", f"{a}<x<{b}", f"({a}, {b})", f"{a} \\le x < {b}", f"{a} < x < {b + 1}", f"x \\in ({a}, {b})", f"[{a}, {b})"]
    chosen = r.choice([single, chain])
    return chosen[0], r.choice(chosen)


def equation(r: Draw) -> tuple[str, str]:
    m, b = r.randint(2, 9), r.randint(1, 9)
    ways = [
        f"y = {m}x + {b}", f"y={b}+{m}x", f"{m}x + {b}", f"y - {b} = {m}x", f"y = {m}x - {b}", f"y = {m + 1}x + {b}",
        f"{m}x - y + {b} = 0", f"{2 * m}x - 2y + {2 * b} = 0",
        f"f(x) = {m}x + {b}",
    ]  # fmt: skip
    return ways[0], r.choice(ways[:-1]) if r.random() < 0.9 else ways[-1]


def assignment(r: Draw) -> tuple[str, str]:
    value = Fraction(r.randint(-50, 50)) if r.random() < 0.6 else fraction(r)
    other = near(value, r)
    ways = [
        tex(other, r),
        f"x={tex(other, r)}",
        f"x = {tex(other, r)}",
        f"y={tex(other, r)}",
        f"{tex(other, r)} = x",
        f"n = {tex(other, r)}",
    ]
    return r.choice([f"x={tex(value, r)}", tex(value, r), f"x = {tex(value, r)}"]), r.choice(ways[:4])


def polynomial(r: Draw) -> tuple[str, str]:
    a, b, c = (r.randint(1, 9) for _ in range(3))
    ways = [
        f"(x+{a})(x+{b})", f"x^2+{a + b}x+{a * b}", f"{a * b}+{a + b}x+x^2", f"(x+{b})(x+{a})", f"x^2+{a + b}x+{a * b + 1}",
        f"x^{{2}} + {a + b} x + {a * b}",
        f"(x-{a})(x+{b})", f"x(x+{a + b})+{a * b}", f"x^2+{a + b + c}x+{a * b}",
    ]  # fmt: skip
    return r.choice(ways[:2]), r.choice(ways)


def quotient(r: Draw) -> tuple[str, str]:
    a, b = r.randint(1, 9), r.randint(2, 9)
    ways = [
        f"\\frac{{x+{a}}}{{{b}}}", f"\\frac{{x}}{{{b}}}+\\frac{{{a}}}{{{b}}}", f"\\frac{{1}}{{{b}}}(x+{a})", f"(x+{a})/{b}",
        f"\\frac{{x-{a}}}{{{b}}}", f"\\frac{{{a}+x}}{{{b}}}",
        f"\\frac{{x+{a}}}{{{b + 1}}}", f"\\frac{{2x+{2 * a}}}{{{2 * b}}}",
    ]  # fmt: skip
    return ways[0], r.choice(ways)


def symbols(r: Draw) -> tuple[str, str]:
    ways = [
        ("a+b", "b+a"), ("ab", "ba"), ("2\\pi r", "2r\\pi"), ("x_1+x_2", "x_2+x_1"), ("a^2-b^2", "(a-b)(a+b)"), ("\\frac{a}{b}", "a/b"),
        ("n(n+1)/2", "\\frac{n^2+n}{2}"),
        ("a-b", "b-a"), ("x+1", "y+1"), ("\\alpha+\\beta", "\\beta+\\alpha"), ("\\sin^2 x", "1-\\cos^2 x"), ("\\tan x",
        "\\frac{\\sin x}{\\cos x}"), ("2^{n+1}", "2\\cdot 2^n"),
        ("\\sqrt{x^2}", "|x|"), ("e^{2x}", "(e^x)^2"), ("x^{1/2}", "\\sqrt{x}"), ("\\frac{1}{x}", "x^{-1}"), ("\\sin 2x",
        "2\\sin x\\cos x"), ("\\log x", "\\ln x"), ("\\sqrt{x^2}", "x"),
        ("\\cos 2x", "1-2\\sin^2 x"), ("x^2+1", "x^2"), ("\\frac{x^2-1}{x-1}", "x+1"), ("|x-1|", "|1-x|"), ("kx", "-kx"),
        ("\\frac{n!}{(n-1)!}", "n"), ("\\ln(ab)", "\\ln a+\\ln b"),
    ]  # fmt: skip
    pair = r.choice(ways)
    return r.choice([pair, pair[::-1], (pair[0], pair[0])])


def matrix(r: Draw) -> tuple[str, str]:
    rows = [[r.randint(-9, 9) for _ in range(2)] for _ in range(2)]
    other = [list(row) for row in rows]
    if r.random() < 0.4:
        other[r.randrange(2)][r.randrange(2)] += 1
    kinds = r.choices(["pmatrix", "bmatrix"], k=2)
    return tuple(
        f"\\begin{{{k}}} " + " \\\\ ".join(" & ".join(map(str, row)) for row in m) + f" \\end{{{k}}}"
        for k, m in zip(kinds, (rows, other), strict=True)
    )  # type: ignore[return-value]


def imaginary(r: Draw) -> tuple[str, str]:
    a, b = r.randint(-9, 9), r.randint(1, 9)
    ways = [f"{a}+{b}i", f"{a} + {b}i", f"{a}-{b}i", f"{a + 1}+{b}i", f"{a}+{b + 1}i", f"{a}+{b}i"]
    return ways[0], r.choice(ways)


def product_of_i(r: Draw) -> tuple[str, str]:
    a = r.randint(1, 5)
    return r.choice(
        [("i^2", "-1"), (f"(1+{a}i)(1-{a}i)", str(1 + a * a)), (f"(1+{a}i)^2", f"{1 - a * a}+{2 * a}i"), (f"\\sqrt{{-{a * a}}}", f"{a}i")]
    )


def word(r: Draw) -> tuple[str, str]:
    words = ["yes", "no", "A", "B", "C", "D", "blue", "north", "Sunday", "Evelyn", "odd", "no solution"]
    a, b = r.choice(words), r.choice(words)
    b = a if r.random() < 0.6 else b
    return r.choice([f"\\text{{{a}}}", f"\\text{{({a})}}"] if len(a) == 1 else [f"\\text{{{a}}}"]), r.choice(
        [f"\\text{{{b}}}", f"\\textbf{{{b}}}", f"\\text{{{b.lower()}}}", b]
    )


def empty(r: Draw) -> tuple[str, str]:
    return r.choice(
        [
            ("\\emptyset", "\\emptyset"),
            ("\\emptyset", "\\{\\}"),
            ("\\{\\}", "\\emptyset"),
            ("\\emptyset", "0"),
            ("\\emptyset", "\\varnothing"),
            ("\\mathbb{R}", "(-\\infty,\\infty)"),
        ]
    )


KINDS: dict[Make, int] = {
    integer: 14, rational: 14, decimal: 10, rounded: 6, percent: 5, money: 4, units: 6, radical: 8, surd_sum: 4, of_pi: 5, power: 5,
        scientific: 3, special: 4, listed: 7,
    several: 5, signs: 4, point: 6, points: 2, interval: 5, union: 3, inequality: 5, equation: 5, assignment: 8, polynomial: 5,
        quotient: 4, symbols: 5, matrix: 4, imaginary: 3,
    product_of_i: 0.05, word: 5, empty: 0.3,
}  # type: ignore[dict-item]  # fmt: skip
COMMON = (
    "integer",
    "rational",
    "decimal",
    "rounded",
    "percent",
    "money",
    "units",
    "radical",
    "of_pi",
    "power",
    "listed",
    "point",
    "interval",
    "assignment",
)
"""Kinds of most answers in competition and school mathematics."""

FRAMES = [
    "\\boxed{{{}}}", "${}$", "The final answer is ${}$. I hope it is correct.",
    "So the total comes to 17 - 4 and therefore\n\\[ \\boxed{{{}}} \\]", "The answer is ${}$.",
    "We have $k = 12$ at first. Hence we get $\\boxed{{{}}}$.", "\\[ {} \\]", "Adding the 3 parts, the answer is \\boxed{{{}}}",
    "Answer: ${}$", "Thus, \\({}\\).",
]  # fmt: skip
FRAMES += ["Therefore ${}$", "**Answer:** ${}$", "$$ {} $$", "It follows that ${}$ holds."]
PLAIN = ["{}", "The answer is {}", "Answer: {}", "First 3 + 4 = 7.\n#### {}", "We find {}", "Final answer: {}"]


def pairs(count: int, seed: int = 0) -> Iterator[Pair]:
    """`count` pairs, the same for a seed."""
    r = random.Random(seed)
    makes, weights = list(KINDS), list(KINDS.values())
    for make in r.choices(makes, weights, k=count):
        gold, answer = make(r)
        bare = make in (integer, decimal, rounded) and set(answer) <= set("-0123456789.,/") and r.random() < 0.5
        yield Pair(make.__name__, r.choice(FRAMES[:2]).format(gold), r.choice(PLAIN if bare else FRAMES).format(answer))
