"""The code blocks of the documents, and their commands with the output that stands below each."""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from scripts.terminal import Terminal, Typed

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?:^<!-- (not run|file|typed|ends with \d): (.+?) -->\n\n?)?^```(\w*)\n(.*?)^```$", re.M | re.S)
PROMPT = "$ "
PLACE = "~/work"  # the folder of a reader, in outputs
FONTS = "Matplotlib is building the font cache; this may take a moment.\n"  # a package prints it once per machine, if this takes long
TYPED = "12+30 | /quit"  # the lines that a person types if a page names no others
SHORT: Mapping[str, str] = {
    "train": "--steps 1 --prompts 2 --group 2 --max_tokens 24 --study.problems 1 --eval_every 0 --save_every 1",
    "resume": "--steps 2",
    "eval": "--problems 2 --max_tokens 4",
    "chat": "--max-tokens 4",
    "contract": "--problems 3 --texts 60",
    "compare": "--seeds 1 --budget steps=1 --problems 2 --samples 1 --prompts 2 --group 2 --max_tokens 24 --study.problems 1",
    "screen": "--problems 8 --samples 2 --keep 0..1",
}
"""The options that make a command short, by its name."""
STUCK = SHORT["train"].replace("--steps 1", "--steps 6")  # a page of runs that learn nothing: the message comes after five steps
STAGED = "--steps 6 --prompts 2 --group 8 --max_tokens 48 --study.problems 2 --eval_every 1 --save_every 2"  # a page of runs with stages


@dataclass(frozen=True)
class Command:
    """A command of a page, with the text below it up to the next command."""

    line: str  # without prompt; a line that ends in a backslash goes on in the next
    output: str = ""

    @property
    def words(self) -> list[str]:
        """The words after `gradus`; none for another program."""
        words = shlex.split(self.line.replace("\\\n", " "), comments=True)
        return words[1:] if words and words[0].removeprefix(".venv/bin/") == "gradus" else []

    @property
    def reads(self) -> list[str]:
        """The words of a command that prints a file; none for another program."""
        words = shlex.split(self.line)
        return words if words[:1] in (["head"], ["cat"], ["ls"]) else []

    def __str__(self) -> str:
        return f"{PROMPT}{self.line}\n" + (f"{self.output}\n" if self.output else "")


@dataclass(frozen=True)
class Block:
    mark: str  # "not run", "ends with 1", "file", "typed" or ""
    about: str  # the reason, the file's name, or the lines that a person types, with " | " between them
    kind: str  # the language
    text: str

    @property
    def listed(self) -> list[Command]:
        """The commands of a block of the kind `console`, of any program; a block of the kind `sh` has no prompts and no outputs."""
        if self.kind == "sh":
            return [Command(line) for line in re.split(r"(?<!\\)\n", self.text) if line and not line.startswith("#")]
        if self.kind != "console":
            return []
        parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n?", self.text, flags=re.M)
        return [Command(line, output.rstrip("\n")) for line, output in zip(parts[1::2], parts[2::2], strict=True)]

    @property
    def code(self) -> int:
        """The exit code that its commands end with."""
        return int(self.mark.removeprefix("ends with ")) if self.mark.startswith("ends") else 0

    @property
    def commands(self) -> list[list[str]]:
        """The words after `gradus` of every command that calls it."""
        return [command.words for command in self.listed if command.words]


def blocks(page: str) -> list[Block]:
    return [Block(*(part or "" for part in found)) for found in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]


def prepare(page: str, folder: Path) -> None:
    """The files that a page takes for granted."""
    from tests.small_model import save_small_model

    save_small_model(folder / "path" / "to" / "model")
    if page == "README.md":
        shutil.copytree(ROOT / "examples", folder / "examples")
        sums = [(10 + 37 * i % 90, 10 + 7 * (i // 90) + 53 * i % 83) for i in range(500)]
        (folder / "problems.jsonl").write_text("".join(f'{{"prompt": "{a}+{b}", "answer": "{a + b}"}}\n' for a, b in sums))


def run_page(page: str, folder: Path, short: bool = True, only: Collection[str] | None = None) -> Iterator[tuple[Command, bool, str]]:
    """Runs the blocks of a page in order in `folder`, the working folder; yields each command, whether it ends as the page says, and its screen.

    `short`: training and examinations are cut to a few small steps. `only`: the commands of `gradus` that are run, without Python blocks;
    None for all.
    """
    prepare(page, folder)
    for block in blocks(page):
        if block.mark == "file":
            (folder / block.about).write_text(block.text)
        elif block.mark == "not run":
            continue
        elif block.kind == "python" and only is None:
            run_python(block.text, folder, short)
        for command in block.listed:
            if command.reads:
                done = subprocess.run(command.reads, cwd=folder, capture_output=True, text=True, check=False)
                yield command, done.returncode == block.code, (done.stdout + done.stderr).rstrip("\n")
            elif command.words and (only is None or command.words[0] in only):
                words = shortened(page, command.words) if short else command.words
                call = called_apart if "--memory" in words else called
                code, screen = call(words, block.about if block.mark == "typed" else TYPED)
                yield command, code == block.code, screen.replace(str(folder), PLACE)


def shortened(page: str, words: list[str]) -> list[str]:
    from tests.options import replaced

    longer = {"docs/how/stages.md": STAGED, "docs/how/learning_rate.md": STUCK if "zero.py:nothing" in words else SHORT["train"]}
    return replaced([*words, *(longer.get(page, SHORT["train"]) if words[0] == "train" else SHORT.get(words[0], "")).split()])


def called(words: list[str], typed: str = TYPED) -> tuple[int, str]:
    """The exit code of `gradus WORDS`, and the screen that it leaves. `typed`: the lines of a person, with " | " between them."""
    from gradus.cli.main import main

    screen = Terminal()
    with (
        contextlib.redirect_stdout(screen),
        contextlib.redirect_stderr(screen),
        mock.patch.object(sys, "stdin", Typed(f"{typed.replace(' | ', chr(10))}\n", screen)),
        mock.patch.dict("os.environ", {"COLUMNS": "80", "LINES": "60", "TERM": "xterm"}),
    ):
        try:
            code = main(words)
        except SystemExit as ended:  # of --help
            code = int(ended.code or 0)
    return code, screen.text().replace(FONTS, "")


def called_apart(words: list[str], typed: str = TYPED) -> tuple[int, str]:
    """The same in a process of its own: a limit of memory counts what a process holds, and the process of the tests holds much."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        return apart.submit(called, words, typed).result()


def run_python(code: str, folder: Path, short: bool) -> None:
    if short and "study__problems" not in code:
        code = re.sub(r"steps=\d+", "steps=1, setting__prompts=2, study__problems=2", code)
    (folder / "_block.py").write_text(code)
    runpy.run_path(str(folder / "_block.py"))


def rewritten(page: str, outputs: Mapping[Command, str]) -> str:
    """The text of a page with other outputs below the commands of blocks that are run."""

    def of_block(found: re.Match[str]) -> str:
        block = Block(*(part or "" for part in found.groups()))
        if block.mark == "not run" or block.kind != "console":
            return found[0]
        text = "".join(str(replace(command, output=outputs.get(command, command.output))) for command in block.listed)
        return found[0].replace(f"```console\n{block.text}", f"```console\n{text}")

    return BLOCK.sub(of_block, (ROOT / page).read_text(encoding="utf-8"))
