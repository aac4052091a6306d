"""Measures the claims of recipes: trains the recipe and the one that it is compared with on equal terms, and gives the verdict.

    python -m benchmarks.measure_claims chord rep_exp     # prints figures, interval, verdict
    python -m benchmarks.measure_claims chord --write     # stores them in benchmarks/claims/chord.json

benchmarks/claims/README.md describes the files.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradus.lab.atomic_files import write
from gradus.study.intervals import of_numbers

FOLDER = Path(__file__).parent / "claims"
READ = {
    "last": lambda values: values[-1],
    "first": lambda values: values[0],
    "max": max,
    "min": min,
    "mean": lambda values: float(np.mean(values)),
    "gain": lambda values: values[-1] - values[0],
}


@dataclass(frozen=True)
class Verdict:
    """The mean difference over seeds, its 95 % interval (Student; None for one seed), and the verdict."""

    difference: float
    low: float | None
    high: float | None
    verdict: str


def verdict(differences: Sequence[float], better_by: float) -> Verdict:
    """The verdict of a claim from one difference (recipe minus the other) per seed.

    Seen: the mean reaches `better_by` and the interval lies on its side of 0. Opposite: the interval lies on the other side. One seed has no
    interval, so it is never more than "not seen".
    """
    found = of_numbers(differences)
    sign = -1.0 if better_by < 0 else 1.0
    low, high = (found.low, found.high) if sign > 0 else (_negative(found.high), _negative(found.low))
    if low is None or high is None:
        said = "not seen"
    elif sign * found.mean >= abs(better_by) and low > 0:
        said = "seen"
    else:
        said = "opposite" if high < 0 else "not seen"
    return Verdict(found.mean, found.low, found.high, said)


def _negative(number: float | None) -> float | None:
    return None if number is None else -number


def measured(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Trains both arms with every seed; the figures and the verdict."""
    arms = {"recipe": claim.get("options", {})}
    if claim.get("against"):
        arms["against"] = claim.get("against_options", claim.get("options", {}))
    figures: dict[str, list[float]] = {name: [] for name in arms}
    for seed in claim["seeds"]:
        for name, options in arms.items():
            figures[name].append(_run(claim, claim[name], options, seed))
    other = figures.get("against", [0.0] * len(claim["seeds"]))
    found = verdict([a - b for a, b in zip(figures["recipe"], other, strict=True)], claim["better_by"])
    rounded = {name: [round(v, 4) for v in values] for name, values in figures.items()}
    interval = None if found.low is None or found.high is None else [round(found.low, 4), round(found.high, 4)]
    return {**rounded, "difference": round(found.difference, 4), "interval": interval, "verdict": found.verdict}


def _run(claim: Mapping[str, Any], key: str, options: Mapping[str, str], seed: int) -> float:
    from gradus.api import start
    from gradus.recipe.overrides import override_all
    from gradus.training.launch import go
    from gradus.training.plan import plan

    began = time.perf_counter()
    options_of_task = claim.get("task_options", {})
    planned = plan(key, claim["task"], model=claim.get("model"), steps=claim["steps"], seed=seed, task_options=options_of_task)
    run = start(replace(planned, recipe=override_all(planned.recipe, list(options.items()))))
    go(run)
    values = [float(row[claim["measure"]]) for row in run.metrics if row.get(claim["measure"]) is not None]
    figure = float(READ[claim.get("read", "last")](values))
    print(f"{key} seed {seed}: {claim['measure']} {figure:.4f} ({time.perf_counter() - began:.0f} s)", file=sys.stderr, flush=True)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keys", nargs="*", help="recipes; none: all that have a claim")
    parser.add_argument("--write", action="store_true", help="store the figures in the claim's file")
    arguments = parser.parse_args()
    for key in arguments.keys or sorted(path.stem for path in FOLDER.glob("*.json")):
        path = FOLDER / f"{key}.json"
        claim = json.loads(path.read_text())
        if claim.get("script"):
            print(f"{key}: python -m benchmarks.{claim['script']}")
            continue
        found = measured(claim)
        print(f"{key}: {claim['says']}\n  {json.dumps(found)}")
        if arguments.write:
            why = claim.get("measured", {}).get("why", "")
            claim["measured"] = {**found, "command": f"python -m benchmarks.measure_claims {key}", "why": why}
            write(path, (json.dumps(claim, indent=2, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    main()
