"""The folder of a run: made once, appended to, cut back to the bytes of a shorter run."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gradus.lab.folder import RunFolder, is_run
from gradus.types import UserError


def new(path: Path) -> RunFolder:
    return RunFolder.create(path, {"key": "grpo", "steps": 3}, {"command": ["gradus", "train"]})


@pytest.fixture
def go_on(group: Callable) -> Callable:
    """Trains from a step to another, with a checkpoint every two steps."""

    def train(folder: RunFolder, first: int, last: int) -> RunFolder:
        for step in range(first, last):
            folder.append_rollouts(step, [group(f"p{step}", seed=step)])
            folder.append_metrics(step, {"reward": step / 3, "length": np.float32(0.1), "accuracy": None})
            folder.append_timings(step, {"seconds": 0.5})
            if (step + 1) % 2 == 0:
                folder.save(step + 1, {"policy/model.safetensors": {"w": torch.full((2,), step)}}, {"state.json": step}, keep=1)
        return folder

    return train


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_run_is_made_once(tmp_path: Path) -> None:
    folder = new(tmp_path / "runs" / "a")
    assert RunFolder.open(tmp_path / "runs" / "a") == folder
    assert (folder.recipe()["key"], folder.provenance()["command"]) == ("grpo", ["gradus", "train"])
    before = contents(tmp_path)
    with pytest.raises(UserError, match=r"already contains a run; resume the run with gradus resume .*runs/a, or name another"):
        new(tmp_path / "runs" / "a")
    assert contents(tmp_path) == before


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="contains files but no run"):
        new(tmp_path)
    with pytest.raises(UserError, match=r"cannot make the run folder .*notes.txt"):
        new(tmp_path / "notes.txt")
    with pytest.raises(UserError, match=r"contains no run, because the file recipe\.json is missing"):
        RunFolder.open(tmp_path)
    assert not is_run(tmp_path)
    (tmp_path / "empty").mkdir()
    assert new(tmp_path / "empty").path.name == "empty"


def test_a_line_of_metrics(tmp_path: Path) -> None:
    folder = new(tmp_path / "a")
    folder.append_metrics(4, {"b": 1, "a": np.float32(0.1), "c": torch.tensor(2.5), "step": 9, "d": float("nan"), "e": None, "f": 1e-300})
    line = (folder.path / "metrics.jsonl").read_text()
    assert line == '{"step": 4, "a": 0.10000000149011612, "b": 1, "c": 2.5, "d": null, "e": null, "f": 1e-300}\n'
    assert folder.metrics() == [json.loads(line)]


def test_a_torn_last_line_is_left_out_and_another_broken_one_is_named(tmp_path: Path, go_on: Callable) -> None:
    folder = go_on(new(tmp_path / "a"), 0, 3)
    with open(folder.path / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 3, "rew')
    assert [m["step"] for m in folder.metrics()] == [0, 1, 2]
    folder.cut_back(3)
    folder.append_metrics(3, {})
    assert [m["step"] for m in folder.metrics()] == [0, 1, 2, 3]
    (folder.path / "timings.jsonl").write_text('{"step": 0}\nnonsense\n')
    with pytest.raises(UserError, match=r"timings\.jsonl, line 2 is not a record"):
        folder.timings()


@pytest.mark.parametrize("killed", range(1, 7))
def test_resumed_equals_uninterrupted(tmp_path: Path, go_on: Callable, killed: int) -> None:
    whole = go_on(new(tmp_path / "whole"), 0, 7)
    other = go_on(new(tmp_path / "other"), 0, killed)
    with open(other.path / "metrics.jsonl", "ab") as file:
        file.write(b'{"st')
    (other.path / ".partial-model").mkdir()
    (other.path / ".partial-model" / "half").write_text("half")
    found, wrong = other.latest()
    assert wrong == ""
    start = 0 if found is None else found.step
    assert start == killed // 2 * 2
    other.cut_back(start)
    other.cut_back(start)  # doing it again changes nothing
    go_on(other, start, 7)
    assert contents(other.path) == contents(whole.path)


def test_cut_back_sets_broken_checkpoints_aside_that_come_after(tmp_path: Path) -> None:
    folder = new(tmp_path / "a")
    for step in (2, 4):
        folder.save(step, {}, {"state.json": step})
    (folder.path / "checkpoints" / "step-000004" / "state.json").write_text("half")
    found, wrong = folder.latest()
    assert found is not None
    assert wrong.startswith("checkpoint step-000004 is broken (state.json has 4 bytes, but its manifest gives 2)")
    home = folder.path / "checkpoints"
    aside = f"the broken step-000004 is kept as {home / 'broken-step-000004'}; delete it if you do not need it"
    assert folder.cut_back(found.step) == [aside]
    assert folder.cut_back(found.step) == []
    assert sorted(p.name for p in home.iterdir()) == ["broken-step-000004", "step-000002"]
    assert (home / "broken-step-000004" / "state.json").read_text() == "half"
    folder.save(4, {}, {"state.json": 4}, keep=1)  # the step is done again; what was set aside stays
    (home / "step-000004" / "state.json").write_text("half again")
    folder.cut_back(2)
    assert sorted(p.name for p in home.iterdir()) == ["broken-step-000004", "broken-step-000004-2"]


def test_steps_that_are_missing_or_twice_are_told(tmp_path: Path, go_on: Callable) -> None:
    folder = go_on(new(tmp_path / "a"), 0, 9)
    assert folder.gaps(9) == []
    for step in (0, 1, 2, 3, 5, 7):
        (folder.path / "rollouts" / f"step-{step:06d}.arrow").unlink()
    folder.append_metrics(6, {})
    assert folder.gaps(9) == [
        "metrics.jsonl contains steps 6 more than once",
        "rollouts lacks steps 0, 1, 2, 3, 5 and 1 more; they are before step 9, and the run does not repeat them",
    ]


def test_metrics_that_changed_since_the_checkpoint_are_told(tmp_path: Path, go_on: Callable) -> None:
    folder = go_on(new(tmp_path / "a"), 0, 5)
    folder.cut_back(4)
    assert folder.gaps(4) == []
    metrics = folder.path / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes().replace(b"0.33", b"0.93"))
    said = "metrics.jsonl was changed since the run wrote the checkpoint of step 4: some of its numbers do not come from the run"
    assert folder.gaps(4) == [said]
    metrics.unlink()
    assert folder.gaps(4) == ["metrics.jsonl lacks steps 0, 1, 2, 3; they are before step 4, and the run does not repeat them"]


def test_a_recipe_that_was_changed_by_hand_is_told(tmp_path: Path) -> None:
    folder = new(tmp_path / "a")
    assert (folder.recipe(), folder.gaps(0)) == ({"key": "grpo", "steps": 3}, [])
    recipe = folder.path / "recipe.json"
    recipe.write_text(recipe.read_text().replace('"steps": 3', '"steps": 7'))
    assert folder.recipe()["steps"] == 7
    assert folder.gaps(0) == ["recipe.json was changed by hand or by a disk fault; the run continues with the present content"]
    folder.replan({"key": "grpo", "steps": 9})
    assert (folder.recipe()["steps"], folder.gaps(0)) == (9, [])
    recipe.write_text('{"key": "grpo"}')  # that of an older version has no hash
    assert folder.gaps(0) == []


def test_rollouts_that_cannot_be_read_are_set_aside_and_told(tmp_path: Path, go_on: Callable) -> None:
    folder = go_on(new(tmp_path / "a"), 0, 7)
    files = [folder.path / "rollouts" / f"step-{step:06d}.arrow" for step in range(7)]
    files[0].write_bytes(b"")
    files[1].write_bytes(files[1].read_bytes()[:-40])
    files[2].write_bytes(files[3].read_bytes())
    files[6].write_bytes(b"comes after the checkpoint")
    told = folder.cut_back(6)
    assert [line.partition(" belong to ")[0].partition(" cannot be read")[0] for line in told] == [
        f"the rollouts in {file}" for file in files[:3]
    ]
    assert f"steps: [3]; the broken file is kept as {files[2].with_name('broken-step-000002.arrow')}" in told[2]
    assert folder.gaps(6) == ["rollouts lacks steps 0, 1, 2; they are before step 6, and the run does not repeat them"]
    assert [step for step, _ in folder.rollouts()] == [3, 4, 5]
    assert folder.cut_back(6) == []


def test_a_folder_in_the_place_of_a_file_is_a_sentence(tmp_path: Path, go_on: Callable) -> None:
    folder = go_on(new(tmp_path / "a"), 0, 3)
    for name in ("metrics.jsonl", ".lock"):
        (folder.path / name).unlink(missing_ok=True)
        (folder.path / name).mkdir()
    with pytest.raises(UserError, match=r"metrics.jsonl cannot be read: Is a directory; move this file away"):
        folder.metrics()
    with pytest.raises(UserError, match=r"a folder has the place of a file in .*a while writing its lock; .* move it away"):
        folder.claimed().__enter__()
    (folder.path / "rollouts" / "step-000001.arrow").unlink()
    (folder.path / "rollouts" / "step-000001.arrow").mkdir()
    (folder.path / "metrics.jsonl").rmdir()
    folder.cut_back(1)
    assert [p.name for p in (folder.path / "rollouts").iterdir()] == ["step-000000.arrow"]


def test_a_folder_that_was_moved_while_it_was_trained_in_is_a_sentence(tmp_path: Path) -> None:
    folder = new(tmp_path / "a")
    folder.path.rename(tmp_path / "b")
    with pytest.raises(UserError, match=r"a file or a folder is no longer there in .*a while writing metrics\.jsonl; .*in its new folder"):
        folder.append_metrics(0, {})


def test_the_best_model_outlives_its_turn(tmp_path: Path) -> None:
    folder = new(tmp_path / "a")
    assert folder.model("best") is None
    for step in (2, 4, 6):
        path = folder.save(step, {"policy/model.safetensors": {"w": torch.full((1,), float(step))}}, {}, keep=1)
        if step == 2:
            folder.point("best", path / "policy")
    folder.point("final", path / "policy")
    assert sorted(p.name for p in (folder.path / "checkpoints").iterdir()) == ["step-000002", "step-000006"]
    assert folder.model("best") == folder.path / "checkpoints" / "step-000002" / "policy"
    folder.point("best", path / "policy")  # a better one
    folder.save(8, {}, {}, keep=1)
    assert sorted(p.name for p in (folder.path / "checkpoints").iterdir()) == ["step-000006", "step-000008"]
    assert not (folder.path / "best").readlink().is_absolute()


def test_a_copy_that_followed_the_links_is_a_run_too(tmp_path: Path) -> None:
    folder = new(tmp_path / "run")
    for step in (1, 2):
        folder.save(step, {"model/model.safetensors": {"w": torch.full((2,), step)}}, {"state.json": step}, keep=5)
    folder.point("final", folder.path / "checkpoints" / "step-000001" / "model")
    shutil.copytree(folder.path, tmp_path / "copy")  # links become folders
    copy = RunFolder.open(tmp_path / "copy")
    assert not (copy.path / "final").is_symlink()
    assert copy.model("final") == copy.path / "checkpoints" / "step-000001" / "model"
    copy.point("final", copy.path / "checkpoints" / "step-000002" / "model")
    assert copy.model("final") == copy.path / "checkpoints" / "step-000002" / "model"
    assert (copy.path / "broken-final" / "model.safetensors").exists()  # nothing is lost
    (copy.path / "best").mkdir()
    (copy.path / "best" / "other").write_text("")
    assert copy.model("best") == copy.path / "best"


def test_runs_of_one_plan_have_one_origin(tmp_path: Path) -> None:
    def made(name: str, **plan: object) -> str | None:
        return RunFolder.create(tmp_path / name, {"seed": 0, "device": "cpu", "recipe": {"setting": {"steps": 3, "group": 2}}, **plan}, {}).origin()

    first = made("a")
    assert made("b") == first
    assert made("c", device="cuda", recipe={"setting": {"steps": 4, "group": 2}}) == first
    assert made("d", seed=1) != first
    assert made("e", recipe={"setting": {"steps": 3, "group": 4}}) != first
    folder = RunFolder.open(tmp_path / "a")
    folder.replan({"seed": 7})
    assert folder.origin() == first
    assert folder.recipe() == {"seed": 7}
    (tmp_path / "a" / "recipe.json").write_text("{}")
    assert folder.origin() is None
    folder.replan({"seed": 8})
    assert folder.origin() is None


def test_resumptions_are_noted(tmp_path: Path) -> None:
    folder = new(tmp_path / "a")
    folder.note_resumed(2, ["gradus", "resume"], ["a checkpoint was broken"])
    folder.note_resumed(4, ["gradus", "resume"])
    assert [(r["step"], r["notes"]) for r in folder.provenance()["resumed"]] == [(2, ["a checkpoint was broken"]), (4, [])]
    assert folder.provenance()["command"] == ["gradus", "train"]


def test_one_process_trains_in_a_run(tmp_path: Path) -> None:
    folder = new(tmp_path / "a")
    with folder.claimed(), pytest.raises(UserError, match="another process is training"), folder.claimed():
        pass
    with folder.claimed():
        pass


def test_a_full_disk_is_a_sentence(tmp_path: Path, go_on: Callable, monkeypatch: pytest.MonkeyPatch, group: Callable) -> None:
    folder = go_on(new(tmp_path / "a"), 0, 1)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UserError, match=r"no space left in .*a while writing the rollouts of step 1"):
        folder.append_rollouts(1, [group()])
    monkeypatch.undo()
    assert [step for step, _ in folder.rollouts()] == [0]
    assert not list((folder.path / "rollouts").glob(".*"))


def test_what_the_clock_decided_outlives_a_cut_back(tmp_path):
    run = RunFolder.create(tmp_path / "run", {}, {})
    run.append_fact(3, "train/score/1", "did not answer within 1 seconds")
    run.append_fact(4, "train/score/1", "ended with code 9")
    (run.path / "facts.jsonl").open("ab").write(b'{"step": 4, "call"')  # killed while writing
    run.cut_back(3)
    run.append_fact(5, "train/score/1", "later")
    assert run.facts(3) == {"train/score/1": "did not answer within 1 seconds"}
    assert run.facts(4) == {"train/score/1": "ended with code 9"}
    assert run.facts(5) == {"train/score/1": "later"}


def test_a_fact_that_says_nothing_is_a_sentence(tmp_path):
    run = RunFolder.create(tmp_path / "run", {}, {})
    run.append_fact(3, "train/score/1", "ended with code 9")
    facts = run.path / "facts.jsonl"
    facts.write_text(facts.read_text().replace('"call"', '"cell"'))
    with pytest.raises(UserError, match=r"facts\.jsonl: a line of step 3 has no field 'call'; delete this line to continue"):
        run.facts(3)
