"""Whole problems as JSON lines: what is stored comes back, and what is none is told with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradus.tasks.data.problems import StoredProblems, line, of_stored
from gradus.training.plan import load_task
from gradus.types import Frozen, Key, Problem, UserError

PROBLEM = Problem("p/1", "sums", ({"role": "user", "content": "2+2?"},), answer=(4, "four"), meta=Frozen(hints=("a", "b"), level=2))


def put(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{text}\n" for text in lines))
    return str(path)


def test_a_problem_comes_back_as_it_was(tmp_path: Path) -> None:
    source = StoredProblems(put(tmp_path, line({"problem": PROBLEM, "pass_rate": 0.25}, "row 1")))
    (found,) = source.draw([0], 3.5, Key())
    assert (found.id, found.task, found.messages, found.answer) == ("p/1", "sums", PROBLEM.messages, (4, "four"))
    assert found.meta == {"hints": ("a", "b"), "level": 2, "pass_rate": 0.25}
    assert (source.size, source.columns) == (1, {"hints", "level", "pass_rate"})


def test_lines_of_one_problem_have_ids_of_their_own(tmp_path: Path) -> None:
    path = put(tmp_path, *(line({"problem": PROBLEM, "solution": text}, "row") for text in ("four", "4")))
    found = StoredProblems(path).draw([0, 1], None, Key())
    assert [(p.id, p.meta["solution"]) for p in found] == [("p/1", "four"), ("p/1/2", "4")]


def test_a_new_problem_has_a_prompt() -> None:
    made = json.loads(line({"prompt": "3+3?", "answer": 6, "hint": "even"}, "row 1", "sums"))
    assert (made["hint"], made["problem"]["answer"]) == ("even", 6)
    assert made["problem"]["id"].startswith("sums-")
    assert line({"prompt": "3+3?"}, "row 2", "sums") == line({"prompt": [{"role": "user", "content": "3+3?"}]}, "row 1", "sums")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ([1], "row 1 is .* it must be a mapping"),
        ({"answer": 4}, 'row 1 has neither a "problem"'),
        ({"problem": PROBLEM, "score": float("nan")}, "row 1 cannot be stored: .*convert its values"),
        ({"problem": PROBLEM, "when": object()}, "row 1 cannot be stored"),
    ],
)
def test_a_row_that_is_none_is_told(row: object, told: str) -> None:
    with pytest.raises(UserError, match=told):
        line(row, "row 1")  # type: ignore[arg-type]


def test_a_file_that_holds_none_is_told(tmp_path: Path) -> None:
    arithmetic = load_task("arithmetic")
    with pytest.raises(UserError, match="contains no problem, because the screening or the stage kept no problem; widen the band of the screening"):
        of_stored(arithmetic, put(tmp_path))
    with pytest.raises(UserError, match=r"rows.jsonl, line 1 is not a stored problem .* give a file from gradus screen or from a stage"):
        of_stored(arithmetic, put(tmp_path, '{"prompt": "2+2"}'))
    with pytest.raises(UserError, match="cannot be read"):
        of_stored(arithmetic, tmp_path / "none.jsonl")


def test_an_option_of_every_task_reads_it(tmp_path: Path) -> None:
    (drawn,) = load_task("arithmetic").source.draw([7], None, Key(1))
    path = put(tmp_path, line({"problem": drawn, "pass_rate": 0.5}, "row 1"))
    task = load_task("arithmetic", {"problems": path})
    assert task.source.draw([0], None, Key())[0].messages == drawn.messages
    assert "pass_rate" in task.provides
    assert task.verify is not None
    assert task.verify(drawn, drawn.meta["solution"]) == 1.0
