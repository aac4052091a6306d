"""The smallest forms that a reader of tokens knows: numbers, letters, words, groups and brackets, fractions, roots, functions, matrices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradus.tasks.mathematics.terms import EULER, IMAGINARY, REALS, Term, Unreadable, call, inverse, members, number, product, symbol
from gradus.tasks.mathematics.vocabulary import ACCENTS, CLOSING, CONSTANTS, FUNCTIONS, GREEK, INVERSES, LISTS, MATRICES, literal

if TYPE_CHECKING:
    from gradus.tasks.mathematics.syntax import Reader


def atom(reader: Reader) -> Term:
    """One atom. Raises Unreadable where none stands here."""
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
    """A letter: e and i are constants, f(x) is a value of f, any other is a variable, its case aside."""
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
    """A name with the index that follows it."""
    if reader.peek() != "_":
        return name
    reader.take()
    return f"{name}_{''.join(words(reader))}"


def words(reader: Reader) -> list[str]:
    """The tokens of a group in braces, or the one token that stands here."""
    if reader.peek() != "{":
        return [reader.take()]
    reader.take()
    found = []
    while reader.peek() != "}":
        found.append(reader.take().lower())
    reader.take("}")
    return found


def group(reader: Reader, opening: str) -> Term:
    """What stands in brackets: a set, an interval of two ends, a tuple of more; one thing in round brackets or braces is itself."""
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
    r"""A named function. `\sin^2 x` is a square, `\sin^{-1} x` the inverse; without brackets the argument is the run that follows."""
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
    """The rows of a matrix. Raises Unreadable where they differ in length, and for other environments."""
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
