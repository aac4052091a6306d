"""The gain of RL from two starts: fine-tuned on long traces (`long_cot_collection`), and on as many short ones. Both accuracies of each start are kept.

    python -m benchmarks.cold_starts            # prints
    python -m benchmarks.cold_starts --write    # and stores the figures beside the claim
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
from gradus.lab.folder import RunFolder
from gradus.papers.bases.sft import sft
from gradus.papers.guidance.long_cot_collection import claims, collecting
from gradus.recipe.overrides import override_all

COLD = 30  # steps of SFT, each with 32 traces
STARTS = {"long": collecting, "short": sft}


def model(recipe: Any, seed: int, folder: Path) -> str:
    """The folder of a start model."""
    claim = claims[-1]
    gradus.train(
        recipe, task=claim.task, task_options=dict(claim.options), steps=COLD, seed=seed, run=folder, setting__learning_rate=1e-3, setting__prompts=4,
        setting__group=8, setting__warmup=0, setting__eval_every=0, study=None,
    )  # fmt: skip
    found = RunFolder.open(folder).model("final")
    if found is None:
        raise SystemExit(f"the run {folder} has no final model")
    return str(Path(found).resolve())


def accuracies(start: str, seed: int) -> tuple[float, float]:
    """Held-out accuracy before and after GRPO from a start model."""
    claim = claims[-1]
    recipe = override_all(gradus.load_recipe("grpo"), list(claim.fields.items()))
    run = gradus.train(recipe, task=claim.task, task_options=dict(claim.options), budget=claim.budget, seed=seed, model=start)
    found = [float(row["held_out/accuracy"]) for row in run.metrics if row.get("held_out/accuracy") is not None]
    return found[0], found[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    claim = claims[-1]
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    with tempfile.TemporaryDirectory() as home:
        for seed in range(claim.seeds):
            for name, recipe in STARTS.items():
                rows[name].append(accuracies(model(recipe, seed, Path(home) / f"{name}-{seed}"), seed))
                print(seed, name, *(f"{value:.3f}" for value in rows[name][-1]), flush=True)
    gains = {name: np.array([[after - before] for before, after in found]) for name, found in rows.items()}
    told = {
        **record(better(gains["long"], gains["short"], claim.value)),
        "recipe": [float(f"{gain:.5g}") for gain in gains["long"][:, 0]],
        "against": [float(f"{gain:.5g}") for gain in gains["short"][:, 0]],
        "accuracies": {name: [[float(f"{value:.5g}") for value in pair] for pair in found] for name, found in rows.items()},
    }
    print(json.dumps(told))
    if options.write:
        print(script_result("long_cot_collection", "benchmarks.cold_starts", told))


if __name__ == "__main__":
    main()
