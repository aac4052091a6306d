"""RAST: two sizes of one model, GRPO on both, and the large model decoded with the difference of the small ones.

    python -m benchmarks.transferred all             # prints the figures of all claims
    python -m benchmarks.transferred all --write     # and stores them beside the claims

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

LARGE, LAYERS, WARM, STEPS, PROBLEMS = Path("gradus/policies/tiny/base"), 2, 40, 40, 100
SAMPLES, NAMES = 16, ("accuracy", "recovery", "pass")
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


def rights(key: str, model: str, **players: str) -> np.ndarray:
    """Returns the number of right answers of each held-out problem, [problems]."""
    made = recipe(key).but(**{f"players__{name}__model": folder for name, folder in players.items()})
    run = gradus.train(made, **TASK, **SMALL, model=model, setting__steps=0)
    world = run.world(run.recipe, "evaluate", run.recipe.reward)
    groups = asyncio.run(solved(run, world, held_out_requests(run.task.held_out, PROBLEMS, SAMPLES, run.task.level)))
    return np.array([sum(t.right for t in g.trajectories) for g in groups])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claim", choices=(*NAMES, "all"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: list[dict[str, np.ndarray]] = []
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        small = trained("sft", shallow(home / "shallow"), home / "small", WARM, 2e-3, 0)
        for seed in map(int, options.seeds.split(",")):
            tuned = trained("grpo", small, home / f"tuned{seed}", STEPS, 3e-4, seed)
            large = trained("grpo", str(LARGE), home / f"large{seed}", STEPS, 3e-4, seed)
            plain = {"base": str(LARGE), "small": small, "tuned": tuned, "large": large}
            counts.append({n: rights("grpo", model) for n, model in plain.items()})
            counts[-1]["rast"] = rights("rast", str(LARGE), small=small, tuned=tuned)
            print(json.dumps({"seed": seed, **{n: round(float(row.mean()) / SAMPLES, 4) for n, row in counts[-1].items()}}), flush=True)
    for name in NAMES if options.claim == "all" else (options.claim,):
        program = f"benchmarks.transferred {name}"
        claim = next(of.claim for of in known(["rast"]) if of.claim.script == program)
        shares = [{n: row > 0 if name == "pass" else row / SAMPLES for n, row in found.items()} for found in counts]
        other = {"accuracy": lambda s: s["base"], "recovery": lambda s: (s["base"] + s["large"]) / 2, "pass": lambda s: s["large"]}[name]
        ours, theirs = (np.array(rows, np.float64) for rows in ([s["rast"] for s in shares], [other(s) for s in shares]))
        found = record(judged(claim, ours, theirs))
        print(name, json.dumps(found))
        if options.write:
            figures = [{n: round(float(row.mean()), 4) for n, row in s.items()} for s in shares]
            print(script_result("rast", program, {**found, "figures": figures}))


if __name__ == "__main__":
    main()
