"""Media beside the rollouts: once per hundred steps, the same bytes whenever the run was cut back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from gradus.lab import rollouts, seen
from gradus.lab.arrow import decode, encode
from gradus.lab.atomic_files import PARTIAL
from gradus.lab.rollouts import FOLDED
from gradus.types import Group, Problem, Trajectory, UserError
from tests.pictures import answered, media, message, shown


def groups_of(step: int) -> list[Group]:
    """Step 3 shows nothing; the others show a picture of three, each in the problem and in the context."""
    colour = step % 3
    if step == 3:
        return [Group("text", (Trajectory("t", Problem("t", "x", text="a"), (answered(shown(), 1, 2),), reward=1.0),))]
    problem = Problem(f"p{step}", "x", (message(colour),), answer="a")
    prompt = shown(colour)
    return [Group(f"p{step}", tuple(Trajectory(f"p{step}/{i}", problem, (answered(prompt, 1, i),), reward=float(i)) for i in range(2)))]


def fill(folder: Path, steps: range) -> None:
    for step in steps:
        rollouts.append(folder, step, groups_of(step))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_groups_come_back_with_their_media(tmp_path: Path) -> None:
    fill(tmp_path, range(5))
    assert sorted(p.name for p in tmp_path.glob("seen*")) == [f"seen-00000{i}.safetensors" for i in (0, 1, 2, 4)]
    for step, group in rollouts.read(tmp_path):
        (due,) = groups_of(step)
        for t, other in zip(group.trajectories, due.trajectories, strict=True):
            assert t.problem == other.problem
            assert t.contexts[0].things == other.contexts[0].things
            assert t.contexts[0].beginning(5) == other.contexts[0].beginning(5)
        assert group.trajectories[0].contexts[0].parent[0] is group.trajectories[-1].contexts[0].parent[0]  # type: ignore[index]


def test_a_text_has_the_columns_that_it_had() -> None:
    assert encode(3, groups_of(3)).column_names == ["step", "problems", "contexts", "trajectories", "groups"]


def test_every_array_stands_once_in_a_hundred_steps(tmp_path: Path) -> None:
    fill(tmp_path, range(FOLDED + 2))
    assert [p for p in contents(tmp_path) if p.startswith("seen")] == [
        "seen-000000-000099.safetensors", "seen-000100.safetensors", "seen-000101.safetensors"
    ]  # fmt: skip
    held = load_file(tmp_path / "seen-000000-000099.safetensors")
    assert {name: Media.array[0, 0, 0] for name, Media in ((m.digest, m) for m in map(media, range(3)))}.keys() == held.keys()
    found = rollouts.read(tmp_path, [50])[0][1].trajectories[0]
    assert found.problem.media == (media(50 % 3),)


@pytest.mark.parametrize("step", [0, 2, 4, 50, FOLDED, FOLDED + 1])
def test_cut_back_and_done_again_gives_the_same_bytes(tmp_path: Path, step: int) -> None:
    fill(tmp_path / "a", range(FOLDED + 3))
    fill(tmp_path / "b", range(FOLDED + 3))
    rollouts.cut_back(tmp_path / "b", step)
    fill(tmp_path / "c", range(step))
    assert contents(tmp_path / "b") == (contents(tmp_path / "c") if step else {})
    fill(tmp_path / "b", range(step, FOLDED + 3))
    assert contents(tmp_path / "b") == contents(tmp_path / "a")


class Killed(BaseException):
    pass


def kills(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[None]:
    """Raises Killed at the `at`-th change of a file."""
    left = [at]

    def counted(whole):
        def change(*arguments, **more):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return whole(*arguments, **more)

        return change

    for name in ("unlink", "replace"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))
    yield
    monkeypatch.undo()


@pytest.mark.parametrize("at", range(8))
def test_killed_while_it_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    fill(tmp_path / "a", range(FOLDED + 1))
    fill(tmp_path / "b", range(FOLDED - 1))
    for _ in kills(monkeypatch, at):
        with pytest.raises(Killed):
            fill(tmp_path / "b", range(FOLDED - 1, FOLDED))
    rollouts.cut_back(tmp_path / "b", FOLDED - 1)
    fill(tmp_path / "b", range(FOLDED - 1, FOLDED + 1))
    assert contents(tmp_path / "b") == contents(tmp_path / "a")
    assert not list((tmp_path / "b").glob(PARTIAL + "*"))


@pytest.mark.parametrize("at", range(0, 9, 2))
def test_killed_while_it_is_cut_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    fill(tmp_path / "a", range(FOLDED + 2))
    fill(tmp_path / "b", range(FOLDED + 2))
    for _ in kills(monkeypatch, at):
        with contextlib.suppress(Killed):
            rollouts.cut_back(tmp_path / "b", 5)
    rollouts.cut_back(tmp_path / "b", 5)
    fill(tmp_path / "b", range(5, FOLDED + 2))
    assert contents(tmp_path / "b") == contents(tmp_path / "a")


def test_missing_media_are_named(tmp_path: Path) -> None:
    fill(tmp_path, range(1))
    (tmp_path / "seen-000000.safetensors").unlink()
    with pytest.raises(UserError, match=r"need the media .*restore the files seen-"):
        rollouts.read(tmp_path)
    with pytest.raises(UserError, match="read the rollouts from the folder of the run"):
        decode(encode(0, groups_of(0)))


def test_broken_media_are_named(tmp_path: Path) -> None:
    fill(tmp_path, range(1))
    (tmp_path / "seen-000000.safetensors").write_bytes(b"no")
    with pytest.raises(UserError, match=r"seen-000000\.safetensors cannot be read"):
        rollouts.read(tmp_path)


def test_a_merge_holds_the_same_arrays_as_its_library_would(tmp_path: Path) -> None:
    seen.store(tmp_path, 0, {media(2).digest: media(2).array, media(1, 4, 4).digest: media(1, 4, 4).array})
    seen.store(tmp_path, 1, {media(2).digest: media(2).array})
    seen.merge(tmp_path, 0, FOLDED)
    held = load_file(seen.of_steps(tmp_path, 0, FOLDED))
    assert {name: array.tolist() for name, array in held.items()} == {
        m.digest: m.array.tolist() for m in (media(2), media(1, 4, 4))
    }  # fmt: skip
    assert replace(groups_of(0)[0]).key == "p0"
