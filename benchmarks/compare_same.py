"""False winners of comparisons: a recipe against itself on different seeds, with real runs of the built-in model.

    python -m benchmarks.compare_same [--comparisons 40] [--seeds 3] [--run DIR] [--json FILE]

Equal seeds give equal bytes, so the runs of both arms have seeds of their own: comparison k takes the next 2 S seeds, the first S for the arm
`a` and the others for `b`, and pairs them in order. The arms share the held-out problems but not the training problems, so the difference is
at least as wide as in a comparison. All runs are trained and examined by `gradus.comparison.compare`, and each comparison is judged by its
table. The same command continues. The last line regroups all runs at random: more comparisons, which are not independent.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradus.comparison.compare import compare
from gradus.comparison.experiment import Arm, Experiment
from gradus.comparison.measures import Measure, values
from gradus.comparison.statistics import difference
from gradus.comparison.table import ALPHA, figures
from gradus.training.budget import Budget

FIELDS = (("prompts", "4"), ("group", "8"), ("study", "none"))
LEVELS, AGAIN = (0.1, 0.25, 0.5), 2000
Run = Mapping[str, Any]


def experiment(recipe: str, seeds: int, steps: int) -> Experiment:
    """All runs of the control as one arm with many seeds."""
    return Experiment((Arm(recipe, recipe),), seeds=tuple(range(seeds)), budget=Budget("steps", steps), fields=FIELDS, problems=100, samples=2)


def verdict(runs: Experiment, a: Sequence[Run], b: Sequence[Run]) -> dict[str, Any]:
    """The pair of one comparison of runs as two arms: {"mean", "low", "high", "p", "winner", ...}."""
    arms = tuple(Arm(name, runs.arms[0].recipe) for name in "ab")
    made = Experiment(arms, seeds=tuple(range(len(a))), budget=runs.budget, measure=runs.measure)
    [pair] = figures(made, {"a": dict(enumerate(a)), "b": dict(enumerate(b))})["pairs"]
    return dict(pair)


def regrouped(found: np.ndarray, seeds: int) -> float:
    """The share of winners among random groupings of runs into two arms. Args: found float64 [runs, problems]; seeds: of each arm."""
    draw = np.random.default_rng(0)
    drawn = [draw.choice(len(found), 2 * seeds, replace=False) for _ in range(AGAIN)]
    ps = [difference(found[at[:seeds]], found[at[seeds:]]).p for at in drawn]
    return float(np.mean([p is not None and p < ALPHA for p in ps]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="grpo")
    parser.add_argument("--comparisons", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3, help="of each arm")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--run", default="runs/same", help="folder of all runs")
    parser.add_argument("--json", help="a file for the figures of every comparison")
    options = parser.parse_args()
    wide = 2 * options.seeds
    asked = experiment(options.recipe, options.comparisons * wide, options.steps)
    made = compare(asked, options.run, processes=1, shown=lambda found, job, line: print(f"seed {job.seed} done", flush=True) if "result" in line else None)
    runs = [made.results[options.recipe][seed] for seed in asked.seeds]
    found = [verdict(asked, runs[at : at + options.seeds], runs[at + options.seeds : at + wide]) for at in range(0, len(runs), wide)]
    won = [n for n, pair in enumerate(found) if pair["winner"]]
    means = [float(np.mean(run["final"]["right"])) / run["final"]["samples"] for run in runs]
    print(f"{len(runs)} runs of {options.recipe}, {options.steps} steps: accuracy {np.mean(means):.3f}, deviation among seeds {np.std(means, ddof=1):.3f}")
    print(f"winners: {len(won)} of {len(found)} comparisons of {options.seeds} seeds{f' (numbers {won})' if won else ''}")
    shares = [f"{np.mean([pair['p'] < level for pair in found]):.2f}" for level in LEVELS]
    print(f"share of p-values below {', '.join(map(str, LEVELS))}: {', '.join(shares)}")
    false = regrouped(values(Measure(asked.measure), runs), options.seeds)
    print(f"winners among {AGAIN} random groupings of the same runs: {false:.3f}")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
