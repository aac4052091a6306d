"""Whether every text recipe that trains weights learns: held-out accuracy on 256 fixed problems, end minus start, over seeds.

    python -m benchmarks.learning                       # all recipes, seeds 0-2
    python -m benchmarks.learning --recipes grpo,rloo --steps 60

Prints a row a recipe: accuracy before and after, the difference, and its 99 % interval by a paired bootstrap over seeds and problems.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

import numpy as np

from gradus import registry
from gradus.api import plan, start
from gradus.study.evaluation import held_out_requests
from gradus.run import Run, go
from gradus.types import Key

PROBLEMS = 256


def answers(run: Run) -> np.ndarray:
    """[problems] 1 where the sampled answer is right, always with the same draws."""
    world = run.world(run.recipe, "benchmark")
    world.key = Key(12345)
    requests = held_out_requests(run.task.held_out, PROBLEMS, 1, run.task.level)
    acting = run.recipe.search or getattr(run.recipe.rollout, "test", run.recipe.rollout)
    groups = asyncio.run(run.memory.peek("rollout", acting, "run", requests, world))
    return np.array([float(g.trajectories[0].right) for g in groups])


def learned(recipe: str, task: str, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Right answers before and after training."""
    planned = plan(recipe, task, steps=steps, seed=seed)
    run = start(planned)
    run.recipe = run.recipe.but(study=None)
    before = answers(run)
    go(run)
    return before, answers(run)


def interval(differences: np.ndarray, *, draws: int = 10_000, level: float = 0.99) -> tuple[float, float]:
    """Percentile interval of the mean of [seeds, problems], both resampled with replacement."""
    rng = np.random.default_rng(0)
    seeds, problems = differences.shape
    means = [differences[rng.integers(seeds, size=seeds)][:, rng.integers(problems, size=problems)].mean() for _ in range(draws)]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def text_recipes() -> list[str]:
    """Every built-in recipe that trains a language model's weights."""
    made = [(key, registry.recipe(key)) for key in registry.recipe_modules()]
    return [key for key, recipe in made if recipe.policy == "lm" and recipe.objective is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="")
    parser.add_argument("--task", default="", help="one task for all; by default each recipe's own where it needs one, else arithmetic")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None, help="append results as JSON lines")
    options = parser.parse_args()
    failed = []
    print(f"{'recipe':<14} {'task':<12} {'before':>7} {'after':>7} {'change':>7}   99 % interval      seconds")
    for key in options.recipes.split(",") if options.recipes else text_recipes():
        task = options.task or TASKS.get(key, "arithmetic")
        began = time.perf_counter()
        pairs = [learned(key, task, options.steps, seed) for seed in range(options.seeds)]
        before, after = (np.stack([p[i] for p in pairs]) for i in (0, 1))
        low, high = interval(after - before)
        seconds = time.perf_counter() - began
        print(
            f"{key:<14} {task:<12} {before.mean():7.3f} {after.mean():7.3f} {(after - before).mean():+7.3f}"
            f"   [{low:+.3f}, {high:+.3f}]   {seconds:7.0f}",
            flush=True,
        )
        if options.out:
            row = {
                "recipe": key,
                "task": task,
                "steps": options.steps,
                "before": before.mean(1).tolist(),
                "after": after.mean(1).tolist(),
                "interval": [low, high],
            }
            with open(options.out, "a") as file:
                file.write(json.dumps(row) + "\n")
        if low <= 0:
            failed.append(key)
    sys.exit(f"not shown to learn: {', '.join(failed)}" if failed else 0)


TASKS = {"scaf_grpo": "countdown", "gigpo": "frozen_lake", "delethink": "running_sum"}

if __name__ == "__main__":
    main()
