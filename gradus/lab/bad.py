"""Records of updates with NaN or infinite numbers. Each such step has a folder `bad/step-000012/`, which is written atomically.

`report.json` names the first tensor, trajectory and action with such a number. `rows-1.safetensors` contains every row of that mini-batch.
Later, Gradus reads only `bad/restart-N.json`, for the metrics of discarded steps.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.lab.atomic_files import PARTIAL, encode, remove, room, sync, write

if TYPE_CHECKING:
    from gradus.updates.diagnosis import Diagnosis

BAD = "bad"
MOST = 4  # largest number of mini-batches that are kept per step
TEXT = 2000  # largest number of characters that are kept of an answer


def keep(run: Path, step: int, restart: int, found: Sequence[Diagnosis]) -> Path:
    """Writes the folder of a step, and returns its path. A repeated call writes the same bytes. Raises: UserError for a disk error."""
    from safetensors.torch import save_file

    name = f"step-{step:06d}" + (f"-restart-{restart}" if restart else "")
    target, partial = run / BAD / name, run / BAD / (PARTIAL + name)
    with room(run, f"the record of bad numbers in step {step}"):
        remove(partial)
        partial.mkdir(parents=True)
        entries = []
        for number, one in enumerate(found[:MOST], start=1):
            file = f"rows-{number}.safetensors"
            save_file({n: t.detach().cpu().contiguous() for n, t in one.rows.items()}, partial / file)
            sync(partial / file)
            entries.append({**told(one), "rows": file})
        write(partial / "report.json", encode({"step": step, "restart": restart, "found": len(found), "first": entries}))
        remove(target)
        os.rename(partial, target)
        sync(target.parent)
    return target


def told(one: Diagnosis) -> dict[str, Any]:
    """Returns a diagnosis as plain values, without its rows."""
    trajectory = one.trajectory
    return {
        "what": str(one),
        "player": one.player,
        "tensor": one.tensor,
        "not_finite": one.count,
        "of": one.of,
        "trajectory": None if trajectory is None else trajectory.id,
        "problem": None if trajectory is None else trajectory.problem.id,
        "completion": None if trajectory is None else trajectory.completion[:TEXT],
        "action": one.action,
        "token": one.token,
        "around": list(one.values),
        "trajectories": list(one.trajectories),
    }


def keep_abandoned(run: Path, restart: int, about: Mapping[str, Any]) -> None:
    """Writes `bad/restart-N.json`.

    The file contains two steps (before and after the return of the run), the reason, and the metrics of the discarded steps.
    """
    with room(run, "the record of abandoned steps"):
        (run / BAD).mkdir(exist_ok=True)
        write(run / BAD / f"restart-{restart}.json", encode(about))


def given_up(run: Path) -> list[dict[str, Any]]:
    """Returns the metrics of all discarded steps. Files that cannot be read are skipped."""
    rows: list[dict[str, Any]] = []
    for path in sorted((run / BAD).glob("restart-*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            rows += [row for row in json.loads(path.read_bytes())["metrics"] if isinstance(row, dict) and isinstance(row.get("step"), int)]
    return rows
