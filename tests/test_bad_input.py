"""What people get wrong: told in one sentence that says what, where and what to do, with exit code 2, and nothing is written."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gradus.cli.main import main
from gradus.lab.folder import RunFolder
from gradus.workers.pool import stop_workers
from tests import mistakes
from tests.bad_input import SECTIONS, TRAIN, Row
from tests.bad_input.own_parts import RIGHT
from tests.broken import BATCHED, ROWS
from tests.options import replaced, typed
from tests.small_model import save_small_model

REMEDY = re.compile(
    r"(?:[;:.,)] |\()(?:and |then |or |the two do not belong together: )?(?:give|write|name|take|choose|set|add|save|check|use|list|see|put|drop|"
    r"raise|copy|shorten|leave|delete|rename|convert|fetch|unpack|derive|mix|install|go on|say|do it|make|it must|it is|"
    r"this method must|`[a-z]+` must|its source must|did you mean|known:|"
    r"fix|correct|continue|Correct|every|List the fields with|remove|"
    r"restore|turn|move|lengthen|let|keep|end|change|export|List them|See|Give|Fix|A task is also)\b|; known: |\(did you mean "
)
"""What to do, said in the sentence: an imperative, what must be, or the names that are known."""


def named(row: Row, said: str) -> bool:
    """Whether a sentence says where: an option, a file, a line, a stage, a place of the recipe, or a word that was typed."""
    if re.search(
        r"--\w|\w\.(jsonl?|py|csv|parquet|arrow|txt|safetensors|bin)\b|\b(line|row) \d|(task|problem|recipe|player|folder|stage) \S|In \"", said
    ):
        return True
    typed = re.sub(r"\{train\}|\{home\}/|--|,", " ", row[0]).split()
    return any(
        re.search(rf"(?<!\w){re.escape(part)}(?!\w)", said)
        for word in typed[1:] or typed
        for part in (word, word.rpartition(".")[2])
        if part
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


def make_home(home: Path) -> Path:
    """A sound model, sound problems and a finished run of two steps."""
    torch.set_num_threads(1)
    save_small_model(home / "model")
    for name, columns in (("problems", ("prompt", "answer")), ("unanswered", ("prompt",))):
        rows = ({"prompt": f"say {i}", "answer": str(i)} for i in range(20))
        (home / f"{name}.jsonl").write_text("".join(json.dumps({c: row[c] for c in columns}) + "\n" for row in rows))
    assert main(replaced(shlex.split(f"{TRAIN} --steps 2 --save_every 1".format(home=home).replace("--run run", f"--run {home}/run")))) == 0
    return home


@pytest.fixture(autouse=True)
def _no_workers_are_left() -> Iterator[None]:
    yield
    stop_workers()


def everything(folder: Path) -> dict[str, bytes | str | None]:
    """Every path in a folder with its bytes, or where it points."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if path.name != ".lock"
    }


def lay(row: Row, folder: Path, home: Path) -> None:
    """Puts the files of a row into a folder."""
    for name, content in (row[2] if len(row) == 3 else {}).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if callable(content):
            content(path, home)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def test_the_page_of_mistakes_is_of_this_table() -> None:
    cells = {mistakes.cell(row) for rows in SECTIONS.values() for row in rows}
    assert set(mistakes.page()) == mistakes.COMMONEST
    assert cells >= mistakes.COMMONEST
    assert len(mistakes.COMMONEST) == 20


@pytest.mark.parametrize("row", [row for rows in SECTIONS.values() for row in rows], ids=lambda row: f"{row[0]} -> {row[1][:40]}")
def test_bad_input(row: Row, home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lay(row, tmp_path, home)
    monkeypatch.chdir(tmp_path)
    before, sound = everything(tmp_path), everything(home)
    capfd.readouterr()
    code = main(typed(row[0], train=TRAIN.format(home=home), home=home))
    said = capfd.readouterr().err
    assert code == 2, said
    assert re.fullmatch(r"gradus: [^\n]{15,700}\n", said), said
    assert "Traceback" not in said
    assert [part for part in row[1].split("|") if part not in said] == [], said
    assert REMEDY.search(said), f"says not what to do: {said}"
    assert named(row, said), f"says not where: {said}"
    cell, told = mistakes.cell(row), mistakes.plain(said, tmp_path, home)
    assert mistakes.page().get(cell, told) == told, f"{mistakes.PAGE} is not up to date; write it with: python -m tests.mistakes"
    after = everything(tmp_path)
    if "quarantine.jsonl" in said:  # what could not be judged is kept for whoever wants to see why
        assert json.loads(Path("run/quarantine.jsonl").read_text().splitlines()[0])
        after = {name: content for name, content in after.items() if name.split("/")[0] != "run"}
    assert after == before
    assert everything(home) == sound


@pytest.mark.parametrize("row", RIGHT, ids=lambda row: row[0])
def test_a_sound_part_trains(row: Row, home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lay(row, tmp_path, home)
    monkeypatch.chdir(tmp_path)
    code = main(typed(row[0], train=TRAIN.format(home=home), home=home))
    assert code == 0, capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train grop", 'unknown recipe "grop"'),
        ("{train} --task d.jsonl", "d.jsonl, line 3: not valid JSON"),
        ("{train} --reward r.py:score --study none", "4 of 4 trajectories of this step have no reward"),
    ],
)
def test_bad_input_of_a_process(words: str, said: str, home: Path, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text(ROWS + '{"prompt": "say 3", "answer": "3",}\n')
    (tmp_path / "r.py").write_text(BATCHED + "return ['good'] * 4\n")
    given = typed(words, train=TRAIN.format(home=home))
    command = [sys.executable, "-m", "gradus", *given]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 2
    assert re.fullmatch(r"gradus: [^\n]+\n", done.stderr), done.stderr
    assert said in done.stderr
    assert {p.name for p in tmp_path.iterdir() if p.name != "__pycache__"} == {"d.jsonl", "r.py", *(["run"] if "4 of 4" in said else [])}


def test_what_the_system_refuses(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object, **more: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/the/place")

    monkeypatch.setattr("gradus.cli.lists.papers", refused)
    assert main(["papers"]) == 2
    said = capfd.readouterr().err
    assert said == "gradus: the system refused at /the/place: Permission denied; check the permissions, or name another place\n"


def test_two_processes_in_one_run(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = everything(home)
    with RunFolder.open(home / "run").claimed():
        assert main(["resume", str(home / "run"), "--steps", "3"]) == 2
    assert f"another process is training in {home / 'run'}; wait until it ends, or stop that process" in capfd.readouterr().err
    assert everything(home) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert main(shlex.split(TRAIN.format(home=home).replace("--run run", f"--run {closed}/run"))) == 2
    assert f"cannot make the run folder {closed}/run: Permission denied; name another folder" in capfd.readouterr().err
