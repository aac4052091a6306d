r"""Splits LaTeX into tokens. Spacing, styles, words, units and the commas of numbers such as 1,234 are removed.

`5\text{ cm}^2` and `5 km` become 5. `\text{and}` between two answers becomes a comma.
"""

from __future__ import annotations

import re

from gradus.tasks.maths.mathematics.terms import Unreadable

LONGEST = 2000  # characters of an answer that are read
MOST = 800  # tokens

_SPACING = re.compile(r"\\[,;:! ]|~|\\q?quad(?![a-zA-Z])|\\(?:left|right|displaystyle|limits|[bB]igg?[lr]?)(?![a-zA-Z])")
_STYLES = re.compile(r"\\(?:mathrm|mathbf|textbf|textrm|textit|textnormal|textsf|mathit|mathsf|mbox|emph|operatorname\*?)(?=\s*\{)")
_FRACTIONS = re.compile(r"\\[dtc]frac(?![a-zA-Z])")
_DEGREES = re.compile(r"\^\s*(?:\\circ(?![a-zA-Z])|\{\s*\\circ\s*\})|°|\\degrees?(?![a-zA-Z])|\\deg(?![a-zA-Z])")
_DOTS = re.compile(r"\\[lc]?dots(?![a-zA-Z])")
_JOINT = re.compile(r"\s*,?\s*\\text\s*\{\s*,?\s*(?:and|or)\s*\}\s*|(?<![a-zA-Z\\]),?\s*\b(?:and|or)\b(?![a-zA-Z])", re.IGNORECASE)
_WORDS_AFTER = re.compile(r"(?s)^(?!\\text)(.+?)\\text\s*\{.*\}\s*(?:\^\s*(?:[0-9]|\{[0-9]\}))?$")
_THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")
_LETTERS = re.compile(r"(?<=[^\s\-+=<>(,*/^_{a-zA-Z])\s*(?<![a-zA-Z])([a-zA-Z]+)$")
_TOKEN = re.compile(
    r"\s*(\\text\s*\{[^{}]*\}|\\(?:begin|end)\s*\{[a-z*]+\}(?:\{[clr|]*\})?|\\[a-zA-Z]+|\\.|[0-9]+\.[0-9]+|[0-9]+\.?(?![0-9])|\.[0-9]+|[^\s])",
    re.DOTALL,
)
_UNIT_WORDS = (
    "c cm mm km dm m kg g lb lbs ft feet inch inches yard yards mile miles mph s sec secs second seconds min mins minute minutes h hr hrs hour "
    "hours day days month months year years l lt liter liters litre litres gallon gallons meter meters metre metres cent cents pound pounds "
    "rs degree degrees deg unit units square sq cubic d o t ohm am pm kms student students apples way ways number numbers"
)
_UNITS = frozenset(_UNIT_WORDS.split())


def clean(text: str) -> str:
    r"""Rewrites LaTeX so that each command has only one spelling. Raises Unreadable if the text is too long.

    >>> [clean(t) for t in (r"\dfrac12\text{ cm}", r"1{,}234.5", r"\left( 1,\,2 \right)", r"5^\circ", r"1\text{ and }2")]
    ['\\frac12', '1234.5', '( 1, 2 )', '5', '1,2']
    """
    if len(text) > LONGEST:
        raise Unreadable(f"more than {LONGEST} characters")
    text = text.replace("−", "-").replace("\\$", "").replace("$", "").replace("{,}", ",").replace("\\%", "%").replace("\\\\[", "\\\\ [")
    if "\\" in text or "~" in text or "°" in text:
        rows = text.split("\\\\")  # a line break before a space or comma is not spacing
        text = "\\\\".join(_SPACING.sub(" ", row) for row in rows)
        text = _DEGREES.sub("", _FRACTIONS.sub(r"\\frac", _STYLES.sub(r"\\text", _DOTS.sub("", text))))
    text = " ".join(text.split()).removesuffix("\\\\").strip()
    text = _without_words(text)
    bare = text.rstrip(".,;: ")
    return bare.replace(",", "") if _THOUSANDS.fullmatch(bare) and not bare.startswith(("0", "-0")) else bare


def _without_words(text: str) -> str:
    """Replaces "and" and "or" by commas and removes words and units after the mathematics."""
    text = _JOINT.sub(",", text)
    words = _WORDS_AFTER.match(text) if "\\text" in text else None
    if words and words[1].strip():
        return words[1].strip()
    unit = _LETTERS.search(text)
    if unit and unit[1].lower() in _UNITS:
        return text[: unit.start()].strip()
    return text


def tokens(text: str) -> list[str]:
    """Returns the tokens of cleaned LaTeX: numbers, commands with their backslash, and single characters. `\\text{...}` and `\\begin{...}` are one token each."""
    found = _TOKEN.findall(text)
    if len(found) > MOST:
        raise Unreadable(f"more than {MOST} tokens")
    return found
