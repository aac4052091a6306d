"""WebThinker: accuracy, and tool calls on solved questions, before and after two rounds of on-line DPO.

    python -m benchmarks.webthinker                     # prints
    python -m benchmarks.webthinker --write             # and stores the figures beside the claim
    python -m benchmarks.webthinker --warm DIR          # takes the model of this folder as the start

The start is the built-in model after supervised fine-tuning on demonstrations; half of them ask the explorer for all hops at once, half hop by
hop. It is scored on held-out questions, several samples each, before and after the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gradus
from gradus.api import start
from gradus.comparison.claim_runs import better, record, script_result
from gradus.lab.folder import RunFolder
from gradus.papers.agents.webthinker import claims
from gradus.recipe.claim import Claim
from gradus.recipe.overrides import override_all
from gradus.study.held_out import held_out_requests
from gradus.training.launch import go
from gradus.training.plan import plan
from gradus.types import without_aside

TASK = {"people": "40", "level": "2"}
WARM, PROBLEMS, SAMPLES = 200, 24, 4  # steps of fine-tuning; held-out questions and samples of each


def warm(folder: Path) -> str:
    """The folder of the start model."""
    gradus.train(
        "sft",
        task="research",
        task_options=TASK,
        steps=WARM,
        run=folder,
        setting__learning_rate=1.5e-3,
        setting__prompts=2,
        setting__eval_every=0,
        study__problems=16,
    )
    return final(folder)


def scored(model: str, seed: int) -> dict[str, float]:
    """Accuracy on the held-out questions, and the mean number of tool calls of the solved ones (one less than their turns)."""
    run = start(plan("webthinker", "research", model=model, seed=seed, task_options=TASK))
    world = run.world(run.recipe, "evaluate", run.recipe.reward)
    asked = held_out_requests(run.task.held_out, PROBLEMS, SAMPLES, run.task.level)
    groups = without_aside(asyncio.run(run.memory.answer(run.recipe, asked, world)))
    episodes = [t for group in groups for t in group.trajectories]
    solved = [t.links["turns"] - 1 for t in episodes if t.right]
    return {"accuracy": len(solved) / len(episodes), "calls": float(np.mean(solved)) if solved else float("nan"), "solved": len(solved)}


def measured(claim: Claim, model: str, seed: int, folder: Path) -> dict[str, Any]:
    """The scores before and after the rounds."""
    before = scored(model, seed)
    planned = plan("webthinker", "research", model=model, budget=claim.budget, seed=seed, task_options=TASK)
    go(start(replace(planned, recipe=override_all(planned.recipe, list(claim.fields.items()))), folder))
    after = scored(final(folder), seed)
    return {"seed": seed, "start": before, "end": after, "fall": 1 - after["calls"] / before["calls"]}


def final(folder: Path) -> str:
    """The folder of a run's final model."""
    model = RunFolder.open(folder).model("final")
    if model is None:
        raise SystemExit(f"the run {folder} has no final model")
    return str(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warm", help="folder of the start model; without one it is trained first")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    claim = claims[0]
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        model = options.warm or warm(Path(folder) / "warm")
        for seed in range(claim.seeds):
            figures.append(measured(claim, model, seed, Path(folder) / str(seed)))
            print(json.dumps(figures[-1]), flush=True)
    falls = np.array([[f["fall"]] for f in figures])
    found = better(falls, np.zeros_like(falls), claim.value)
    gains = float(np.mean([f["end"]["accuracy"] - f["start"]["accuracy"] for f in figures]))
    told = {**record(found), "accuracy": gains, "figures": figures}
    if found.verdict == "seen" and gains < 0:  # the claim has two parts
        told["verdict"] = "not seen"
    print(f"calls on solved questions fall by {found.figure:.0%}, interval {told['interval']}; accuracy {gains:+.3f}")
    if options.write:
        print(script_result("webthinker", "benchmarks.webthinker", told))


if __name__ == "__main__":
    main()
