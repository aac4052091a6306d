"""The form of a recipe's docstring: sections, and formulas in AsciiMath.

    NAME: one sentence.

        A formula. Each line with an indent of four blanks is a formula. A line with more blanks continues the line above.

    Prose about the formulas, in which $A_i$ is a formula too.

    Use if: the problems on which the method helps.
    Avoid if: the problems on which the method does not help.
    Reference: authors, title, arXiv number, and the sections of the paper.
    Departures: the differences from the paper and from its authors' code; or "None."

The four sections have this order and end the docstring. `docs` makes a page for each recipe from these sections, and `gradus show` prints the sections.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

SECTIONS = ("Use if", "Avoid if", "Reference", "Departures")
_NAMES = (
    "alpha beta gamma Gamma delta Delta epsilon varepsilon zeta eta theta Theta vartheta iota kappa lambda Lambda mu nu xi Xi "
    "pi Pi rho sigma Sigma tau upsilon phi Phi varphi chi psi Psi omega Omega sum prod int oint min max log ln exp sin cos "
    "tan tanh sinh cosh det dim lim mod gcd lcm sgn Pr sqrt root frac hat bar vec dot ddot tilde ul abs norm floor ceil in "
    "notin sub sube sup uu nn vv ne le ge xx ox oplus prop oo del grad dx dy dt EE AA RR NN ZZ QQ CC cdot ldots cdots quad "
)
SYMBOLS = frozenset(_NAMES.split())
"""The names of AsciiMath that formulas use. Any other word of two letters or more is text."""
_TEXT = re.compile(r'"[^"]*"|[A-Za-z]{2,}(?:[ -][A-Za-z]{2,})*')
_OPERANDS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789)]}")
_OPERATORS = frozenset("=+*/<>,;)]}^_")
SPACE = "\\ "
"""A blank of AsciiMath. Within quotation marks, the blank is doubled."""
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Formula:
    """A displayed formula in AsciiMath, on one line."""

    text: str


@dataclass(frozen=True)
class Sections:
    """The parts of a recipe's docstring. `name`: the text before the colon of its first line; `summary`: the rest of its first paragraph.

    `body`: the paragraphs of prose, each as text on one line, and the formulas between them. If the docstring lacks a section, its text is "".
    """

    name: str
    summary: str
    body: tuple[str | Formula, ...]
    use_if: str = ""
    avoid_if: str = ""
    reference: str = ""
    departures: str = ""

    @property
    def formulas(self) -> tuple[str, ...]:
        """The displayed formulas in AsciiMath."""
        return tuple(part.text for part in self.body if isinstance(part, Formula))

    @property
    def prose(self) -> tuple[str, ...]:
        """The paragraphs between the formulas."""
        return tuple(part for part in self.body if isinstance(part, str))


def sections(text: str) -> Sections:
    """Splits a docstring into its sections. A field of the result is "" if the docstring lacks this part.

    >>> sections("GRPO: a group replaces the critic.\\n\\n    A_i = r_i - mean(r)\\n\\nUse if: answers can be judged.").formulas
    ('A_i = r_i - mean(r)',)
    """
    blocks = [block for block in re.split(r"\n[ \t]*\n", textwrap.dedent(text).strip("\n")) if block.strip()]
    first, *rest = blocks or [""]
    name, colon, summary = " ".join(first.split()).partition(": ")
    body: list[str | Formula] = []
    found = dict.fromkeys(SECTIONS, "")
    section = ""
    for block in rest:
        for part in _parts(block):
            head = next((s for s in SECTIONS if isinstance(part, str) and part.startswith(f"{s}: ")), "")
            if head:
                section, found[head] = head, str(part).removeprefix(f"{head}: ")
            elif section and isinstance(part, str):
                found[section] += f" {part}"
            else:
                body.append(part)
    return Sections(name if colon else "", summary if colon else name, tuple(body), *found.values())


def _parts(block: str) -> Iterator[str | Formula]:
    """Gives the formulas and the paragraphs of a block without empty lines. A title such as "Use if:" begins a new paragraph."""
    kept: list[str] = []
    formula = False
    for line in block.splitlines():
        deep = len(line) - len(line.lstrip())
        starts = line.startswith(tuple(f"{s}: " for s in SECTIONS))
        if kept and (starts or (deep >= 4) != formula or deep == 4):
            yield _joined(kept, formula)
            kept = []
        formula = deep >= 4
        kept.append(line.strip())
    if kept:
        yield _joined(kept, formula)


def _joined(lines: list[str], formula: bool) -> str | Formula:
    text = " ".join(lines)
    return Formula(text) if formula else text


def asciimath(formula: str) -> str:
    """Converts a formula of a docstring to AsciiMath. A word that is not a symbol gets quotation marks, and is then displayed as upright text.

    >>> asciimath("A_i = (r_i - mean r) / (std r)")
    'A_i = (r_i - "mean"\\\\  r) / ("std"\\\\  r)'
    >>> asciimath("pi_ref(a) + sum_t log pi_t")
    'pi_"ref"(a) + sum_t log pi_t'
    """
    return _TEXT.sub(lambda found: found[0] if found[0].startswith('"') else _quoted(formula, found), formula)


def _quoted(formula: str, found: re.Match[str]) -> str:
    """Converts a sequence of words. Words that are text get quotation marks, and a blank separates text from a symbol."""
    before, after = formula[: found.start()], formula[found.end() :]
    out = ""
    runs = [(symbol, [*words]) for symbol, words in groupby(re.findall(r"[A-Za-z]+|-", found[0]), key=lambda word: word in SYMBOLS)]
    for index, (symbol, words) in enumerate(runs):
        if symbol:
            out += " ".join(words)
            continue
        text = " ".join(words).replace(" - ", "-")
        lead = index > 0 or (before.endswith(" ") and before.rstrip()[-1:] in _OPERANDS)
        trail = index < len(runs) - 1 or (after.startswith(" ") and after.lstrip()[:1] not in _OPERATORS)
        out += f'{SPACE * lead}"{text}"{SPACE * trail}'
    return out


def faults(formula: str) -> list[str]:
    """The faults of a formula, each as a sentence; [] if AsciiMath displays the formula as intended."""
    bare = re.sub(r'"[^"]*"', "", formula)
    found = []
    if bare.count('"'):
        found.append("a quotation mark is not closed")
    if "\\" in bare or "$" in bare:
        found.append("AsciiMath has no backslash and no dollar sign; write alpha, not \\alpha")
    if strange := sorted({c for c in formula if ord(c) > 126}):
        found.append(f"{''.join(strange)} is no ASCII; write the name of the symbol")
    if formula.rstrip()[-1:] in tuple(".,;"):
        found.append("a formula must not end with a point, comma or semicolon")
    if digits := re.findall(r"\b[A-Za-z]\d+\b", bare):
        found.append(f"{digits[0]} appears as a product; write {digits[0][0]}_{digits[0][1:]}")
    if word := re.search(r"/ ?\(?[A-Za-z]{2,}\(", bare):
        name = word[0].lstrip("/ (").rstrip("(")
        if "/ (" not in word[0] and "/(" not in word[0] and name not in SYMBOLS:
            found.append(f"the fraction divides only by {name}; put brackets around the whole denominator: / ({name}(...))")
    return found + _unbalanced(bare)


def _unbalanced(formula: str) -> list[str]:
    """A sentence about the first bracket that is not closed or not opened. A half-open interval such as (0, 1] is also a fault."""
    stack: list[str] = []
    for sign in formula:
        if sign in "([{":
            stack.append(sign)
        elif sign in _PAIRS and (not stack or stack.pop() != _PAIRS[sign]):
            return [f"{sign} has no {_PAIRS[sign]}"]
    return [f"{stack[-1]} is never closed"] if stack else []
