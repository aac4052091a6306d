"""A checkpoint is whole or is not there."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from gradus.lab import checkpoints
from gradus.types import UserError


def save(folder: Path, step: int, **more: object) -> Path:
    weights = torch.arange(6.0).reshape(2, 3) + step
    tensors = {"policy/model.safetensors": {"w": weights, "tied": weights, "part": weights[0]}, "state.safetensors": {"m": torch.ones(1)}}
    return checkpoints.save(folder, step, tensors, {"state.json": {"b": step, "a": [1.5, None]}}, **more)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    (tmp_path / "model" / "chat").mkdir(parents=True)
    for name in ("config", "model/tokens", "model/chat/template"):
        (tmp_path / name).write_text("{}")
    path = save(tmp_path, 3, copies={"policy/config.json": tmp_path / "config", "model": tmp_path / "model"})
    found, wrong = checkpoints.latest(tmp_path)
    assert (found, wrong) == (checkpoints.Checkpoint(3, path), "")
    assert found is not None
    read = found.tensors("policy/model.safetensors")
    assert read["w"].tolist() == read["tied"].tolist() == [[3, 4, 5], [6, 7, 8]]
    assert read["part"].tolist() == [3, 4, 5]
    assert found.document("state.json") == {"b": 3, "a": [1.5, None]}
    assert (path / "policy" / "config.json").read_text() == "{}"
    facts = json.loads((path / "manifest.json").read_text())
    # its lines {, "b": 3, "a": [, 1.5, null, ], } with indents and line breaks: 2 + 9 + 8 + 7 + 7 + 3 + 2 = 38
    assert facts["files"]["state.json"]["bytes"] == 38
    copied = {"model/tokens", "model/chat/template"}
    assert set(facts["files"]) == copied | {"policy/model.safetensors", "policy/config.json", "state.safetensors", "state.json"}


def test_equal_states_give_equal_bytes(tmp_path: Path) -> None:
    assert contents(save(tmp_path / "a", 5)) == contents(save(tmp_path / "b", 5))


def test_the_newest_and_the_protected_are_kept(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        save(tmp_path, step, keep=2, protected=(10,))
    assert list(checkpoints.steps(tmp_path)) == [10, 30, 40]
    assert not list((tmp_path / "checkpoints").glob(".*"))


def cut(path: Path) -> None:
    file = path / "policy" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def flip(path: Path) -> None:
    file = path / "policy" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))


def forget(path: Path) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "files": {}}))


BREAKAGES = {
    r"model.safetensors has \d+ bytes, but its manifest gives \d+": cut,
    "model.safetensors has changed since it was written": flip,
    "state.json is missing": lambda path: (path / "state.json").unlink(),
    "manifest.json is missing": lambda path: (path / "manifest.json").unlink(),
    "manifest.json is not a manifest": lambda path: (path / "manifest.json").write_bytes(b"\xff{"),
    "manifest.json is not a (manifest)": lambda path: (path / "manifest.json").write_text("[1]"),
    "manifest.json is not (a manifest)": lambda path: (path / "manifest.json").write_text('{"step": 2, "files": 3}'),
    "manifest.json lists no file": lambda path: (path / "manifest.json").write_text('{"step": 2, "files": {}}'),
    "manifest.json has changed since it was written": forget,
    "its manifest belongs to step 7": lambda path: (path / "manifest.json").write_text('{"step": 7, "files": {}}'),
}


@pytest.mark.parametrize("wrong", BREAKAGES)
def test_a_broken_one_is_passed_over_and_named(tmp_path: Path, wrong: str) -> None:
    save(tmp_path, 1)
    BREAKAGES[wrong](save(tmp_path, 2))
    found, sentence = checkpoints.latest(tmp_path)
    assert found is not None
    assert found.step == 1
    assert re.fullmatch(rf"checkpoint step-000002 is broken \((policy/)?{wrong}\); continuing from step-000001", sentence), sentence


def test_one_of_another_run_is_passed_over_and_named(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, 1, {}, {"state.json": 1}, origin="mine")
    checkpoints.save(tmp_path, 2, {}, {"state.json": 2})  # by an older version
    checkpoints.save(tmp_path, 3, {}, {"state.json": 3}, origin="theirs", keep=9)
    found, sentence = checkpoints.latest(tmp_path, origin="mine")
    assert found is not None
    assert (found.step, sentence) == (2, "checkpoint step-000003 belongs to another run; continuing from step-000002")
    found, sentence = checkpoints.latest(tmp_path)  # a run of an older version does not know its origin
    assert found is not None
    assert (found.step, sentence) == (3, "")


def test_garbage_is_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoints.latest(tmp_path) == (None, "")
    home = tmp_path / "checkpoints"
    home.mkdir()
    (home / "step-000009").write_text("a file")
    (home / "step-9").mkdir()
    (home / ".partial-step-000009").mkdir()
    assert checkpoints.latest(tmp_path) == (None, "")
    (home / "step-000005").mkdir()
    found, sentence = checkpoints.latest(tmp_path)
    assert found is None
    assert sentence == "checkpoint step-000005 is broken (manifest.json is missing); starting again from step 0"


def test_a_broken_one_is_written_anew_and_kept_aside(tmp_path: Path) -> None:
    save(tmp_path, 1)
    good = contents(save(tmp_path, 2))
    cut(tmp_path / "checkpoints" / "step-000002")
    assert contents(save(tmp_path, 2)) == good
    assert (tmp_path / "checkpoints" / "broken-step-000002" / "manifest.json").exists()


@pytest.mark.parametrize("fails", ["safetensors", "sync", "rename"])
def test_a_full_disk_is_a_sentence_and_the_old_one_stays(tmp_path: Path, fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1)
    before = contents(tmp_path)
    full = OSError(errno.ENOSPC, "No space left on device")

    def refuse(*arguments: object, **more: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)") if fails == "safetensors" else full

    target = {"safetensors": "safetensors.torch.save_file", "sync": "os.fsync", "rename": "os.rename"}[fails]
    monkeypatch.setattr(target, refuse)
    with pytest.raises(UserError, match=r"no space left in .* while writing the checkpoint of step 2.*gradus resume"):
        save(tmp_path, 2, keep=1)
    monkeypatch.undo()
    assert contents(tmp_path) == before
    assert save(tmp_path, 2).name == "step-000002"


@pytest.mark.parametrize("calls", range(17))
def test_killed_anywhere_the_old_or_the_new_is_whole(tmp_path: Path, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends at the n-th call to the disk: what is found then is one of the two states, never a third."""

    class Killed(BaseException):
        pass

    save(tmp_path, 1)
    left = [calls]

    def counted(real):  # type: ignore[no-untyped-def]
        def call(*arguments, **more):  # type: ignore[no-untyped-def]
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*arguments, **more)

        return call

    for name in ("rename", "replace", "fsync"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    monkeypatch.setattr(checkpoints, "remove", counted(checkpoints.remove))
    with contextlib.suppress(Killed):
        save(tmp_path, 2, keep=1)
    monkeypatch.undo()
    found, wrong = checkpoints.latest(tmp_path)
    assert found is not None
    assert found.step in (1, 2)
    assert wrong == ""


@pytest.mark.parametrize("name", ["../out.json", "manifest.json", "/tmp/out.json"])
def test_a_file_stays_inside(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot have a file"):
        checkpoints.save(tmp_path, 1, {}, {name: 1})
    assert checkpoints.latest(tmp_path) == (None, "")


def test_what_was_not_planned_takes_no_planned_one_s_place(tmp_path: Path) -> None:
    """Where a run was stopped and went on must not decide which checkpoints it has to go back to."""
    home = tmp_path / "checkpoints"
    for step, planned in ((5, True), (10, True), (11, False), (12, False), (15, True), (17, False)):
        save(tmp_path, step, keep=2, planned=planned)
    assert sorted(p.name for p in home.iterdir()) == ["step-000010", "step-000015", "step-000017"]
    found = [checkpoints.latest(tmp_path, only_planned=only)[0] for only in (False, True)]
    assert [f.step for f in found if f is not None] == [17, 15]
    save(tmp_path, 20, keep=1)
    assert [p.name for p in home.iterdir()] == ["step-000020"]


def test_the_same_saved_twice_stays_as_it_is(tmp_path: Path) -> None:
    path = save(tmp_path, 5)
    inode = path.stat().st_ino
    assert save(tmp_path, 5).stat().st_ino == inode
    assert not list(path.parent.glob(".*"))
