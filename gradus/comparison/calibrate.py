"""The calibration of a proving ground. Base recipes train under the ground's terms with several seeds. The result shows whether the ground separates its two
arms.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gradus.comparison.compare import Comparison
from gradus.comparison.experiment import arm_of
from gradus.comparison.ground import FOLDER, Ground
from gradus.comparison.measures import Measure, values
from gradus.comparison.statistics import area, difference
from gradus.lab.atomic_files import encode, write
from gradus.lab.provenance import source
from gradus.types import UserError

LEVEL = 0.99
"""The confidence level of the interval that decides whether a ground separates its pair."""


def calibrated(ground: Ground, made: Comparison) -> dict[str, Any]:
    """The calibration from a finished comparison (`gradus.comparison.terms.calibration`), as plain values.

    {"start": accuracy before training, "arms": [{"name", "final", "deviation", "seeds": final value of each seed, "shows"}], "pair":
    {"better", "worse", "measure", "mean", "low", "high", "level", "separated"}, "ground": hash of its terms, "source": hash of the code}.
    Raises UserError if a run of the pair has failed.
    """
    measure = Measure(ground.pair.measure)
    better, worse = (arm_of(word).name for word in (ground.pair.better, ground.pair.worse))
    for name in (better, worse):
        if len(_runs(made, name)) < len(made.experiment.seeds):
            raise UserError(
                f"the ground {ground.name} cannot be calibrated, because a run of {name} failed; find the reason in {made.folder}, fix the "
                "cause, and calibrate again"
            )
    document = made.document()
    arms = {arm["name"]: arm for arm in document["arms"] if arm["seeds"]}
    found = difference(values(measure, _runs(made, better)), values(measure, _runs(made, worse)), level=LEVEL)
    assert found.low is not None
    assert found.high is not None
    separated = bool(found.low > 0 if measure.sign > 0 else found.high < 0)
    first = [run["curve"][0][1] for name in arms for run in _runs(made, name) if run["curve"] and run["curve"][0][0] == 0]
    return {
        "start": float(np.mean(first)) if first else None,
        "arms": [_row(name, arm, made, measure) for name, arm in arms.items()],
        "pair": {**asdict(ground.pair), "mean": found.mean, "low": found.low, "high": found.high, "level": LEVEL, "separated": separated},
        "ground": fingerprint(ground),
        "source": source(),
    }


def _runs(made: Comparison, name: str) -> list[dict[str, Any]]:
    """The finished runs of an arm in the order of the seeds. Each run also has the area under its curve."""
    found = [made.results[name][seed] for seed in made.experiment.seeds if "failed" not in made.results[name].get(seed, {"failed": ""})]
    return [{**run, "area": area(run["curve"], made.experiment.budget.amount)} for run in found]


def _row(name: str, arm: Mapping[str, Any], made: Comparison, measure: Measure) -> dict[str, Any]:
    runs = _runs(made, name)
    return {
        "name": name,
        "final": arm["final"]["mean"],
        "deviation": arm["final"]["deviation"],
        "seeds": [float(v) for v in values(measure, runs).mean(1)],
        "accuracy": arm["accuracy"],
        "shows": {name: found["mean"] for name, found in arm["shows"].items()},
        "tokens": arm["spent"]["tokens"],
        "seconds": float(np.mean([run["times"]["steps"] for run in runs if "times" in run] or [float("nan")])),
    }


def fingerprint(ground: Ground) -> str:
    """A hash of a ground's terms, without its descriptions. If a calibration has another hash, the ground has changed since the calibration."""
    terms = {name: value for name, value in asdict(ground).items() if name != "about"}
    terms["pair"].pop("why")
    return hashlib.sha256(json.dumps(terms, sort_keys=True, default=str).encode()).hexdigest()[:16]


def place(name: str) -> Path:
    """The file of a ground's calibration."""
    return FOLDER / "calibrated" / f"{name}.json"


def keep(ground: Ground, found: Mapping[str, Any]) -> Path:
    """Writes a calibration into the folder of the grounds. Returns its path."""
    path = place(ground.name)
    path.parent.mkdir(exist_ok=True)
    write(path, encode(dict(found)))
    return path


def stored(ground: Ground) -> dict[str, Any] | None:
    """The stored calibration of a ground; None if no calibration is stored. If the ground has changed since then, the field "stale" of the calibration is
    true.
    """
    try:
        found = json.loads(place(ground.name).read_text())
    except FileNotFoundError:
        return None
    return {**found, "stale": found["ground"] != fingerprint(ground)}
