"""A file in a published format becomes a task: columns, verifier, bad rows, account."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import gradus
from gradus.checks.data import accounts_of
from gradus.cli.main import main
from gradus.tasks.data.loaders import load_task, load_task_file
from gradus.tasks.formats.verifiers import choice
from gradus.types import Key, UserError

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


def options(count: int) -> list[dict[str, object]]:
    rows = [{"question": f"Which is {n}?", "opa": "no", "opb": str(n), "opc": "none", "opd": "all", "cop": 1, "exp": f"it is {n}"} for n in range(count)]
    return [{**row, "subject_name": "numbers"} for row in rows]


def written(folder: Path, rows: list[dict[str, object]], name: str = "data.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) if name.endswith("l") else json.dumps(rows))
    return path


@pytest.mark.parametrize("name", ["data.jsonl", "data.json"])
def test_a_file_in_a_format_is_a_task(tmp_path: Path, name: str) -> None:
    task = load_task(str(written(tmp_path, options(20), name)), {}, format="medmcqa", held_out=0.25)
    assert task.verify is choice
    assert (task.source.size, task.held_out.size) == (15, 5)
    assert {"solution", "options", "subject_name"} <= set(task.provides)
    problem = task.source.draw([0], None, Key(0))[0]
    assert (problem.answer, problem.meta["solution"]) == ("B", problem.question.splitlines()[0].replace("Which is", "it is").rstrip("?") + "\nAnswer: B")
    assert [task.verify(problem, text) for text in ("Answer: B", "Answer: A")] == [1.0, 0.0]
    assert accounts_of(task)[0].told == f"{tmp_path / name} in the format medmcqa: 20 rows = 15 to train on + 5 held out"


def test_a_verifier_that_the_user_names_wins(tmp_path: Path) -> None:
    task = load_task_file(written(tmp_path, options(4)), format="medmcqa", verify="final_answer")
    assert task.verify is not choice


def test_bad_rows_of_a_format_are_left_out_and_kept_as_they_were(tmp_path: Path) -> None:
    rows = options(10)
    rows[3]["cop"] = 7
    path = written(tmp_path, rows)
    with pytest.raises(UserError, match=r'data.jsonl, line 4: "cop" names option 8 of 4'):
        load_task_file(path, format="medmcqa")
    task = load_task_file(path, format="medmcqa", bad_rows=0.1)
    bad = task.source.bad[0]
    assert (bad.place, bad.field, json.loads(bad.text)["cop"]) == ("line 4", "cop", 7)


def test_a_format_decides_the_columns(tmp_path: Path) -> None:
    path = written(tmp_path, options(4))
    with pytest.raises(UserError, match=r"--task.format medmcqa chooses the columns; leave out --task.answer_column"):
        load_task_file(path, format="medmcqa", answer_column="cop")
    assert load_task_file(path, format="rows", answer_column="cop").source.draw([0], None, Key(0))[0].answer == 1


def test_a_saved_data_set_in_a_format(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    splits = {name: datasets.Dataset.from_list(options(count)) for name, count in (("train", 12), ("validation", 4))}
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "saved"))
    task = load_task_file(tmp_path / "saved", format="medmcqa")
    assert (task.source.size, task.held_out.size) == (8, 4)  # the four held-out prompts are also in the training split


def test_rows_in_memory_in_a_format() -> None:
    task = gradus.load_task(options(8), {"format": "medmcqa"})
    assert task.source.draw([0], None, Key(0))[0].answer == "B"


def test_a_run_and_a_check_read_a_format(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, options(12))
    given = ["--task", "data.jsonl", "--task.format", "medmcqa", "--task.prompt", "chat"]
    assert main(["check", "grpo", *given, "--samples", "0"]) == 0
    assert "12 rows = 11 to train on + 1 held out" in " ".join(capsys.readouterr().out.split())
    assert main(["train", "grpo", *given, "--steps", "1", "--prompts", "2", "--group", "2", "--run", "run"]) == 0
    assert "data.jsonl in the format medmcqa: 12 rows = 11 to train on + 1 held out" in capsys.readouterr().out


@pytest.mark.skipif(not SHARED.is_dir(), reason="the official files are not on this machine")
def test_official_files(tmp_path: Path) -> None:
    path = tmp_path / "HumanEval.jsonl"
    path.write_bytes(gzip.decompress((SHARED / "humaneval" / "HumanEval.jsonl.gz").read_bytes()))
    task = load_task_file(path, format="humaneval", held_out=1)
    problems = task.held_out.draw(range(164), None, Key(0))
    assert len({p.meta["task_id"] for p in problems}) == 164
    assert task.verify is not None
    for problem in problems[:3]:
        assert task.verify(problem, f"```python\n{problem.meta['solution']}```") == 1.0
        assert task.verify(problem, "```python\npass\n```") == 0.0
