"""CodeBoost: the accuracy of predicted outputs after GRPO on curated programs, from one model that saw some worked outputs.

    python -m benchmarks.codeboost                 # seeds 0, 1 and 2; prints
    python -m benchmarks.codeboost --write         # and stores the figures beside the claim
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gradus
from gradus.comparison.claim_runs import better, record, script_result
from gradus.papers.data.codeboost import claims
from gradus.recipe.registry import recipe

WARM, STEPS, CLAIM = 25, 20, claims[1]
SMALL: dict[str, Any] = {
    "setting__prompts": 16, "setting__group": 8, "setting__warmup": 0, "setting__eval_every": 0, "study__problems": 96, "study__greedy": False,
}  # fmt: skip
OUTPUTS: dict[str, Any] = {"task": "code_output", "task_options": {"level": "1", "backward": "0"}}


def accuracies(run: Any) -> list[float]:
    """The held-out accuracies of a run, the first one before training."""
    return [row["held_out/accuracy"] for row in run.metrics if "held_out/accuracy" in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warm = gradus.train(recipe("sft"), **OUTPUTS, **SMALL, model="gradus/policies/tiny/base", setting__steps=WARM, setting__learning_rate=1e-3)
    gains, figures = [], []
    with tempfile.TemporaryDirectory() as folder:
        warm.players["policy"].policy.save(Path(folder))
        for seed in map(int, options.seeds.split(",")):
            made = recipe("codeboost").but(curriculum__pool=96)
            run = gradus.train(made, **OUTPUTS, **SMALL, model=folder, seed=seed, setting__steps=STEPS, setting__learning_rate=3e-4)
            first, *_, last = accuracies(run)
            gains.append(last - first)
            figures.append({"seed": seed, "start": first, "end": last, "curated": run.metrics[0]["curated"]})
            print(json.dumps(figures[-1]), flush=True)
    found = better(np.array(gains)[:, None], np.zeros((len(gains), 1)), CLAIM.value)
    print(f"gain of held-out accuracy: {found.figure:.3f}, interval {record(found)['interval']}")
    if options.write:
        print(script_result("codeboost", "benchmarks.codeboost", {**record(found), "figures": figures}))


if __name__ == "__main__":
    main()
