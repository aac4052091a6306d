"""Wall time of a run whose rewards take a random time, by system: python -m benchmarks.asynchronous [--steps N] [--seconds S].

The reward of each group sleeps between 0 and S seconds; the length of the sleep depends on the problem alone. The systems take turns in `--rounds` rounds.
Prints the seconds of each system, the ratio to the run without a system, and the last reward.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.api import train
from gradus.recipe.registry import recipe
from gradus.rewards.verified import Verified
from gradus.types import Group, Key
from gradus.types.parts import Judgement, Signals
from gradus.types.systems import Ahead, Streaming

SYSTEMS = {
    "none": None,
    "Ahead()": Ahead(),
    "Streaming(staleness=0)": Streaming(staleness=0, workers=8),
    "Streaming(staleness=1)": Streaming(staleness=1, workers=8),
    "Streaming(staleness=2)": Streaming(staleness=2, workers=8),
}


@dataclass(frozen=True)
class Slow:
    """The reward `then`, after a sleep of up to `seconds` for each group. All groups of a call sleep at the same time."""

    seconds: float
    then: Verified = Verified()
    needs = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: object) -> list[list[Judgement]]:
        await asyncio.sleep(max(self.seconds * float(Key(0).fold(g.trajectories[0].problem.id).uniform()) for g in groups))
        return await self.then.score(groups, signals, world)  # type: ignore[arg-type]


def measured(system: Ahead | Streaming | None, steps: int, seconds: float, seed: int) -> tuple[float, float]:
    """The seconds of a run and the mean reward of its last third."""
    made = replace(recipe("grpo"), system=system, reward=Slow(seconds), study=None)
    small: dict[str, Any] = {"setting__prompts": 8, "setting__group": 8, "setting__max_tokens": 16}
    began = time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()):
        run = train(made, "arithmetic", steps=steps, seed=seed, **small)
    rewards = [row["reward"] for row in run.metrics[-max(steps // 3, 1) :]]
    return time.perf_counter() - began, statistics.mean(rewards)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SYSTEMS}
    for seed in range(options.rounds):
        for name, system in SYSTEMS.items():
            found[name].append(measured(system, options.steps, options.seconds, seed))
    base = statistics.median(seconds for seconds, _ in found["none"])
    print("| system | seconds (median) | of the run without a system | reward |\n| --- | --- | --- | --- |")
    for name, rows in found.items():
        seconds = statistics.median(s for s, _ in rows)
        print(f"| {name} | {seconds:.1f} | {seconds / base:.2f} | {statistics.mean(r for _, r in rows):.3f} |")


if __name__ == "__main__":
    main()
