"""Test that every text recipe with trained weights learns: held-out accuracy on 256 fixed problems, end minus start, over seeds.

    python -m benchmarks.learning                       # all recipes, seeds 0-2
    python -m benchmarks.learning --recipes grpo,rloo --steps 40

Prints one row per recipe: accuracy before and after, the difference, its 99 % interval by a paired bootstrap over seeds and problems, and the
share of training tokens that met the bound of its trust region: clipped, capped or masked, mean over all updates and seeds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from gradus.api import start
from gradus.recipe import registry
from gradus.recipe.compatibility import kind_of
from gradus.recipe.overrides import override_all
from gradus.study.held_out import held_out_requests
from gradus.study.pair_accuracy import PairAccuracy, pair_accuracy
from gradus.training.launch import go
from gradus.training.plan import plan
from gradus.training.run import Run
from gradus.types import Key

PROBLEMS = 256
SHARES = ("clip_share", "capped_share", "masked_share")


@dataclass(frozen=True)
class Case:
    """The setting of a recipe: its task, options of the task, fields of the recipe at this scale, steps of a supervised warm start."""

    task: str = "arithmetic"
    options: tuple[tuple[str, str], ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    warm: int = 0
    steps: int | None = None  # None: as given on the command line


CASES = {
    "scaf_grpo": Case("countdown"),
    "vapo": Case(fields=(("schedule.steps", "4"),)),
    "gigpo": Case("frozen_lake", (("level", "5"),), steps=40),
    "delethink": Case(
        "running_sum", (("level", "10"),), (("rollout.carry", "16"), ("rollout.size", "32"), ("rollout.limit", "4")), warm=20, steps=60
    ),
}


def answers(run: Run) -> np.ndarray:
    """[problems] 1 if the sampled answer is right, else 0; always with the same draws."""
    world = run.world(run.recipe, "benchmark")
    world.key = Key(12345)
    requests = held_out_requests(run.task.held_out, PROBLEMS, 1, run.task.level)
    acting = run.recipe.search or getattr(run.recipe.rollout, "test", run.recipe.rollout)
    groups = asyncio.run(run.memory.peek("rollout", acting, "run", requests, world))
    return np.array([float(g.trajectories[0].right) for g in groups])


def ordered(run: Run, study: PairAccuracy) -> np.ndarray:
    """[problems] share of the pairs of held-out answers that a reward model orders right, of fixed answers; 1/2 without a pair."""
    world = run.world(run.recipe, "benchmark")
    world.key = Key(12345)
    groups = asyncio.run(replace(study, problems=PROBLEMS).scored(run, run.recipe, world))
    shares = [pair_accuracy(scores, group.rewards) for group, scores in groups]
    return np.array([0.5 if share is None else share for share in shares])


def learned(recipe: str, steps: int, seed: int, case: Case, model: str | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Right answers (of a reward model: pairs in the right order) before and after training, and the share of tokens that met a bound."""
    planned = plan(recipe, case.task, model=model, profile="tiny", steps=steps, seed=seed, task_options=dict(case.options))
    run = start(replace(planned, recipe=override_all(planned.recipe, case.fields)))
    study = run.recipe.study
    run.recipe = run.recipe.but(study=None)
    measure = partial(ordered, study=study) if isinstance(study, PairAccuracy) else answers
    before = measure(run)
    shares: list[float] = []
    run.on_step = lambda run, metrics, groups: shares.extend(metrics[n] for n in SHARES if metrics.get(n) is not None)
    go(run)
    return before, measure(run), float(np.mean(shares)) if shares else float("nan")


def warmed(case: Case, folder: Path) -> str | None:
    """The built-in model after `case.warm` supervised steps on the task's demonstrations, for a task that it cannot do at all."""
    if not case.warm:
        return None
    planned = plan("sft", case.task, profile="tiny", steps=case.warm, seed=100, task_options=dict(case.options))
    run = start(replace(planned, recipe=planned.recipe.but(study=None, setting__learning_rate=1e-3)))
    go(run).players["policy"].policy.save(folder)
    return str(folder)


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
    return [key for key, recipe in made if kind_of(recipe).sized and recipe.objective is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None, help="append results as JSON lines")
    options = parser.parse_args()
    failed = []
    print(f"{'recipe':<14} {'task':<12} {'before':>7} {'after':>7} {'change':>7}   99 % interval      bound   seconds")
    for key in options.recipes.split(",") if options.recipes else text_recipes():
        case = CASES.get(key, Case())
        task, steps = case.task, case.steps or options.steps
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            model = warmed(case, Path(folder))
            pairs = [learned(key, steps, seed, case, model) for seed in range(options.seeds)]
        before, after = (np.stack([p[i] for p in pairs]) for i in (0, 1))
        low, high = interval(after - before)
        bound = float(np.mean([p[2] for p in pairs]))
        seconds = time.perf_counter() - began
        print(
            f"{key:<14} {task:<12} {before.mean():7.3f} {after.mean():7.3f} {(after - before).mean():+7.3f}"
            f"   [{low:+.3f}, {high:+.3f}]   {bound:6.4f}   {seconds:7.0f}",
            flush=True,
        )
        if options.out:
            row = {
                "recipe": key,
                "task": task,
                "steps": steps,
                "before": before.mean(1).tolist(),
                "after": after.mean(1).tolist(),
                "interval": [low, high],
                "bound": bound,
            }
            with open(options.out, "a") as file:
                file.write(json.dumps(row) + "\n")
        if low <= 0:
            failed.append(key)
    sys.exit(f"not shown to learn: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
