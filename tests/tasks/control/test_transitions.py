"""Recorded transitions in files: back to the same arrays, and what a wrong file is told."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.tasks.control.transitions import load_transitions, save_transitions
from gradus.testing.methods.control import toy_control
from gradus.types import UserError


def columns() -> dict[str, np.ndarray]:
    n = 3
    return {
        "observation.state": np.arange(6, dtype=np.float32).reshape(n, 2),
        "next.state": np.arange(6, dtype=np.float32).reshape(n, 2) + 1,
        "action": np.arange(n),
        "reward": np.ones(n, np.float32),
        "done": np.array([False, False, True]),
    }


def test_they_come_back(tmp_path):
    given = toy_control().transitions
    save_transitions(given, tmp_path / "some.npz")
    found = load_transitions(tmp_path / "some.npz")
    assert found.observation["state"].tobytes() == given.observation["state"].tobytes()
    assert found.next["state"].tobytes() == given.next["state"].tobytes()
    for name in ("action", "reward", "done", "ended"):
        assert np.array_equal(getattr(found, name), getattr(given, name))


def test_parquet(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({name: column.tolist() for name, column in columns().items()}), tmp_path / "some.parquet")
    found = load_transitions(tmp_path / "some.parquet")
    assert found.observation["state"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found.ended.tolist() == [False, False, True]  # without a column, an episode ends where it is done


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reward": None}, "transitions need the columns action, reward, done"),
        ({"next.state": None}, r"observation\.NAME with next\.NAME"),
        ({"action": np.zeros(2)}, "action has 2 rows, but reward has 3"),
        ({"reward": np.array([0.0, np.nan, 0.0])}, "reward contains NaN or infinity in row 1"),
    ],
)
def test_what_a_wrong_file_is_told(tmp_path, change, said):
    given = {**columns(), **change}
    np.savez(tmp_path / "some.npz", **{name: column for name, column in given.items() if column is not None})
    with pytest.raises(UserError, match=said):
        load_transitions(tmp_path / "some.npz")


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(UserError, match="is missing; write transitions with save_transitions"):
        load_transitions(tmp_path / "some.npz")
    (tmp_path / "some.npz").write_text("no")
    with pytest.raises(UserError, match=r"is not an .npz file of plain arrays"):
        load_transitions(tmp_path / "some.npz")
    (tmp_path / "some.parquet").write_text("no")
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        load_transitions(tmp_path / "some.parquet")
