"""PromptPG against examples drawn at random: right answers of a worker on held-out tables, and the share of prompts with an example of the kind.

    python -m benchmarks.prompt_pg --worker FOLDER            # prints; makes the worker if the folder does not exist
    python -m benchmarks.prompt_pg --worker FOLDER --write    # and stores the figures beside the claim

The worker is that of `benchmarks.tables_worker`, the encoder the built-in model. Both arms see the same questions, candidates and worker; the
selector of the random arm has weights of zero, so every draw is uniform.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gradus
from benchmarks import tables_worker
from gradus.comparison.claim_runs import better, record, script_result
from gradus.papers.agents.prompt_pg import claims
from gradus.recipe.registry import recipe
from gradus.tasks.maths.tables import tables
from gradus.training.budget import budget_of
from gradus.training.world import RunWorld
from gradus.types import Key, Request

TRAINING, HELD_OUT = 160, 150
SAME_KIND, SPREAD = 0.85, 0.5  # the other two parts of the claim: a share at least, a ratio of deviations at most


def trained(worker: Path, seed: int, steps: int) -> Any:
    """A run of `steps` steps, without evaluations on the way."""
    base = recipe("prompt_pg")
    made = base.but(study=None, setting__save_every=0, players__worker=replace(base.players["worker"], model=str(worker)))
    return gradus.train(made, tables(problems=TRAINING, largest=tables_worker.LARGEST), steps=steps, seed=seed)


def held_out(run: Any, seed: int, temperature: float) -> dict[str, float]:
    """The share of right answers on held-out questions, and that of prompts with an example of the question's kind."""
    task = run.task
    world = RunWorld(
        step=run.step, purpose="held_out", seed=Key(seed), task=task, players=run.players, reward=run.recipe.reward, sampling=task.sampling, group=1
    )
    sampling = replace(task.sampling, temperature=temperature)
    problems = task.held_out.draw(range(HELD_OUT), task.level, Key(0))

    async def played() -> list[Any]:
        return await world.judge(await run.recipe.rollout.run([Request(p, sampling=sampling) for p in problems], world))

    rewards = [t.reward for group in asyncio.run(played()) for t in group.trajectories]
    return {"right": float(np.mean([r == 1.0 for r in rewards])), "same_kind": world.notes["same_kind"]}


def both(worker: Path, seed: int, steps: int) -> dict[str, Any]:
    """The figures of one seed: of uniform draws, of the trained selector's likeliest examples, and of the draws in training."""
    run = trained(worker, seed, steps)
    likeliest = held_out(run, seed, 0.0)
    with torch.no_grad():
        for weight in run.players["policy"].policy.network.parameters():
            weight.zero_()
    training = [round(float(np.mean([row["accuracy"] for row in run.metrics[i : i + 8]])), 3) for i in range(0, len(run.metrics), 8)]
    return {"seed": seed, "random": held_out(run, seed, 1.0), "likeliest": likeliest, "training, by epoch": training}


def summary(figures: Sequence[dict[str, Any]], better_by: float, same_kind: float, spread: float) -> dict[str, Any]:
    """The fields of the result. The claim has three parts: right answers, the share `same_kind` at least, the ratio `spread` at most.

    The verdict is that on right answers, but "not seen" for "seen" unless all three hold.
    """
    right = {arm: [f[arm]["right"] for f in figures] for arm in ("likeliest", "random")}
    found = better(np.array(right["likeliest"])[:, None], np.array(right["random"])[:, None], better_by)
    shares = {arm: round(float(np.mean([f[arm]["same_kind"] for f in figures])), 4) for arm in ("random", "likeliest")}
    spreads = {arm: round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else None for arm, values in right.items()}
    wide, other = spreads["likeliest"], spreads["random"]
    parts = {
        "right": found.verdict,
        "same_kind": "seen" if shares["likeliest"] >= same_kind else "not seen",
        "spread": "seen" if wide is not None and other is not None and wide <= spread * other else "not seen",
    }
    return {
        **record(found),
        "recipe": [round(v, 4) for v in right["likeliest"]],
        "against": [round(v, 4) for v in right["random"]],
        "verdict": "not seen" if found.verdict == "seen" and "not seen" in parts.values() else found.verdict,
        "parts": parts,
        "same_kind": shares,
        "spread": spreads,
        "figures": list(figures),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", type=Path, required=True, help="folder of the worker; made there if it does not exist")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    claim = claims[0]
    if not options.worker.exists():
        tables_worker.make(options.worker)
    figures = []
    for seed in range(claim.seeds):
        began = time.process_time()
        figures.append(both(options.worker.resolve(), seed, round(budget_of(str(claim.budget)).amount)))
        print(json.dumps(figures[-1]), f"({time.process_time() - began:.0f} s of processor time)", file=sys.stderr, flush=True)
    measured = summary(figures, claim.value, SAME_KIND, SPREAD)
    print(json.dumps(measured))
    if options.write:
        print(script_result("prompt_pg", "benchmarks.prompt_pg", {**measured, "needs": "--worker FOLDER"}))


if __name__ == "__main__":
    main()
