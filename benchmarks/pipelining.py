"""RLinf-VLA: the time of a rollout in two sub-batches (hybrid), as a share of the time in one (collocated), with equal delays of policy and simulator.

    python -m benchmarks.pipelining                # prints
    python -m benchmarks.pipelining --write        # and stores the figures beside the claim

The delays stand for the work of two devices: the policy blocks for MILLISECONDS per episode of a call, and the simulator sleeps as long. The two rollouts
take turns in `--rounds` rounds. Their trajectories are compared token by token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradus.api import start
from gradus.comparison.claim_runs import judged, record, script_result
from gradus.papers.systems.rlinf_vla import claims
from gradus.rollouts.lanes import Lanes
from gradus.rollouts.pipelined import Pipelined
from gradus.tasks.control.reacher import Reacher, reacher
from gradus.training.memory import Memory
from gradus.training.plan import plan
from gradus.types import Context, Group, Request
from gradus.types.parts import Turn

EPISODES, TURNS, MILLISECONDS = 16, 12, 20.0


@dataclass(frozen=True)
class Slow(Reacher):
    """The arm in a simulator that needs `seconds` per episode of a call, in another place than this thread."""

    seconds: float = 0.0

    async def step_many(self, episodes: Sequence[Any], actions: Sequence[Any]) -> list[Turn]:
        await asyncio.sleep(self.seconds * len(episodes))
        return [await episode.step(action) for episode, action in zip(episodes, actions, strict=True)]


def slowed(policy: Any, seconds: float) -> Any:
    """The policy, whose every call blocks for `seconds` per episode."""
    act = policy.act

    def late(asked: Sequence[Any]) -> list[Context]:
        time.sleep(seconds * len(asked))
        found: list[Context] = act(asked)
        return found

    policy.act = late
    return policy


def measured(parts: int, seed: int, seconds: float) -> tuple[float, list[Any]]:
    """The seconds of one rollout, and the tokens and the return of every trajectory."""
    task = replace(reacher(), environment=Slow(seconds=seconds))
    run = start(plan("rlinf_vla", "reacher", seed=seed), task=task)
    slowed(run.players["policy"].policy, seconds)
    world = run.world(run.recipe, "train")
    requests = [Request(p, count=1) for p in task.source.draw(list(range(EPISODES)), None, world.key)]
    began = time.perf_counter()
    groups: list[Group] = asyncio.run(Memory().call("rollout", Pipelined(Lanes(TURNS), parts), "run", requests, world))
    took = time.perf_counter() - began
    return took, [(t.id, t.value, [c.tokens.tolist() for c in t.contexts]) for g in groups for t in g.trajectories]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--milliseconds", type=float, default=MILLISECONDS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    times: list[tuple[float, float]] = []
    for seed in range(options.rounds):
        (hybrid, one), (collocated, other) = (measured(parts, seed, options.milliseconds / 1000) for parts in (2, 1))
        if one != other:
            raise SystemExit(f"seed {seed}: the trajectories of the two placements differ")
        times.append((hybrid, collocated))
        print(json.dumps({"seed": seed, "hybrid": round(hybrid, 3), "collocated": round(collocated, 3)}), flush=True)
    rows = np.array(times)
    claim = next(c for c in claims if c.script is not None)
    found = judged(claim, rows[:, :1], rows[:, 1:])
    print(f"hybrid / collocated: {found.figure:.3f}, interval {record(found)['interval']}; equal trajectories")
    if options.write:
        figures = {"recipe": rows[:, 0].round(3).tolist(), "against": rows[:, 1].round(3).tolist()}
        print(script_result("rlinf_vla", "benchmarks.pipelining", {**record(found), **figures}))


if __name__ == "__main__":
    main()
