"""Recorded transitions in a file: NumPy's .npz, or Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gradus.types import UserError
from gradus.types.parts import Transitions

SINGLE = ("action", "reward", "done", "ended")


def save_transitions(transitions: Transitions, path: str | Path) -> None:
    """Writes a .npz file: action, reward, done, ended, and observation.NAME and next.NAME for every array."""
    columns = {name: getattr(transitions, name) for name in SINGLE}
    columns |= {f"observation.{name}": rows for name, rows in transitions.observation.items()}
    columns |= {f"next.{name}": rows for name, rows in transitions.next.items()}
    np.savez(path, **columns)


def load_transitions(path: str | Path) -> Transitions:
    """Reads the transitions of a .npz or .parquet file with the columns of `save_transitions`. If the column `ended` is missing, the column `done` replaces
    it.

    Raises UserError if any other column is missing, if the columns have different lengths, or if a number is not finite.
    """
    columns = _of_parquet(Path(path)) if str(path).endswith(".parquet") else _of_npz(Path(path))
    missing = [name for name in ("action", "reward", "done") if name not in columns]
    before, after = _named(columns, "observation."), _named(columns, "next.")
    if missing or not before or before.keys() != after.keys():
        need = "action, reward, done, and observation.NAME with next.NAME for every array"
        raise UserError(f"{path} contains {', '.join(sorted(columns)) or 'nothing'}, but transitions need the columns {need}; add the missing columns")
    rows = len(columns["reward"])
    if uneven := next((name for name, column in columns.items() if len(column) != rows), None):
        raise UserError(f"{path}: {uneven} has {len(columns[uneven])} rows, but reward has {rows}; every column needs one row per transition")
    broken = next((name for name, column in columns.items() if column.dtype.kind == "f" and not np.isfinite(column).all()), None)
    if broken is not None:
        place = int(np.flatnonzero(~np.isfinite(columns[broken]).reshape(rows, -1).all(1))[0])
        raise UserError(f"{path}: {broken} contains NaN or infinity in row {place}; leave this row out")
    done = columns["done"].astype(bool)
    ended = columns["ended"].astype(bool) if "ended" in columns else done
    return Transitions(before, columns["action"], columns["reward"].astype(np.float32), after, done, ended)


def _named(columns: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): column for name, column in columns.items() if name.startswith(prefix)}


def _of_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise UserError(f"{path} is missing; write transitions with save_transitions(transitions, {str(path)!r})") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not an .npz file of plain arrays ({error}); write the file with save_transitions") from None


def _of_parquet(path: Path) -> dict[str, np.ndarray]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path} cannot be read as Parquet ({error}); write the file again, or use .npz") from None
    return {name: np.array(table[name].to_pylist()) for name in table.column_names}
