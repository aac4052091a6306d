"""Parses tokens into terms, by recursive descent of bounded depth.

answer    := statement {"," statement}                 statement := region {relation region}
region    := sum {union | intersection | difference}    sum       := product {+ | - | plus or minus}
product   := run {times | over}                         run       := power {power}: 1/2x is 1/(2x)
"""

from __future__ import annotations

import re

from gradus.tasks.maths.mathematics.notation import clean, tokens
from gradus.tasks.maths.mathematics.terms import (
    EULER,
    IMAGINARY,
    REALS,
    Term,
    Unreadable,
    call,
    inverse,
    members,
    negative,
    number,
    product,
    rational,
    symbol,
    whole_fraction,
)
from gradus.tasks.maths.mathematics.vocabulary import (
    ACCENTS,
    CLOSING,
    CONSTANTS,
    FUNCTIONS,
    GREEK,
    INVERSES,
    LISTS,
    MATRICES,
    OVER,
    REGIONS,
    RELATIONS,
    STOPS,
    TIMES,
    literal,
)

DEPTH = 40
MARKS = 16  # largest number of marks, such as exponents, after one atom, and of regions in one union or intersection
SIGNS = 4  # largest number of values that "plus or minus" signs may produce together


def read(text: str) -> Term:
    """Parses LaTeX text into a term. Raises Unreadable if the text has no known form or is too large."""
    reader = Reader(tokens(clean(text)))
    found = reader.answer(())
    if reader.at < len(reader.tokens):
        raise Unreadable(f"unexpected {reader.peek()}")
    return found


class Reader:
    """A position in a list of tokens. Every method reads one form that begins at this position."""

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
        """Reads statements that are separated by commas. Returns a single statement unchanged, and several statements as a set."""
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
        if all(r.parts[0] == "=" for r in found):  # a = b = c means a = c
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
        """Reads a sum. Each sign "plus or minus" doubles the number of values; several values form a set."""
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
        """Reads the signs at this position and returns them as one sign."""
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
        """Reads adjacent factors. A whole number before a fraction of whole numbers is a mixed number."""
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
            elif mark == "_":  # the base of a numeral is ignored
                self.argument()
        self.depth -= 1
        return found

    def argument(self) -> Term:
        r"""Reads the argument after `^`, `_`, `\frac` or `\sqrt`: a group in braces, or one token (if it is a number, only its first digit)."""
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


def atom(reader: Reader) -> Term:
    """Reads one atom. Raises Unreadable if no atom is at this position."""
    token = reader.take()
    if token[0].isdigit() or token[0] == ".":
        return literal(token)
    if token.isascii() and token.isalpha():
        return letter(reader, token)
    if token in CONSTANTS:
        return CONSTANTS[token]
    if token in CLOSING:
        return group(reader, token)
    if token in ("|", "\\vert", "\\lvert"):
        return absolute(reader, "\\rvert" if token == "\\lvert" else token)
    if token in FORMS:
        return FORMS[token](reader)
    if token in FUNCTIONS:
        return function(reader, FUNCTIONS[token])
    if token in LISTS:
        reader.take("(")
        arguments = reader.statements((")",))
        reader.take(")")
        return call(LISTS[token], *arguments)
    if token in GREEK:
        return symbol(named(reader, token[1:].lower()))
    if token in ACCENTS:
        return symbol(f"{token[1:]}{{{''.join(words(reader))}}}")
    if token.startswith("\\text") and token.endswith("}"):
        name = re.sub(r"[\s()]", "", token[token.index("{") + 1 : -1]).lower()
        return symbol(named(reader, name))
    if token.startswith("\\begin") and "{" in token:
        return matrix(reader, token[token.index("{") + 1 : token.index("}")])
    raise Unreadable(f"unexpected {token}")


def letter(reader: Reader, token: str) -> Term:
    """Reads a letter: e and i are constants, f(x) is a value of f, any other letter is a variable, in lower case."""
    if token == "e":
        return EULER
    if token in ("i", "I") and reader.peek() != "_":
        return IMAGINARY
    name = named(reader, token.lower())
    if reader.peek() == "(" and reader.peek(2) == ")" and reader.peek(1).isalnum():
        reader.at += 1
        argument = atom(reader)
        reader.take(")")
        return call(f"{token}()", argument)
    return symbol(name)


def named(reader: Reader, name: str) -> str:
    """Returns the name, joined with its index if an index follows at this position."""
    if reader.peek() != "_":
        return name
    reader.take()
    return f"{name}_{''.join(words(reader))}"


def words(reader: Reader) -> list[str]:
    """Returns the tokens of a group in braces, or the one token at this position."""
    if reader.peek() != "{":
        return [reader.take()]
    reader.take()
    found = []
    while reader.peek() != "}":
        found.append(reader.take().lower())
    reader.take("}")
    return found


def group(reader: Reader, opening: str) -> Term:
    """Reads a group in brackets: a set, an interval (two ends) or a tuple (more members). A single item in ( ), [ ] or LaTeX braces { } is the item itself."""
    if opening == "\\{" and reader.peek() == "\\}":
        reader.take()
        return Term("set", ())
    bars, reader.bars = reader.bars, 0
    items = reader.statements((")", "]", "}", "\\}"))
    closing, reader.bars = reader.take(), bars
    if opening == "\\{" and closing == "\\}":
        return Term("set", tuple(items))
    if opening == "{" and closing == "}":
        return items[0] if len(items) == 1 else members(items)
    if opening in "([" and closing in (")", "]") and len(items) == 2:
        return Term("interval", (opening, *items, closing))
    if CLOSING[opening] != closing or opening == "\\{":
        raise Unreadable(f"{opening} is closed by {closing}")
    return items[0] if len(items) == 1 else Term("tuple", tuple(items))


def absolute(reader: Reader, closing: str) -> Term:
    reader.bars += 1
    inside = reader.sum()
    reader.take(closing)
    reader.bars -= 1
    return call("abs", inside)


def rounded(name: str, closing: str, reader: Reader) -> Term:
    inside = reader.sum()
    reader.take(closing)
    return call(name, inside)


def fraction(reader: Reader) -> Term:
    above = reader.argument()
    below = reader.argument()
    return product([above, inverse(below)])


def binomial(reader: Reader) -> Term:
    above = reader.argument()
    return call("binomial", above, reader.argument())


def root(reader: Reader) -> Term:
    degree = number(2)
    if reader.peek() == "[":
        reader.take()
        degree = reader.sum()
        reader.take("]")
    return Term("^", (reader.argument(), inverse(degree)))


def boxed(reader: Reader) -> Term:
    return reader.argument()


def blackboard(reader: Reader) -> Term:
    name = "".join(words(reader))
    return REALS if name.lower() == "r" else symbol(f"bb{{{name}}}")


def function(reader: Reader, name: str) -> Term:
    r"""Reads a named function. `\sin^2 x` is a square, and `\sin^{-1} x` is the inverse.

    Without brackets the argument is the next product of factors (`run` in the grammar).
    """
    base = exponent = None
    while reader.peek() in ("^", "_"):
        if reader.take() == "^":
            exponent = reader.argument()
        else:
            base = reader.argument()
    if exponent == number(-1) and name in INVERSES:
        name, exponent = INVERSES[name], None
    if reader.peek() in ("(", "{"):
        inside = atom(reader)
    else:
        factors = [reader.power()]
        while reader.more() and reader.peek() not in FUNCTIONS and reader.peek() != "(":
            factors.append(reader.power())
        inside = product(factors)
    if name == "log":
        found = call("log", inside, base if base is not None else number(10))
    else:
        found = Term("^", (EULER, inside)) if name == "exp" else call(name, inside)
    return found if exponent is None else Term("^", (found, exponent))


def matrix(reader: Reader, name: str) -> Term:
    """Reads the rows of a matrix. Raises Unreadable if the rows differ in length, and for other environments."""
    if name not in MATRICES:
        raise Unreadable(f"environment {name}")
    rows: list[list[Term]] = [[]]
    while not reader.peek().startswith("\\end"):
        rows[-1].append(reader.statement())
        mark = reader.peek()
        if mark == "\\\\":
            rows.append([])
        if mark in ("\\\\", "&"):
            reader.take()
    reader.take()
    rows = [r for r in rows if r]
    if not rows or any(len(r) != len(rows[0]) for r in rows):
        raise Unreadable("rows of different length")
    return Term("matrix", tuple(tuple(r) for r in rows))


FORMS = {
    "\\frac": fraction,
    "\\binom": binomial,
    "\\sqrt": root,
    "\\boxed": boxed,
    "\\mathbb": blackboard,
    "\\lfloor": lambda reader: rounded("floor", "\\rfloor", reader),
    "\\lceil": lambda reader: rounded("ceil", "\\rceil", reader),
}
