r"""Finds candidates for the answer of a text, and returns them in the order of trial.

The order is: a formula or number after "final answer"; the content of the last \boxed{}, together with boxes shortly before it; a formula or
number after "answer"; the last formulas and numbers. A formula is the text between dollar signs or LaTeX brackets; a bare \frac{1}{2} is
also a formula. Formulas joined by "and", "or" or a comma are one answer. The time of all scans is linear in the length of the text, and only
the end of the text is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

TAIL = 20_000  # characters at the end of a text that are read
NEAR = 60  # largest number of characters between an announcement and its formula
APART, LINKED = 8, 100  # most characters between boxes that are read together: any text; text with a comma, "and" or "or"
TRIES = 8  # largest number of candidates

_FINAL = re.compile(r"final\s+answer", re.IGNORECASE)
_ANSWER = re.compile(r"\banswer\b", re.IGNORECASE)
_BOX = re.compile(r"\\boxed\s*(?=\{)|\\boxed\s+([0-9]+)")
_OPENING = re.compile(r"(?<!\\)\$\$?|\\\[|\\\(|-?\\frac\{-?[0-9]{1,100}\}\{-?[0-9]{1,100}\}")
_CLOSING = {"$$": "$$", "$": "$", "\\[": "\\]", "\\(": "\\)"}
_LINK = re.compile(r",|\band\b|\bor\b")
_JOIN = re.compile(r",|,?\s*and|,?\s*or")
_PERCENT = re.compile(r"\s*(?:\\?%|percent\b)")
_DIGITS = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]{1,100})?|[0-9]{1,100},[0-9]{1,100}(?!,?[0-9])|[0-9]{1,100}(?:\.[0-9]{0,100})?|\.[0-9]{1,100})"
)
_SIMPLE = r"(?:[0-9]{1,100}(?:\.[0-9]{1,100})?|\.[0-9]{1,100})"
_PLAIN = re.compile(
    rf"(?:(?<![^\s=$€£])|(?<=\*\*))"
    rf"(\(?-?{_SIMPLE}\)?(?:\s?(?:\*\*|[-+*/^])\s?\(?-?{_SIMPLE}\)?){{1,20}}|-?[0-9]{{1,100}} [0-9]{{1,100}}/[0-9]{{1,100}}|-?{_DIGITS}(?![0-9]|,[0-9]))"
)
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2},[0-9]{3}(?:\.[0-9]*)?")
_MIXED = re.compile(r"(-?)([0-9]+) ([0-9]+)/([0-9]+)")


class Found(NamedTuple):
    """A candidate: its position in the text, its LaTeX, and whether it is a formula (else it is a number in plain text)."""

    start: int
    end: int
    latex: str
    formula: bool = True


def answers(text: str) -> Iterator[str]:
    """Yields the candidates as LaTeX, the most likely candidate first. There are at most TRIES candidates."""
    text = text[-TAIL:]
    seen: set[str] = set()
    for found in _candidates(text):
        if found.latex.strip() and found.latex not in seen:
            seen.add(found.latex)
            yield found.latex
        if len(seen) >= TRIES:
            return


def _candidates(text: str) -> Iterator[Found]:
    stripped = text.strip()
    if _PLAIN.fullmatch(stripped):  # the text is only a number
        yield Found(0, len(text), _latex(stripped), False)
        return
    formulas = joined(text, formulas_in(text))
    announced = list(_FINAL.finditer(text))
    if announced:
        at = announced[-1].end()
        first = _BOX.search(text, at)
        if first and all(not at <= f.start < first.start() for f in formulas):
            yield Found(at, at, boxed(text[first.start() :]) or "")
        yield from _after(text, at, formulas, len(text))
    box = boxed(text)
    if box is not None:
        yield Found(0, 0, box)
    announced = list(_ANSWER.finditer(text))
    if announced:
        yield from _after(text, announced[-1].end(), formulas, NEAR)
    yield from sorted([*formulas, *numbers_in(text, formulas)], key=lambda f: -f.end)[:TRIES]


def _after(text: str, at: int, formulas: list[Found], reach: int) -> Iterator[Found]:
    """Yields the first formula that begins within `reach` characters after `at`, then the first number in the 500 characters after `at`."""
    yield from [f for f in formulas if at <= f.start < at + reach][:1]
    yield from numbers_in(text[at : at + 500], [])[:1]


def formulas_in(text: str) -> list[Found]:
    """Returns the formulas of a text in order. A formula that is not closed is left out."""
    found: list[Found] = []
    gone: set[str] = set()  # brackets that do not close in the rest of the text
    at = 0
    while opening := _OPENING.search(text, at):
        at, mark = opening.end(), opening.group()
        closing = _CLOSING.get(mark)
        if closing is None:
            found.append(Found(opening.start(), at, mark))
            continue
        end = -1 if closing in gone else _closed(text, closing, at)
        if end < 0:
            gone.add(closing)
            continue
        inside = text[at:end]
        if closing == "$" and re.match(r"[0-9.,]+\s[a-z]", inside):  # $5 and $6: dollars
            continue
        at = end + len(closing)
        found.append(Found(opening.start(), at, _unboxed(inside)))
    return [_with_percent(text, f) for f in found]


def _closed(text: str, closing: str, at: int) -> int:
    end = text.find(closing, at)
    while end > 0 and closing[0] == "$" and text[end - 1] == "\\":
        end = text.find(closing, end + 1)
    return end


def _with_percent(text: str, found: Found) -> Found:
    sign = _PERCENT.match(text, found.end)
    return found._replace(latex=found.latex + "%", end=sign.end()) if sign else found


def joined(text: str, formulas: list[Found]) -> list[Found]:
    """Joins neighbouring formulas that have only "and", "or" or a comma between them, and returns all formulas."""
    done: list[Found] = []
    for formula in formulas:
        if done and _JOIN.fullmatch(text[done[-1].end : formula.start].strip()):
            done[-1] = done[-1]._replace(end=formula.end, latex=f"{done[-1].latex} , {formula.latex}")
        else:
            done.append(formula)
    return done


def numbers_in(text: str, formulas: list[Found]) -> list[Found]:
    """Returns the numbers, and the sums and products of numbers, in the plain text outside formulas."""
    taken = iter([*formulas, Found(len(text), len(text), "")])
    formula = next(taken)
    found = []
    for number in _PLAIN.finditer(text):
        while formula.end <= number.start() and formula.start < len(text):
            formula = next(taken)
        if number.end() <= formula.start:
            percent = _PERCENT.match(text, number.end())
            latex = _latex(number[1]) + ("%" if percent else "")
            found.append(Found(number.start(), number.end(), latex, False))
    return found


def _latex(plain: str) -> str:
    """Writes a number of plain text as LaTeX: 1 1/2 becomes a mixed number, and "**" becomes a power.

    A comma that does not separate thousands becomes a decimal point.
    """
    plain = plain.rstrip(".")
    if plain.count(",") == 1 and not _THOUSANDS.fullmatch(plain):
        return plain.replace(",", ".")
    mixed = _MIXED.fullmatch(plain)
    if mixed:
        return f"{mixed[1]}{mixed[2]}\\frac{{{mixed[3]}}}{{{mixed[4]}}}"
    return re.sub(r"\^(-?[0-9.]+)", r"^{\1}", plain.replace("**", "^").replace(" ", ""))


def boxed(text: str) -> str | None:
    r"""Returns the content of the last \boxed{} and of boxes shortly before it, joined by commas; None if there is no box."""
    found: list[str] = []
    before = len(text)
    for box in reversed(list(_BOX.finditer(text))[-TRIES:]):
        end, inside = (box.end(), box[1]) if box[1] else _braced(text, box.end())
        if inside is None or end > before:
            continue
        if found and not _together(text[end:before]):
            break
        found.insert(0, _unboxed(inside))
        before = box.start()
    return ",".join(found) if found else None


def _together(between: str) -> bool:
    return len(between) <= APART or (len(between) <= LINKED and _LINK.search(between) is not None)


def _braced(text: str, at: int) -> tuple[int, str | None]:
    """Returns (end, content) of the group in braces that opens at `at`. The content is None if the group does not close within 4,000 characters."""
    depth = 0
    for place in range(at, min(len(text), at + 4000)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1, text[at + 1 : place]
    return at, None


def _unboxed(latex: str) -> str:
    r"""Removes \boxed{} around or inside a formula."""
    if "\\boxed" not in latex:
        return latex
    return boxed(latex) or ""
