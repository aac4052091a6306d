"""Rows in memory: a list of dictionaries or a data set trains, is checked and evaluated like a file, and a run with them is resumed."""

from __future__ import annotations

import datetime
import json
import shutil

import numpy as np
import pytest

import gradus
from gradus.lab.folder import RunFolder
from gradus.tasks.data.in_memory import InMemory, in_memory
from gradus.training.plan import plan
from gradus.types import Key, UserError

ROWS = [{"prompt": f"{n}+1=", "answer": str(n + 1), "tags": ["a", n]} for n in range(12)]
SHORT = {"setting__prompts": 2, "setting__group": 2, "setting__max_tokens": 4}


def dataset():
    return pytest.importorskip("datasets").Dataset.from_list([{"prompt": r["prompt"], "answer": r["answer"]} for r in ROWS])


def drawn(source):
    return [(p.id, p.question, p.answer, dict(p.meta)) for p in source.draw(range(source.size), None, Key())]


@pytest.mark.parametrize("kind", ["list", "dataset"])
def test_rows_in_memory_are_those_of_their_file(kind, tmp_path):
    given = ROWS if kind == "list" else dataset()
    rows = in_memory(given)
    assert isinstance(rows, InMemory)
    (tmp_path / rows.file).write_bytes(rows.content)
    here, there = gradus.load_task(given), gradus.load_task(str(tmp_path / rows.file))
    for side in ("source", "held_out"):
        assert drawn(getattr(here, side)) == drawn(getattr(there, side))
    assert here.name == there.name == "problems"
    assert here.source.accounts[0].told == "the data in memory: 12 rows = 11 to train on + 1 held out"


def test_options_apply_to_rows_in_memory():
    task = gradus.load_task([{"q": "a", "s": 1}, {"q": "b", "s": 2}, {"q": "b", "s": 2}], {"prompt_column": "q", "answer_column": "s"})
    assert (task.source.size, task.held_out.size) == (1, 1)
    selected = dataset().select([3, 4, 5])
    assert {r[1] for t in (gradus.load_task(selected),) for s in (t.source, t.held_out) for r in drawn(s)} == {"3+1=", "4+1=", "5+1="}


def test_values_of_numpy_are_written_plainly():
    task = gradus.load_task([{"prompt": f"p{n}", "answer": np.int64(n), "x": np.arange(2)} for n in range(3)])
    assert {r[2] for s in (task.source, task.held_out) for r in drawn(s)} == {0, 1, 2}
    assert drawn(task.source)[0][3]["x"] == [0, 1]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "the data in memory is empty"),
        ([{"prompt": "a"}, "b"], "the data in memory, row 2: the row is of type str; it must be a dictionary"),
        ([{"prompt": "a", 3: 1}], "row 1: the column 3 is of type int"),
        ([{"prompt": "a", "at": datetime.date(2020, 1, 1)}], "row 1: a value of type date cannot be written as JSON; convert the value"),
        ([{"prompt": "a", "at": float("nan")}], "row 1: Out of range float values"),
        ([{"prompt": "a"}, {"prompt": 3}], 'the data in memory, row 2: "prompt" is a number'),
        (3, "a task must be a Task, a list of rows, a datasets.Dataset, a name, a file or FILE.py:NAME, but its type is int"),
    ],
)
def test_what_cannot_be_a_task_is_a_sentence(given, sentence):
    with pytest.raises(UserError) as caught:
        gradus.load_task(given)
    assert sentence in str(caught.value)


def test_several_splits_are_refused_with_the_remedy():
    datasets = pytest.importorskip("datasets")
    with pytest.raises(UserError, match=r"the task is a DatasetDict; give one split, for example data\['train'\]"):
        gradus.load_task(datasets.DatasetDict(train=dataset()))
    with pytest.raises(UserError, match="is not stored; give the run a folder"):
        plan("grpo", ROWS).stored()


@pytest.mark.parametrize("kind", ["list", "dataset"])
def test_a_run_with_rows_in_memory_is_resumed_to_the_same_bytes(kind, tmp_path, capsys):
    given = ROWS if kind == "list" else dataset()
    (tmp_path / "r.py").write_text("def length(completions, **kwargs):\n    return [float(len(c)) for c in completions]\n")
    length = f"{tmp_path / 'r.py'}:length"
    words = {"study__problems": 1, "reward": [(length, 0.01), "Verified"], **SHORT}
    whole = gradus.train("grpo", given, steps=2, run=tmp_path / "whole", **words)
    name = in_memory(given).file
    assert f"the data in memory is stored in {tmp_path / 'whole' / name}, so that the run can be resumed" in capsys.readouterr().err
    stored = json.loads((tmp_path / "whole" / "recipe.json").read_text())
    assert stored["task"] == str(tmp_path / "whole" / name)
    gradus.train("grpo", given, steps=1, run=tmp_path / "cut", **words)
    shutil.move(tmp_path / "cut", tmp_path / "moved")
    gradus.resume(tmp_path / "moved", more=2)
    assert (tmp_path / "moved" / "metrics.jsonl").read_bytes().splitlines()[1:2] == (tmp_path / "whole" / "metrics.jsonl").read_bytes().splitlines()[1:2]
    alone = gradus.train("grpo", given, steps=2, **words)  # without a folder
    assert alone.metrics == whole.metrics
    assert RunFolder.open(tmp_path / "whole").provenance()["rows"] == ["the data in memory: 12 rows = 11 to train on + 1 held out"]
    exam = gradus.evaluate(tmp_path / "whole", given, problems=1, reward=[length, (length, 2.0)], overrides=[("setting.max_tokens", "4")])
    assert exam.problems == 1


def test_a_plan_with_rows_in_memory_is_checked():
    found = gradus.check("grpo", ROWS, samples=0, **SHORT)
    told = [f.says for f in found if f.check == "data"]
    assert told[:2] == ["the data in memory: 12 rows, 12 with an answer", "the data in memory: 12 rows = 11 to train on + 1 held out"]
    assert all(f.verdict != "wrong" for f in found)
    assert [f.says for f in gradus.check("grpo", [{"prompt": 3}]) if f.verdict == "wrong"]
