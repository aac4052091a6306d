"""RAST: two sizes of one model, GRPO on both, and the large model decoded with the difference of the small ones.

    python -m benchmarks.transferred accuracy             # prints the figures of the claim
    python -m benchmarks.transferred recovery --write     # and stores them beside the claim
    python -m benchmarks.transferred pass --write

The large model is the built-in one, with four layers. The small model has its first two layers, and is fine-tuned on worked solutions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import gradus
from gradus.comparison.claim_runs import judged, record, script_result
from gradus.comparison.claims import known
from gradus.recipe.registry import recipe
from gradus.study.evaluate import solved
from gradus.study.held_out import held_out_requests
from gradus.study.passk import pass_at_k

LARGE, LAYERS, WARM, STEPS, PROBLEMS = Path("gradus/policies/tiny/base"), 2, 150, 30, 100
TASK: dict[str, Any] = {"task": "arithmetic", "task_options": {"level": "3"}}
SMALL: dict[str, Any] = {
    "setting__prompts": 8, "setting__group": 8, "setting__warmup": 0, "setting__eval_every": 0, "study": None,
}  # fmt: skip


def shallow(folder: Path) -> str:
    """Writes the large model with its first layers only."""
    folder.mkdir()
    for path in LARGE.iterdir():
        shutil.copy(path, folder)
    dropped = tuple(f"model.layers.{i}." for i in range(LAYERS, 99))
    save_file({n: t for n, t in load_file(LARGE / "model.safetensors").items() if not n.startswith(dropped)}, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((LARGE / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": LAYERS}))
    return str(folder)


def trained(key: str, model: str, folder: Path, steps: int, rate: float, seed: int) -> str:
    """Returns the folder of the policy after a run."""
    run = gradus.train(recipe(key), **TASK, **SMALL, model=model, seed=seed, setting__steps=steps, setting__learning_rate=rate)
    run.players["policy"].policy.save(folder)
    return str(folder)


def rights(key: str, model: str, samples: int, **players: str) -> np.ndarray:
    """Returns the number of right answers of each held-out problem, [problems]."""
    made = recipe(key).but(**{f"players__{name}__model": folder for name, folder in players.items()})
    run = gradus.train(made, **TASK, **SMALL, model=model, setting__steps=0)
    world = run.world(run.recipe, "evaluate", run.recipe.reward)
    groups = asyncio.run(solved(run, world, held_out_requests(run.task.held_out, PROBLEMS, samples, run.task.level)))
    return np.array([sum(t.right for t in g.trajectories) for g in groups])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claim", choices=("accuracy", "recovery", "pass"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    program = f"benchmarks.transferred {options.claim}"
    claim = next(of.claim for of in known(["rast"]) if of.claim.script == program)
    samples = 16 if options.claim == "pass" else 4
    ours, theirs, figures = [], [], []
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        small = trained("sft", shallow(home / "shallow"), home / "small", WARM, 2e-3, 0)
        for seed in map(int, options.seeds.split(",")):
            tuned = trained("grpo", small, home / f"tuned{seed}", STEPS, 3e-4, seed)
            counts = {"base": rights("grpo", str(LARGE), samples), "rast": rights("rast", str(LARGE), samples, small=small, tuned=tuned)}
            counts |= {"small": rights("grpo", small, samples), "tuned": rights("grpo", tuned, samples)}
            if options.claim != "accuracy":
                counts["large"] = rights("grpo", trained("grpo", str(LARGE), home / f"large{seed}", STEPS, 3e-4, seed), samples)
            shares = {n: [pass_at_k(samples, int(c), samples) if samples == 16 else c / samples for c in row] for n, row in counts.items()}
            figures.append({"seed": seed, **{n: round(float(np.mean(row)), 4) for n, row in shares.items()}})
            print(json.dumps(figures[-1]), flush=True)
            half = [(a + b) / 2 for a, b in zip(shares["base"], shares.get("large", shares["base"]), strict=True)]
            ours.append(shares["rast"])
            theirs.append({"accuracy": shares["base"], "recovery": half, "pass": shares.get("large")}[options.claim])
    found = judged(claim, np.array(ours), np.array(theirs))
    print(json.dumps(record(found)))
    if options.write:
        print(script_result("rast", program, {**record(found), "figures": figures}))


if __name__ == "__main__":
    main()
