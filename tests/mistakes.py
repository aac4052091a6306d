"""The page of typical mistakes, docs/mistakes.md: written from the table of bad input by `python -m tests.mistakes`, held true by its test."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

PAGE = "docs/mistakes.md"
ROOT = Path(__file__).parent.parent
LONG = 230  # characters of a sentence that a table can hold
OTHERS = ("transformers", "PyTorch", "Parquet", "Torch", "CSV conversion", "(char ", "this machine has", "known: chat,")  # what changes with other things
HEAD = """# Typical mistakes

The left column shows a mistake, the right column the message of Gradus: one sentence with the place and the remedy. The exit code is 2,
and nothing is written (except answers whose reward failed, in `run/quarantine.jsonl`). `gradus check` finds many of these mistakes
before a run ([Check before you train](how/check.md)).

In the left column `...` stands for `grpo --task problems.jsonl --model model --run run`; the content of a file follows its name. This
page is generated from the table that the tests run.
"""


def cell(row: Any) -> str:
    """The left column: what was typed, and what stands in the files; '' for what cannot be shown in a table."""
    typed = row[0].replace("{train}", "train ...").replace("{home}/", "")
    typed = re.sub(r"(train p\.py:mine) --task problems\.jsonl.*", r"\1 ...", typed)
    parts = [code(f"gradus {typed}")]
    for name, content in (row[2] if len(row) == 3 else {}).items():
        if callable(content):
            said = content.__doc__ or ""
        else:
            lines = (content if isinstance(content, str) else content.decode("utf-8", "replace")).strip("\n").split("\n")
            said = code(lines[-1]) if lines[-1] else "empty"
        if not said or len(said) > 90 or not said.isprintable():
            return ""
        parts.append(f"{code(name)}: {said}")
    return "<br>".join(parts).replace("|", "\\|")


def code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def plain(said: str, here: Path, home: Path) -> str:
    """The sentence without the folders of the moment, as the right column has it."""
    text = said.strip().removeprefix("gradus: ").replace(f"{home}/", "").replace(f"taken from {here}", "taken from the present folder")
    text = re.sub(r"([\\<>*_\[\]])", r"\\\1", text.replace(f"{here}/", ""))
    return text.replace("|", "\\|")


@functools.cache
def page() -> dict[str, str]:
    """Right column by left."""
    file = ROOT / PAGE
    rows = [line for line in file.read_text().splitlines() if line.startswith("| ")] if file.exists() else []
    cells = [re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |")) for line in rows]
    return {left: right for left, right in cells if left not in ("mistake", "---")}


def write() -> None:
    """Runs the whole table and writes the page."""
    from gradus.cli.main import main
    from tests.bad_input import SECTIONS, TRAIN
    from tests.options import typed
    from tests.test_bad_input import lay, make_home

    lines, cells = [HEAD], Counter(cell(row) for rows in SECTIONS.values() for row in rows)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        home = make_home(Path(folder, "home"))
        for title, rows in SECTIONS.items():
            lines += [f"## {title}\n", "| mistake | message |", "| --- | --- |"]
            for number, row in enumerate(rows):
                here = Path(folder, f"{title}-{number}")
                here.mkdir()
                lay(row, here, home)
                os.chdir(here)
                err = io.StringIO()
                with contextlib.redirect_stderr(err):
                    main(typed(row[0], train=TRAIN.format(home=home), home=home))
                told = plain(err.getvalue(), here, home)
                shown = cell(row)
                if shown and cells[shown] == 1 and len(told) <= LONG and not any(word in told for word in OTHERS):
                    lines.append(f"| {shown} | {told} |")
            lines.append("")
        os.chdir(ROOT)
    (ROOT / PAGE).write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    write()
