"""The terminal: its width, the styles of all text that commands print, and the wrapping of lines.

The environment variable NO_COLOR turns colours off, and FORCE_COLOR turns them on. Without these variables only a terminal gets colours. COLUMNS sets
the width.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 80
"""Columns of an output that is no terminal."""

STYLES: Mapping[str, str] = {
    "title": "bold",  # of a page, a section or a column
    "name": "cyan",  # text that a user can type: a command, an option, a field, a key
    "key": "bold",  # the most important number
    "quiet": "dim",  # values that stayed equal, and notes
    "curve": "cyan",
    "good": "green",
    "warning": "yellow",
    "bad": "red",
    "bar.complete": "cyan",
    "bar.finished": "green",
}
"""The styles by name, in the words of the package rich. The whole command line uses this colour scheme. Names with a dot belong to rich itself."""

VERDICTS: Mapping[str, str] = {
    "right": "good",
    "seen": "good",
    "separated": "good",
    "not seen": "warning",
    "warning": "warning",
    "stale": "warning",
    "wrong": "bad",
    "opposite": "bad",
    "failed": "bad",
    "skipped": "quiet",
    "not measured": "quiet",
}
"""Words for a verdict, each with the name of its style."""

_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}  # the codes of ANSI


def is_terminal(output: TextIO) -> bool:
    """Whether the output is a terminal that can move its cursor."""
    return output.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def coloured(output: TextIO | None = None) -> bool:
    """Whether an output (None: standard output) gets colours."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_terminal(output or sys.stdout)


def paint(text: str, style: str, output: TextIO | None = None) -> str:
    """Returns the text with the terminal's codes for a style of `STYLES` ("": no style).

    If the output gets no colours, the text does not change.
    """
    if not text or not style or not coloured(output):
        return text
    return f"\x1b[{_CODES[STYLES[style]]}m{text}\x1b[0m"


def style_of(verdict: str) -> str:
    """Returns the style of a verdict; "" if the word is not a verdict."""
    return VERDICTS.get(verdict, "")


def columns() -> int:
    """Returns the width of the terminal in characters, at least 40; `WIDTH` if the output is not a terminal."""
    return max(shutil.get_terminal_size((WIDTH, 24)).columns, 40)


def wrapped(text: str, room: int) -> list[str]:
    """Returns the lines of a text, with at most `room` characters per line. The result has at least one line.

    Lines are broken only at spaces, so a longer word stays whole.
    """
    return textwrap.wrap(text, max(room, 1), break_long_words=False, break_on_hyphens=False) or [""]


def paragraph(text: str, indent: str = "", first: str | None = None, room: int | None = None) -> str:
    """Returns a text wrapped to the width of the terminal (or to `room`).

    Each line begins with `indent`. If `first` is given, the first line begins with `first`.
    """
    lines = wrapped(text, (room or columns()) - len(indent))
    return "\n".join((indent if number or first is None else first) + line for number, line in enumerate(lines)).rstrip()


def printable(text: str) -> str:
    """Returns the text with unprintable characters replaced by "?", so that it cannot control a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def say(text: str, output: TextIO | None = None) -> None:
    """Prints a sentence on an output (None: standard error). On a terminal, its lines are broken at spaces."""
    target = output or sys.stderr
    print("\n".join(map(paragraph, text.split("\n"))) if target.isatty() else text, file=target, flush=True)


def console(output: TextIO | None = None, **options: Any) -> Console:
    """Returns a console of rich with the styles of `STYLES`."""
    from rich.console import Console
    from rich.theme import Theme

    return Console(file=output, theme=Theme(dict(STYLES)), highlight=False, **options)
