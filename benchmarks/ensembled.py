"""RLAE: two models, each fine-tuned on one kind of sums, and a controller that learns to mix them for each span.

    python -m benchmarks.ensembled all             # prints the figures of all claims
    python -m benchmarks.ensembled all --write     # and stores them beside the claims

One model learns sums, the other products. The test problems are of both kinds. All arms write at most `SPAN` tokens per span, greedily.
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
from gradus.comparison.claim_runs import judged, record, script_result
from gradus.comparison.claims import known
from gradus.papers.search.rlae import SpanMixture, softmax
from gradus.recipe.registry import recipe
from gradus.study.evaluate import solved
from gradus.study.held_out import held_out_requests
from gradus.types import Key

KINDS, WARM, STEPS, PROBLEMS, SPAN = {"one": "+", "two": "*"}, 40, 80, 100, 5
NAMES = ("uniform", "single", "specialist")
SMALL: dict[str, Any] = {"setting__warmup": 0, "setting__eval_every": 0, "study": None}
SIDE = 4.0  # the score that gives one model the weight 0.9997


def options(operations: str) -> dict[str, Any]:
    """Returns the task of one kind of problems, or of both."""
    return {"task": "arithmetic", "task_options": {"level": "2", "operations": operations}}


def specialist(operations: str, folder: Path) -> str:
    """Returns the folder of a model that was fine-tuned on worked solutions of one kind."""
    fields = {"setting__prompts": 4, "setting__group": 8, "setting__steps": WARM, "setting__learning_rate": 2e-3}
    gradus.train(recipe("sft"), **options(operations), **SMALL, **fields, seed=0).players["policy"].policy.save(folder)
    return str(folder)


def controlled(models: dict[str, str], seed: int, steps: int) -> Any:
    """Returns a run of the controller."""
    made = recipe("rlae").but(**{f"players__{name}__model": folder for name, folder in models.items()}, environment=SpanMixture(span=SPAN))
    fields = {"setting__prompts": 16, "setting__group": 4, "setting__steps": steps, "setting__learning_rate": 3e-3}
    return gradus.train(made, **options("".join(KINDS.values())), **SMALL, **fields, seed=seed)


def fixed(run: Any, scores: tuple[float, float]) -> np.ndarray:
    """Returns whether the mixture with constant scores is right, [problems]."""
    world = run.world(run.recipe, "evaluate", run.recipe.reward)
    environment: SpanMixture = run.recipe.environment

    async def one(problem: Any) -> float:
        episode = await environment.start(problem, Key(), world)
        turn = episode.first
        while not turn.terminated:
            turn = await episode.step(np.array(scores))
        return float(turn.reward)

    async def every() -> list[float]:
        asked = held_out_requests(run.task.held_out, PROBLEMS, 1, run.task.level)
        return list(await asyncio.gather(*(one(r.problem) for r in asked)))

    return np.array(asyncio.run(every()))


def learned(run: Any) -> tuple[np.ndarray, float]:
    """Returns whether the mixture of the controller is right, [problems], and the smaller of the mean weights of the right specialist on its own kind."""
    world = run.world(run.recipe, "evaluate", run.recipe.reward)
    asked = held_out_requests(run.task.held_out, PROBLEMS, 1, run.task.level)
    greedy = replace(world.sampling, temperature=0.0)  # the mean scores
    groups = asyncio.run(solved(run, world, [replace(r, sampling=greedy) for r in asked]))
    weights: dict[str, list[float]] = {kind: [] for kind in KINDS.values()}
    for t in (t for g in groups for t in g.trajectories):
        kind = t.problem.meta["category"]
        weights[kind] += [float(softmax(row)[list(KINDS.values()).index(kind)]) for c in t.contexts for row in c.streams["action"]]
    return np.array([float(g.trajectories[0].right) for g in groups]), min(float(np.mean(rows)) for rows in weights.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claim", choices=(*NAMES, "all"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        models = {member: specialist(kind, Path(name) / member) for member, kind in KINDS.items()}
        start = controlled(models, 0, 0)
        plain = {"uniform": fixed(start, (0.0, 0.0)), "one": fixed(start, (SIDE, -SIDE)), "two": fixed(start, (-SIDE, SIDE))}
        for seed in map(int, given.seeds.split(",")):
            right, weight = learned(controlled(models, seed, STEPS))
            found.append({**plain, "rlae": right, "weight": weight})
            print(json.dumps({"seed": seed, **{n: round(float(np.mean(row)), 4) for n, row in found[-1].items()}}), flush=True)
    best = max(("one", "two"), key=lambda n: plain[n].mean())
    for name in NAMES if given.claim == "all" else (given.claim,):
        program = f"benchmarks.ensembled {name}"
        claim = next(of.claim for of in known(["rlae"]) if of.claim.script == program)
        if name == "specialist":
            ours, theirs = np.array([[f["weight"]] for f in found]), np.full((len(found), 1), 0.5)
        else:
            ours, theirs = np.array([f["rlae"] for f in found]), np.array([f["uniform" if name == "uniform" else best] for f in found])
        verdict = record(judged(claim, ours, theirs))
        print(name, json.dumps(verdict))
        if given.write:
            figures = [{n: round(float(np.mean(row)), 4) for n, row in f.items()} for f in found]
            print(script_result("rlae", program, {**verdict, "figures": figures}))


if __name__ == "__main__":
    main()
