"""AsyncFlow: the time of a run with S = 1 and micro-batches, as a share of the time with S = 0 and whole rollouts.

    python -m benchmarks.asyncflow                # prints
    python -m benchmarks.asyncflow --write        # and stores the figures next to the claim

The delays stand for separate devices: the reward of a call sleeps for SECONDS, and every update sleeps for SECONDS. The two runs take turns in `--rounds` rounds.
The first step of a run, which loads and compiles, does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradus.api import train
from gradus.comparison.claim_runs import judged, record, script_result
from gradus.papers.systems.asyncflow import asyncflow, claims
from gradus.recipe.core import Recipe
from gradus.rewards.verified import Verified
from gradus.rollouts.single_turn import SingleTurn
from gradus.training import loop
from gradus.types import Group
from gradus.types.parts import Judgement, Signals

SECONDS, STEPS = 1.0, 10


@dataclass(frozen=True)
class Late:
    """The reward `then`, after a sleep. The sleep of a call does not depend on its number of groups."""

    then: Verified = Verified()
    needs = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: object) -> list[list[Judgement]]:
        await asyncio.sleep(SECONDS)
        return await self.then.score(groups, signals, world)  # type: ignore[arg-type]


def measured(recipe: Recipe, seed: int) -> float:
    """The seconds of a run from the end of its first step."""
    ends: list[float] = []
    small: dict[str, Any] = {"setting__prompts": 8, "setting__group": 8, "setting__max_tokens": 16}
    with contextlib.redirect_stderr(io.StringIO()):
        made = replace(recipe, reward=Late(), study=None)
        train(made, "arithmetic", steps=STEPS, seed=seed, on_step=lambda *_: ends.append(time.perf_counter()), **small)
    return ends[-1] - ends[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    update = loop.updated

    def late(*given: Any) -> dict[str, float]:
        time.sleep(SECONDS)
        return update(*given)

    loop.updated = late
    plain = replace(asyncflow, system=None, rollout=SingleTurn())
    rows = []
    for seed in range(options.rounds):
        rows.append([measured(asyncflow, seed), measured(plain, seed)])
        print(json.dumps({"seed": seed, "S = 1": round(rows[-1][0], 2), "S = 0": round(rows[-1][1], 2)}), flush=True)
    times = np.array(rows)
    found = judged(next(c for c in claims if c.script is not None), times[:, :1], times[:, 1:])
    print(f"S = 1 / S = 0: {found.figure:.3f}, interval {record(found)['interval']}")
    if options.write:
        figures = {"recipe": times[:, 0].round(2).tolist(), "against": times[:, 1].round(2).tolist()}
        print(script_result("asyncflow", "benchmarks.asyncflow", {**record(found), **figures}))


if __name__ == "__main__":
    main()
