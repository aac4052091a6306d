"""WSRL: the return of fine-tuning at its start, with and without the warm-up, on the pendulum with recorded transitions of a half-trained SAC.

    python -m benchmarks.wsrl                 # seeds 0 and 1; prints
    python -m benchmarks.wsrl --write         # and stores the figures beside the claim
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import gradus
from benchmarks.control import SHORT, Returns, pendulum_recipe
from gradus.comparison.claim_runs import better, record, script_result
from gradus.papers.control.wsrl import claims
from gradus.recipe.registry import recipe
from gradus.tasks.control.pendulum import pendulum
from gradus.types.moments import Steps
from gradus.types.parts import Task, Transitions

WIDTH, TURNS, OFFLINE, ONLINE, WARMUP = (64, 64), 4000, 40, 2000, 1000


def recorded(seed: int) -> Task:
    """The pendulum with every transition that SAC saw in its first `TURNS` turns: from falling about to the first good episodes."""
    run = gradus.train(pendulum_recipe().but(setting__steps=TURNS // 50), task="pendulum", seed=100 + seed)
    rows = run.memory.states["selection"]["state"]["rows"]
    before, after = ({"state": rows[name]} for name in ("before.state", "next.state"))
    ended = np.append((after["state"][:-1] != before["state"][1:]).any(1), True)
    transitions = Transitions(before, rows["action"], rows["reward"], after, rows["done"], ended)
    return replace(pendulum(), transitions=transitions, provides=frozenset({"transitions"}))


def fine_tuned(task: Task, warmup: int, seed: int) -> dict[str, Any]:
    """Mean return of pi_0 in the warm-up and of the episodes after it, and by how much mean Q of the recorded rows fell online."""
    hidden = {f"players__{name}__model__hidden": WIDTH for name in ("policy", "critic")}
    ends = {"offline": OFFLINE, "online": (warmup + ONLINE) // 50}
    until = {f"schedule__stages__{stage}__until": Steps(steps) for stage, steps in ends.items()}
    made = recipe("wsrl").but(selection__warmup=warmup, optimizer__lr=3e-4, **until, **hidden, **SHORT)
    seen, values = Returns(), []
    episodes = warmup // 200  # whole episodes of the warm-up

    def after(run: Any, row: Any, groups: Any) -> None:
        if row["stage"] == "online":
            seen(run, row, groups)
        if row["step"] in (OFFLINE - 1, sum(ends.values()) - 1):
            values.append(q_of(run, task))

    gradus.train(made, task=task, seed=seed, on_step=after)
    before = float(np.mean(seen.done[:episodes])) if episodes else None
    return {"pi_0": before, "start": float(np.mean(seen.done[episodes:])), "q_fall": values[0] - values[1]}


def q_of(run: Any, task: Task) -> float:
    """The mean over heads and recorded rows of Q of the recorded action."""
    from gradus.rollouts.recorded import trajectory_of
    from gradus.types.control import Q

    assert task.transitions is not None
    with torch.no_grad():
        found = run.players["critic"].policy.evaluate(trajectory_of(task.transitions).contexts, (Q(),))[Q()]
    return float(found.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    gaps, figures = [], []
    for seed in map(int, options.seeds.split(",")):
        task = recorded(seed)
        warm, cold = (fine_tuned(task, warmup, seed) for warmup in (WARMUP, 0))
        gaps.append(warm["start"] - cold["start"])
        figures.append({"seed": seed, "warm-up": warm, "none": cold})
        print(json.dumps(figures[-1]), flush=True)
    found = better(np.array(gaps)[:, None], np.zeros((len(gaps), 1)), claims[0].value)
    print(f"return after the warm-up minus without it: {found.figure:.0f}, interval {record(found)['interval']}")
    if options.write:
        print(script_result("wsrl", "benchmarks.wsrl", {**record(found), "figures": figures}))


if __name__ == "__main__":
    main()
