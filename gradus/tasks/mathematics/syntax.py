"""From tokens to terms, by recursive descent of bounded depth.

answer    := statement {"," statement}                 statement := region {relation region}
region    := sum {union | intersection | difference}    sum       := product {+ | - | plus or minus}
product   := run {times | over}                         run       := power {power}: 1/2x is 1/(2x)
"""

from __future__ import annotations

from fractions import Fraction

from gradus.tasks.mathematics.atoms import atom
from gradus.tasks.mathematics.notation import clean, tokens
from gradus.tasks.mathematics.terms import Term, Unreadable, call, inverse, members, negative, number, product
from gradus.tasks.mathematics.vocabulary import OVER, REGIONS, RELATIONS, STOPS, TIMES

DEPTH = 40
MARKS = 16  # exponents and the like after one atom; regions that are joined
SIGNS = 4  # values that signs "plus or minus" may stand for together


def read(text: str) -> Term:
    """The term of a piece of LaTeX. Raises Unreadable where it is none, or larger than what is read."""
    reader = Reader(tokens(clean(text)))
    found = reader.answer(())
    if reader.at < len(reader.tokens):
        raise Unreadable(f"unexpected {reader.peek()}")
    return found


class Reader:
    """A position in a list of tokens; every method reads one form from there."""

    def __init__(self, found: list[str]) -> None:
        self.tokens, self.at, self.depth, self.bars = found, 0, 0, 0

    def peek(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        token = self.peek()
        if not token or (wanted is not None and token != wanted):
            raise Unreadable(f"{wanted or 'more'} expected at {token or 'the end'}")
        self.at += 1
        return token

    def answer(self, ends: tuple[str, ...]) -> Term:
        """Statements with commas between them: one as it is, several as a set."""
        items = self.statements(ends)
        return items[0] if len(items) == 1 else members(items)

    def statements(self, ends: tuple[str, ...]) -> list[Term]:
        self.depth += 1
        if self.depth > DEPTH:
            raise Unreadable("nested too deeply")
        items = [self.statement()]
        while self.peek() in (",", ";") and self.at + 1 < len(self.tokens) and self.peek(1) not in ends:
            self.at += 1
            if self.peek() not in (",", ""):
                items.append(self.statement())
        if self.peek() in (",", ";"):
            self.at += 1
        self.depth -= 1
        return items

    def statement(self) -> Term:
        if self.peek() in ("=", "\\approx", "≈"):  # "= 5" and "about 5" are 5
            self.at += 1
        left, found = self.region(), []
        while self.peek() in RELATIONS:
            kind = RELATIONS[self.take()]
            right = self.region()
            if kind != "~":
                found.append(Term("relation", (kind, left, right)))
            left = right
        if not found:
            return left
        if all(r.parts[0] == "=" for r in found):  # a = b = c says that a is c
            return Term("relation", ("=", found[0].parts[1], left))
        return found[0] if len(found) == 1 else Term("chain", tuple(found))

    def region(self) -> Term:
        found = self.sum()
        for _ in range(MARKS):
            if self.peek() not in REGIONS:
                break
            kind = REGIONS[self.take()]
            found = Term(kind, (found, self.sum()))
        return found

    def sum(self) -> Term:
        """Terms added up; each sign "plus or minus" doubles the values, which then are a set."""
        values: list[list[Term]] = [[]]
        sign = self.sign()
        while True:
            term = self.product()
            opposite = negative(term)
            if sign in ("\\pm", "\\mp"):
                values = [[*v, t] for v in values for t in (term, opposite)]
            else:
                values = [[*v, opposite if sign == "-" else term] for v in values]
            if len(values) > SIGNS:
                raise Unreadable("too many signs")
            if self.peek() not in ("+", "-", "\\pm", "\\mp", "±"):
                break
            sign = self.sign()
        sums = [v[0] if len(v) == 1 else Term("+", tuple(v)) for v in values]
        return sums[0] if len(sums) == 1 else Term("set", tuple(sums))

    def sign(self) -> str:
        """The signs that stand here, as one."""
        sign = ""
        while self.peek() in ("+", "-", "\\pm", "\\mp", "±"):
            token = self.take().replace("±", "\\pm")
            sign = token if len(token) > 1 else (sign if token == "+" else {"-": "", "": "-"}.get(sign, sign))
        return sign

    def product(self) -> Term:
        factors = [self.run()]
        while self.peek() in TIMES or self.peek() in OVER:
            over = self.take() in OVER
            opposite = self.sign() == "-"
            factor = inverse(self.run()) if over else self.run()
            factors.append(negative(factor) if opposite else factor)
        return product(factors)

    def run(self) -> Term:
        """Factors side by side. A whole number before a fraction of whole numbers is a mixed number."""
        start = self.at
        factors = [self.power()]
        while self.more():
            factors.append(self.power())
        mixed = len(factors) == 2 and self.tokens[start].isdigit() and self.tokens[start + 1] == "\\frac"
        if mixed and whole_fraction(factors[1]):
            return number(factors[0].parts[0] + rational(factors[1]))
        return product(factors)

    def more(self) -> bool:
        token = self.peek()
        if token in ("|", "\\vert", "\\lvert"):
            return self.bars == 0
        return bool(token) and token not in STOPS and not token.startswith(("\\end", "\\right"))

    def power(self) -> Term:
        self.depth += 1
        if self.depth > DEPTH:
            raise Unreadable("nested too deeply")
        found = atom(self)
        for _ in range(MARKS):
            if self.peek() not in ("^", "!", "%", "'", "_"):
                break
            mark = self.take()
            if mark == "^":
                found = Term("^", (found, self.argument()))
            elif mark == "!":
                found = call("factorial", found)
            elif mark == "%":
                found = Term("percent", (found,))
            elif mark == "_":  # the base of a numeral is not read
                self.argument()
        self.depth -= 1
        return found

    def argument(self) -> Term:
        r"""What follows `^`, `_`, `\frac` or `\sqrt`: a group in braces, or one sign (of a number its first digit)."""
        token = self.peek()
        if token == "{":
            self.take()
            found = self.answer(("}",))
            self.take("}")
            return found
        if len(token) > 1 and token[0].isdigit():
            self.tokens[self.at] = token[1:]
            return number(int(token[0]))
        if token in STOPS:
            raise Unreadable(f"unexpected {token}")
        self.depth += 1  # \sqrt\sqrt\sqrt 2
        if self.depth > DEPTH:
            raise Unreadable("nested too deeply")
        found = atom(self)
        self.depth -= 1
        return found


def whole_fraction(term: Term) -> bool:
    """Whether a term is one whole number over another."""
    return term.head == "*" and len(term.parts) == 2 and term.parts[0].head == "number" and denominator(term.parts[1]) > 0


def denominator(term: Term) -> int:
    if term.head != "^" or term.parts[1] != number(-1) or term.parts[0].head != "number" or term.parts[0].parts[1]:
        return 0
    return int(term.parts[0].parts[0])


def rational(term: Term) -> Fraction:
    """The value of a whole fraction."""
    return term.parts[0].parts[0] / denominator(term.parts[1])
