"""Writes the output below the commands of the documents: python -m scripts.outputs [--full | --reading] [PAGE ...].

The commands of a page are run in order in a new folder. Without `--full` training is cut to a few steps, and only outputs that do not depend
on it are written; with `--full` every command runs as the page shows it.
`--reading` runs only the commands that take no time. A long output is cut by a line `...`; the lengths of the two
parts are kept if somebody changes them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from scripts.pages import ROOT, Command, blocks, rewritten, run_page

CUT = "..."
LONG, HEAD, TAIL = 30, 14, 4  # lines: an output beyond LONG keeps its first HEAD and last TAIL
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?:(?:ms|[hms%])(?:\d+[ms])?)?(?!\w)")
SOURCE = re.compile(r"(?<=\.py:)\d+|\b\d+\.\d+\.\d+(\.dev\d+)?(\+[\w.]+)?")
PLURAL = re.compile(r"(# (?:held-out )?problem)s\b")
BARS = re.compile("[▁▂▃▄▅▆▇█━╸╺]+|(?<= )#+(?= |$)")
TRAINED = ("train", "advise", "resume", "replay", "eval", "compare", "contract", "check", "screen", "doctor", "chat")
"""The commands whose outputs have other numbers from run to run, or when they are shortened."""

METHODS = {"plus", "four", "Clopper-Pearson", "Student"}
"""Words of the methods of intervals: the number of right answers chooses the method."""
SENTENCE = "It is not clear which recipe has the better accuracy: no difference to the highest, lowest, is significant."
LONGER = {*SENTENCE.split(" "), "failed", "sampled", "and", "ended"}
"""Words that a shortened run may not show: the sentence about several seeds, counts of failed answers, the end of the last stage."""
READING = ("papers", "show", "diff", "explain", "cite", "claims", "grounds", "tasks", "simulate")
"""The commands that take no time: they read recipes and tasks."""


def pages() -> list[str]:
    """Every page of the tree; the pages of recipes are generated."""
    found = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))
    return ["README.md", *(page for page in found if not page.startswith("docs/recipes/"))]


def trains(command: Command) -> bool:
    """Whether the output has numbers that vary."""
    return bool(command.words) and command.words[0] in TRAINED


def shape(line: str) -> str:
    """A line with `#` for numbers and without bars and spacing: the same for two runs of one command."""
    return PLURAL.sub(r"\1", " ".join(NUMBER.sub("#", BARS.sub("", line)).split()))


def exact(line: str) -> str:
    """A line without the line number of a source file, which every edit of the file moves, and without a version."""
    return SOURCE.sub("#", line)


def cut(text: str, before: str = "") -> str:
    """A long text with its middle left out; the parts are as long as those of the text `before`, if it was cut."""
    lines, old = text.split("\n"), before.split("\n")
    head, tail = (old.index(CUT), len(old) - old.index(CUT) - 1) if CUT in old else (HEAD, TAIL)
    if len(lines) <= (head + tail + 1 if CUT in old else LONG):
        return text
    return "\n".join([*lines[:head], CUT, *(lines[-tail:] if tail else [])])


def differs(command: Command, screen: str) -> str | None:
    """The first line of a page's output that the command does not print, or None. Outputs that vary are compared by the shapes of lines."""
    if trains(command):
        printed = {shape(line) for line in screen.split("\n")}
        words = {word for line in printed for word in line.split()}
        strange = (line for line in command.output.split("\n") if line != CUT and shape(line) not in printed)
        return next((line for line in strange if "chat" not in command.words and not set(shape(line).split()) <= words | METHODS | LONGER), None)
    shown, printed_now = cut(screen, command.output).split("\n"), command.output.split("\n")
    pairs = zip([*printed_now, *[""] * len(shown)], [*shown, *[""] * len(printed_now)], strict=False)
    return next((old or f"(missing) {new}" for old, new in pairs if exact(old) != exact(new)), None)


def far(output: str, screen: str) -> str | None:
    """The first line of a page's output whose words or numbers are far from those of a whole run, or None; durations may differ."""
    pairs = zip(output.split("\n"), cut(screen, output).split("\n"), strict=False)
    return next((f"{old!r} is now {new!r}" for old, new in pairs if not near(old, new)), None)


def near(old: str, new: str) -> bool:
    """Whether two lines have the same words, and numbers that differ by at most 0.2 and half of the larger one."""
    if shape(old) != shape(new):
        return False
    values = (zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)) if "tokens/s" not in old else ()
    found = [(float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in values if not (a + b)[-1].isalpha() and "%" not in a + b]
    return all(abs(a - b) <= 0.2 + max(abs(a), abs(b)) / 2 for a, b in found)


def renewed(page: str, full: bool, say: Callable[[str], None], only: Collection[str] | None = None) -> str:
    """The text of a page with the outputs of a run of its commands."""
    outputs: dict[Command, str] = {}
    for command, expected, screen in run_page(page, Path.cwd(), short=not full, only=only):
        if not expected:
            raise SystemExit(f"{page}: {command.line}: another exit code than expected:\n{screen}")
        if full or not trains(command):
            outputs[command] = cut(screen, command.output)
        elif not command.output:
            say(f"{page}: no output below: {command.line}; renew it with --full")
    return rewritten(page, outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="*", help="README.md, docs/how/check.md, ...; all pages without")
    parser.add_argument("--full", action="store_true", help="run training in full, and write its output, too")
    parser.add_argument("--reading", action="store_true", help=f"run only {', '.join(READING)}")
    options = parser.parse_args()
    for page in options.pages or [p for p in pages() if any(b.commands for b in blocks(p))]:
        with tempfile.TemporaryDirectory(prefix="gradus-page-") as folder, contextlib.chdir(folder):
            os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
            text = renewed(page, options.full, lambda line: print(line, file=sys.stderr), READING if options.reading else None)
        if text != (ROOT / page).read_text(encoding="utf-8"):
            (ROOT / page).write_text(text, encoding="utf-8")
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
