"""Flagships: a tiny model learns a real task on two cores within minutes, from scripted traces and then by reinforcement learning.

    python -m benchmarks.flagships text_to_sql             # prints accuracy before and after, with intervals, and the seconds
    python -m benchmarks.flagships text_to_sql --seed 1

The start is a built-in model after supervised fine-tuning on worked solutions for a stated number of steps. Reinforcement learning by a recipe follows. Both
models answer the same held-out problems, which neither stage draws.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradus
from gradus.lab.folder import RunFolder
from gradus.policies.tiny import folder as tiny
from gradus.recipe.core import Recipe
from gradus.recipe.registry import recipe
from gradus.study.passk import Interval

PROBLEMS = 200  # held-out problems, with one sampled answer each


PLAIN: Mapping[str, Any] = {"objective__kl": None, "players__reference": None}  # without a KL term


@dataclass(frozen=True)
class Flagship:
    """The task, its model, the steps of both stages, and the recipe.

    The accuracy must be under `BELOW` before reinforcement learning, and over `ABOVE` after it.
    """

    task: str
    options: Mapping[str, str]
    model: str  # a built-in model
    traces: int  # steps of supervised fine-tuning, with 32 traces each
    recipe: str
    steps: int  # of reinforcement learning
    rate: float  # learning rate of the reinforcement learning
    changes: Mapping[str, Any] = field(default_factory=dict)  # further fields of the recipe
    prompts: int = 8
    group: int = 8
    learned: Mapping[str, str] = field(default_factory=dict)  # options of the task in the fine-tuning alone
    teaching: float = 2e-3  # learning rate of the fine-tuning
    measure: str = "accuracy"  # or "reward", if a success has a degree


BELOW, ABOVE = 0.4, 0.8


def python_tool() -> Flagship:
    """A number that needs a program. A turn is a program, run in the sandbox, or the answer."""
    return Flagship("python_tool", {"level": "1", "instruction": "false"}, "base", 120, "torl", 40, 3e-4)


def search() -> Flagship:
    """Questions of one hop about a corpus of made-up people. A turn is a search, or the answer."""
    return Flagship("search_qa", {"level": "1", "instruction": "false"}, "words", 40, "search_r1", 60, 1e-4, prompts=4)


def text_to_sql() -> Flagship:
    """Questions about the Chinook database: one to three columns of one of its 11 tables, in any order, answered by a query."""
    return Flagship("text2sql", {"database": "chinook", "level": "1"}, "words", 75, "grpo", 120, 1.2e-4, PLAIN)


def game() -> Flagship:
    """A corridor of 12 locked rooms, so a game has 12 turns or more. The fine-tuning has seen corridors of 4 rooms only."""
    return Flagship("corridor", {"level": "4"}, "base", 12, "gigpo", 70, 3e-4, learned={"level": "1"})


def dialogue() -> Flagship:
    """A bargain with a scripted seller. The measure is the buyer's share of the gain. A tenth of the dialogues of the fine-tuning are those of an expert."""
    return Flagship("negotiation", {"level": "1"}, "base", 60, "grpo", 120, 3e-4, PLAIN, learned={"skill": "0.1"}, measure="reward")


FLAGSHIPS = {made.__name__: made for made in (python_tool, search, text_to_sql, game, dialogue)}


def trained(
    taught: Recipe, one: Flagship, folder: Path, model: str, steps: int, seed: int, options: Mapping[str, str], changes: Mapping[str, Any]
) -> tuple[str, float]:
    """Trains, and returns the model's folder and the seconds."""
    begin, quiet = time.monotonic(), {"setting__eval_every": 0, "study__problems": 8}
    gradus.train(taught, task=one.task, task_options=dict(options), model=model, run=folder, steps=steps, seed=seed, **{**quiet, **changes})
    found = RunFolder.open(folder).model("final")
    if found is None:
        raise SystemExit(f"the run {folder} has no final model")
    return str(found), time.monotonic() - begin


def examined(one: Flagship, run: Path) -> Interval:
    """Returns the measure on held-out problems, with its interval. The final model of the run acts in the environment of its recipe."""
    exam = gradus.evaluate(run, one.task, task_options=dict(one.options), problems=PROBLEMS)
    found = exam.reward if one.measure == "reward" else exam.pass_at[1]
    if found is None:
        raise SystemExit(f"no held-out problem of {one.task} has a reward")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(FLAGSHIPS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    one, tell = FLAGSHIPS[options.name](), "{}: {} {:.3f} [{:.3f}, {:.3f}] after {} steps of {} in {:.0f} s".format
    acting = recipe(one.recipe)
    with tempfile.TemporaryDirectory() as folder:
        sft = {"setting__learning_rate": one.teaching, "setting__prompts": 4, "setting__group": 8}
        imitating = recipe("sft").but(environment=acting.environment)
        warm, first = trained(
            imitating, one, Path(folder) / "warm", str(tiny(one.model)), one.traces, options.seed, {**one.options, **one.learned}, sft
        )
        before = examined(one, Path(folder) / "warm")
        print(tell(options.name, one.measure, before.mean, before.low, before.high, one.traces, "sft", first), flush=True)
        changes = {"setting__prompts": one.prompts, "setting__group": one.group, "setting__learning_rate": one.rate, **one.changes}
        _, second = trained(acting, one, Path(folder) / "run", warm, one.steps, options.seed, one.options, changes)
        after = examined(one, Path(folder) / "run")
        print(tell(options.name, one.measure, after.mean, after.low, after.high, one.steps, one.recipe, second))
    held = before.mean < BELOW and after.mean > ABOVE
    print(
        f"{'reached' if held else 'not reached'}: from under {BELOW} to over {ABOVE} on {PROBLEMS} held-out problems, in {first + second:.0f} s"
    )


if __name__ == "__main__":
    main()
