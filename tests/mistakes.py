"""The page of typical mistakes, docs/mistakes.md: written from the table of bad input by `python -m tests.mistakes`, held true by its test."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any

PAGE = "docs/mistakes.md"
ROOT = Path(__file__).parent.parent
COMMONEST = {  # the cells of the page; the table holds the others too
    "`gradus train grop`",
    "`gradus train quasar`",
    "`gradus train ... --task gone.jsonl`",
    "`gradus train ... --batch_size 4`",
    "`gradus train ... --beta 0.1`",
    "`gradus train ... --grup 4`",
    "`gradus train ... --trust.high 0.3`",
    "`gradus train ... --objective.policy.trust 'Clip(0.3)'`",
    "`gradus train ... --device gpu`",
    "`gradus train ... --until 8`",
    "`gradus train ... --credit GAE`",
    "`gradus train ... --model Qwen/Qwen2.5-0.5B`",
    "`gradus train ... --model m`<br>`m`: model.safetensors missing",
    """`gradus train ... --task d.jsonl`<br>`d.jsonl`: `{'prompt': 'a'}`""",
    """`gradus train ... --task d.jsonl`<br>`d.jsonl`: `{"text": "say 1"}`""",
    "`gradus train ... --reward r.py:scor`<br>`r.py`: `    pass`",
    "`gradus train ... --reward r.py:score`<br>`r.py`: `def score(colour): ...`",
    "`gradus train ... --credit p.py:Mine`<br>`p.py`: `        pass`",
    "`gradus train ...`<br>`run/notes.txt`: `mine`",
    "`gradus resume gone`",
}
HEAD = """# Typical mistakes

The left column shows a mistake. The right column shows the message of Gradus: one sentence with the place and the remedy. The exit code
is 2, and nothing is written. `gradus check` finds many mistakes before a run ([Check before you train](how/check.md)).

In the left column `...` stands for `grpo --task problems.jsonl --model model --run run`; the content of a file follows its name. The tests
make each mistake on this page and compare the message. The page has only the most common of some hundreds of mistakes.
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
    text = said.strip().removeprefix("gradus: ").replace(f"{home}/", "").replace(f" {here})", " the present folder)")
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
    """Runs the commonest mistakes of the table and writes the page."""
    from gradus.cli.main import main
    from tests.bad_input import SECTIONS, TRAIN
    from tests.options import typed
    from tests.test_bad_input import lay, make_home

    lines = [HEAD]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        home = make_home(Path(folder, "home"))
        for title, rows in SECTIONS.items():
            if not any(cell(row) in COMMONEST for row in rows):
                continue
            lines += [f"## {title}\n", "| mistake | message |", "| --- | --- |"]
            for number, row in enumerate(row for row in rows if cell(row) in COMMONEST):
                here = Path(folder, f"{title}-{number}")
                here.mkdir()
                lay(row, here, home)
                os.chdir(here)
                err = io.StringIO()
                with contextlib.redirect_stderr(err):
                    main(typed(row[0], train=TRAIN.format(home=home), home=home))
                told = plain(err.getvalue(), here, home)
                lines.append(f"| {cell(row)} | {told} |")
            lines.append("")
        os.chdir(ROOT)
    (ROOT / PAGE).write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    write()
