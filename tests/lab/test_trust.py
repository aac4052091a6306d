"""Runs that name Python: made here, or received from somebody else."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gradus.cli.main import main
from gradus.lab.folder import RunFolder
from gradus.lab.trust import key_file, mark_of, python_of
from gradus.types import UserError
from tests.small_model import save_small_model


@pytest.fixture(autouse=True)
def _own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_the_python_of_a_plan_is_found_wherever_it_stands():
    stored = {
        "recipe": {
            "key": "mine.py",
            "about": "as in paper.py",
            "reward": {"part": "gradus.rewards.functions:Function", "path": "/a/reward.py:score"},
            "credit": {"part": {"file": "/a/parts.py", "name": "Mine", "sha256": "0"}},
        },
        "task": "/b/tasks.py:task",
        "task_options": [["text", "/c/shown.py:shown"], ["isolation", "rlimits"], ["level", "2"]],
    }
    programs = "programs written by the model, without isolation (isolation rlimits)"
    assert python_of(stored) == ["/a/parts.py:Mine", "/a/reward.py:score", "/b/tasks.py:task", "/c/shown.py:shown", programs]
    assert python_of({"task": "arithmetic", "task_options": [["isolation", "bubblewrap"]], "model": "/models/happy"}) == []
    assert python_of({"sandbox": {"isolation": "rlimits"}}) == [programs]


@pytest.mark.parametrize(
    "task",
    ["arithmetic:3,/a/t.py:task:2", "/a/t.py:task,arithmetic", "/a/a\nb.py:task", "gymnasium:evil:World-v0", "arithmetic,verifiers:evil:2"],
)
def test_python_within_a_value_is_found(task):
    assert python_of({"task": task}) == [task]


def test_names_of_tasks_are_no_python():
    names = ["gymnasium:FrozenLake-v1", "reasoning_gym:gcd:2,reasoning_gym:lcm:1", "data.pyx", "owner/name", "happy:3,copy:1"]
    assert python_of({"task_options": names}) == []


def test_the_key_is_made_once_and_is_the_users_own():
    assert not key_file().exists()
    assert mark_of(["a.py:f", "b.py:g"]) == mark_of(["b.py:g", "a.py:f"])
    assert mark_of(["a.py:f"]) != mark_of(["b.py:g"])
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    assert [p.name for p in key_file().parent.iterdir()] == ["key"]


def test_another_user_has_another_mark(tmp_path, monkeypatch):
    folder = RunFolder.create(tmp_path / "run", {"task": "/a/t.py:task"}, {})
    folder.check_trusted()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(UserError, match=r"not made by you on this machine, and it executes Python with your rights: /a/t.py:task.*--trust"):
        folder.check_trusted()
    folder.replan(folder.recipe())  # as a trusted run is resumed
    folder.check_trusted()


def test_a_mark_covers_its_names_alone(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {"task": "/a/t.py:task"}, {})
    document = json.loads((folder.path / "recipe.json").read_text())
    (folder.path / "recipe.json").write_text(json.dumps({**document, "steps": 4}))
    folder.check_trusted()
    (folder.path / "recipe.json").write_text(json.dumps({**document, "task": "/evil/t.py:task"}))
    with pytest.raises(UserError, match=r"/evil/t\.py:task"):
        folder.check_trusted()


def test_without_python_there_is_nothing_to_trust(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {"task": "arithmetic"}, {})
    folder.check_trusted()
    assert not key_file().exists()


def test_a_home_that_cannot_be_written_makes_no_mark(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert mark_of(["a.py:f"]) is None
    folder = RunFolder.create(tmp_path / "run", {"task": "/a/t.py:task"}, {})
    with pytest.raises(UserError, match="--trust"):
        folder.check_trusted()


@pytest.fixture
def received(tmp_path, monkeypatch, capsys):
    """A run of somebody else, whose reward leaves a file when it is imported."""
    save_small_model(tmp_path / "model")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"prompt": f"say {i}", "answer": str(i)}) + "\n" for i in range(12)))
    (tmp_path / "reward.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'executed')!r}).touch()\n"
        "def score(completions, **_):\n    return [float(len(c) % 2) for c in completions]\n"
    )
    fields = "--steps 1 --prompts 2 --group 2 --max_tokens 4 --study.problems 2"
    words = f"train grpo --task {tmp_path}/rows.jsonl --model {tmp_path}/model --reward {tmp_path}/reward.py:score --run {tmp_path}/run {fields}"
    assert main(words.split()) == 0
    (tmp_path / "executed").unlink()
    shutil.rmtree(tmp_path / "state")
    capsys.readouterr()
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "resume {run} --steps 2",
        "eval {run}",
        "explain reward {run}",
        "export {run} {home}/out.jsonl --as sft",
        "chat {run} --task frozen_lake --problem 0 --max-tokens 4",
    ],
)
def test_a_received_run_executes_nothing_unless_it_is_trusted(received, words, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    words = words.format(run=received / "run", home=received).split()
    assert main(words) == 2
    assert "not made by you on this machine" in capsys.readouterr().err
    assert not (received / "executed").exists()
    assert main([*words, "--trust"]) in (0, 2)  # sft may find no right answer
    assert "not made by you" not in capsys.readouterr().err


def test_a_run_resumed_with_trust_is_the_users_own(received, capsys):
    assert main(["resume", str(received / "run"), "--steps", "2", "--trust"]) == 0
    assert main(["eval", str(received / "run"), "--problems", "2"]) == 0


def test_explain_does_not_execute_the_python_of_a_received_command(tmp_path):
    (tmp_path / "evil.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'executed')!r}).touch()\n")
    code = "from gradus.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"
    fields = "--steps 0 --study none --prompts 2 --group 2 --max_tokens 4"
    made = [sys.executable, "-c", code, "train", "grpo", "--run", str(tmp_path / "run"), *fields.split()]
    subprocess.run(made, check=True, capture_output=True, env=dict(os.environ))
    path = tmp_path / "run" / "provenance.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "command": ["gradus", "train", f"{tmp_path}/evil.py:recipe", "--steps", "3"]}))
    assert main(["explain", "steps", str(tmp_path / "run")]) == 0
    assert not (tmp_path / "executed").exists()
