"""AWM against Flow-GRPO on flow_2d: gradient variance, steps to 90 % of the maximum, and whether both learn.

    python -m benchmarks.flow                                  # seeds 0-2, 200 steps, about three minutes on one core
    python -m benchmarks.flow --steps 100 --rates 1e-3,3e-3

Gradient variance: of the policy term alone, at the start weights, over batches of 8 problems x 8 samples; shown as noise over signal,
tr Cov(g) / |E g|^2, which does not depend on the scale of the loss. |E g|^2 is corrected for the bias by the noise. Variants of awm are
shown beside it: the surrogate log-probability and the number of pairs per sample decide the result ("plain": lp = -err, 48 pairs).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from benchmarks.learning import interval
from gradus.objectives.flow_matching import Weighted
from gradus.papers.bases.flow_grpo import flow_grpo
from gradus.papers.generation.awm import awm
from gradus.recipe.core import Recipe
from gradus.study.held_out import held_out_requests
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.training.launch import go, prepare
from gradus.training.lessons import credit
from gradus.training.run import Run
from gradus.types import Key
from gradus.types.samplers import Sde
from gradus.updates.minibatches import gradient

PROBLEMS = 256
PAIRS_48 = awm.but(**{f"objective__{term}__draws": 48 for term in ("policy", "kl", "proximal")})
RECIPES: Mapping[str, Recipe] = {
    "flow_grpo": flow_grpo,
    "awm": awm,
    "awm, plain": PAIRS_48.but(objective__policy__likeness=Weighted(0.0)),
}
VARIANTS: Mapping[str, Recipe] = {
    **RECIPES,
    "awm, lp = -err": awm.but(objective__policy__likeness=Weighted(0.0)),
    "awm, lp = -t^2 err": awm.but(objective__policy__likeness=Weighted(2.0)),
    "awm, 48 pairs": PAIRS_48,
    "awm, SDE 10 steps": awm.but(rollout__sampler=Sde(10)),
}


def gradients(recipe: Recipe, batches: int) -> np.ndarray:
    """[batches, weights] gradients of the policy term at the start weights, one per batch of fresh samples of fresh problems."""
    recipe = recipe.but(setting__prompts=8, setting__group=8, study=None, objective={"policy": recipe.objective["policy"]})
    run = prepare(recipe, flow_2d(), seed=0)
    rows = [asyncio.run(one_gradient(run, step)) for step in range(batches)]
    return torch.stack(rows).double().numpy()


async def one_gradient(run: Run, step: int) -> torch.Tensor:
    run.step = step
    recipe, world = run.at(step)
    requests = await run.memory.call("curriculum", recipe.curriculum, "choose", run.task.source, recipe.setting.prompts, world)
    groups = await run.memory.call("rollout", recipe.rollout, "run", requests, world)
    _, made = await credit(run, groups, world)
    player = run.players["policy"]
    gradient(player.policy, made["policy"], player.spec.objective, recipe.setting.micro_tokens, world.key)
    row = torch.cat([p.grad.flatten() for p in player.policy.network.parameters()])
    player.zero_grad()
    return row


def noise(rows: np.ndarray) -> tuple[float, float]:
    """(tr Cov(g) / |E g|^2, tr Cov(g)) of one batch's gradient; |E g|^2 is |mean|^2 less the variance of the mean, never below a tenth of it."""
    spread = float(rows.var(0, ddof=1).sum())
    squared = float(np.square(rows.mean(0)).sum())
    return spread / max(squared - spread / len(rows), squared / 10), spread


def rewards(run: Run) -> np.ndarray:
    """[problems] reward of one sample per problem by the sampler of evaluation, always with the same draws."""
    world = run.world(run.recipe, "benchmark")
    world.key = Key(12345)
    requests = held_out_requests(run.task.held_out, PROBLEMS, 1, run.task.level)
    return np.array([g.trajectories[0].value for g in asyncio.run(run.recipe.rollout.test.run(requests, world))])


def trained(recipe: Recipe, seed: int, steps: int, every: int) -> tuple[np.ndarray, list[tuple[int, float]]]:
    """Rewards of the held-out problems at start and end [2, problems], and the curve (steps, mean reward)."""
    recipe = recipe.but(setting__steps=steps, setting__eval_every=every, study__problems=PROBLEMS)
    run = prepare(recipe, flow_2d(), seed=seed)
    first = rewards(run)
    go(run)
    curve = [(row["step"], row["held_out/reward"]) for row in run.metrics if "held_out/reward" in row]
    return np.stack([first, rewards(run)]), curve


def reached(curve: list[tuple[int, float]], level: float) -> int | None:
    """The first measured step at which the reward is at `level` or above."""
    return next((n for n, reward in curve if reward >= level), None)


def learning(steps: int, seeds: int, rates: list[float], every: int, out: Path | None) -> None:
    results = {}
    print(f"{'recipe':<12} {'rate':>7} {'before':>7} {'after':>7} {'change':>7}   99 % interval      seconds")
    for rate in rates:
        for name, recipe in RECIPES.items():
            began = time.perf_counter()
            runs = [trained(recipe.but(setting__learning_rate=rate), seed, steps, every) for seed in range(seeds)]
            ends = np.stack([e for e, _ in runs])
            low, high = interval(ends[:, 1] - ends[:, 0])
            results[(rate, name)] = [c for _, c in runs]
            before, after = ends.mean((0, 2))
            seconds = time.perf_counter() - began
            print(
                f"{name:<12} {rate:7.0e} {before:7.3f} {after:7.3f} {after - before:+7.3f}   [{low:+.3f}, {high:+.3f}]   {seconds:7.0f}",
                flush=True,
            )
            if out:
                row = {"recipe": name, "rate": rate, "steps": steps, "interval": [low, high], "curves": results[(rate, name)]}
                with open(out, "a") as file:
                    file.write(json.dumps(row) + "\n")
    print("\nsteps to 90 % of the maximum, by seed: the recipe's own maximum, and the larger of the two")
    for rate in rates:
        tops = {name: [max(r for _, r in c) for c in results[(rate, name)]] for name in RECIPES}
        for name in RECIPES:
            curves = results[(rate, name)]
            own = [reached(c, 0.9 * top) for c, top in zip(curves, tops[name], strict=True)]
            both = [reached(c, 0.9 * max(top)) for c, top in zip(curves, zip(*tops.values(), strict=True), strict=True)]
            print(f"{name:<12} {rate:7.0e}  own {own}  larger {both}  maximum {[round(t, 3) for t in tops[name]]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rates", default="1e-3", help="learning rates, each shared by both recipes")
    parser.add_argument("--every", type=int, default=5, help="steps between measurements")
    parser.add_argument("--batches", type=int, default=200, help="of the gradient's variance")
    parser.add_argument("--out", type=Path, default=None, help="append curves as JSON lines")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'gradient of':<20} {'noise/signal':>12} {'tr Cov':>10}")
    for name, recipe in VARIANTS.items():
        ratio, spread = noise(gradients(recipe, asked.batches))
        print(f"{name:<20} {ratio:12.2f} {spread:10.3g}", flush=True)
    print()
    learning(asked.steps, asked.seeds, [float(r) for r in asked.rates.split(",")], asked.every, asked.out)


if __name__ == "__main__":
    main()
