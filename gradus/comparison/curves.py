"""The learning curve of a recipe next to another arm, as it is stored for the recipe's page: held-out accuracy (or reward) over the steps.

The file is gradus/papers/FAMILY/curves/KEY.json: the mean, the lowest and the highest seed at each evaluation. `python -m benchmarks.curves` measures
curves. A measured claim stores the curve of its runs if the recipe has no curve yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradus.lab.atomic_files import write
from gradus.recipe import index
from gradus.recipe.claim import Claim

LEAST = 4
"""The smallest number of evaluations of a curve that a measured claim stores."""
COSTS = ("memory", "seconds")


def file_of(family: str, key: str) -> Path:
    """The file of a recipe's curve."""
    return index.FOLDERS["recipes"] / family / "curves" / f"{key}.json"


def reason_for_none(claims: Sequence[Claim]) -> str | None:
    """The reason why a recipe with these claims has no learning curve, as a sentence; None if a curve makes sense.

    A curve has no meaning if all claims of the recipe are about memory or time, or about answers before the first update.
    """
    effects = [claim for claim in claims if claim.bound != "within"]
    if effects and all(claim.measure in COSTS for claim in effects):
        return "This recipe has no learning curve, because the method changes only the memory and the time of an update."
    if effects and all((claim.measure or "").endswith(":first") for claim in effects):
        return "This recipe has no learning curve, because the method acts at test time, before any update."
    return None


def banded(curves: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """[step, mean, lowest, highest] over the seeds, at each step of the first curve. The other curves are interpolated at these steps.

    >>> banded([[[0, 0.0], [2, 1.0]], [[0, 0.5], [2, 0.0]]])
    [[0.0, 0.25, 0.0, 0.5], [2.0, 0.5, 0.0, 1.0]]
    """
    steps = [float(point[0]) for point in curves[0]]
    rows = np.stack([np.interp(steps, [p[0] for p in curve], [p[1] for p in curve]) for curve in curves])
    columns = (rows.mean(0), rows.min(0), rows.max(0))
    return [[step, *(float(f"{column[i]:.4g}") for column in columns)] for i, step in enumerate(steps)]


def drawn(results: Mapping[str, Mapping[int, Mapping[str, Any]]], least: int = 2) -> dict[str, list[list[float]]]:
    """The curve of each arm of a finished comparison. Arms with a run of fewer than `least` evaluations are left out."""
    runs = {name: [run.get("curve", []) for run in found.values()] for name, found in results.items()}
    return {name: banded(curves) for name, curves in runs.items() if curves and all(len(curve) >= least for curve in curves)}


def by_reward(results: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> dict[str, dict[int, dict[str, Any]]]:
    """The results with the held-out reward in place of the held-out accuracy, for a task on which no answer of any arm is right."""
    return {
        name: {
            seed: {**run, "curve": run.get("rewards", []), "metrics": {n: m for n, m in run.get("metrics", {}).items() if n != "held_out/accuracy"}}
            for seed, run in runs.items()
        }
        for name, runs in results.items()
    }


def score_of(results: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> str:
    """The name of the score of the curves. If no run has a held-out accuracy (on tasks without right and wrong answers), the score is the held-out reward."""
    right = any("held_out/accuracy" in run.get("metrics", {}) for runs in results.values() for run in runs.values())
    return "held-out accuracy" if right else "held-out reward"


def about_task(task: str | None, options: Mapping[str, str], steps: float) -> str:
    """The sentence that names the task and the length of the runs."""
    told = ", ".join(f"{name} {value}" for name, value in options.items())
    return f"The task {task or 'arithmetic'}{f' ({told})' if told else ''}, {steps:g} steps."


def about_ground(name: str) -> str:
    """The sentence that names a proving ground and its difficulty."""
    from gradus.comparison.ground import ground_of

    about = ground_of(name).about
    return f"The ground [{name}](/how/grounds.md): {about[:1].lower()}{about[1:]}"


def keep(path: Path, found: Mapping[str, Any]) -> None:
    """Stores a curve."""
    path.parent.mkdir(exist_ok=True)
    write(path, (json.dumps(found, indent=1) + "\n").encode())
