"""Many conversations with slow tools at a time: the wall time against its lower bounds, and against a loop that waits for all conversations at each turn.

    python -m benchmarks.conversations [--conversations 256] [--seconds 2]

Each action of the built-in model calls a tool that sleeps. Two laws of the sleeps are measured: uniform (8 turns; between 0 and `seconds`), and rare (24 turns;
one call in 24 sleeps for `seconds`, the others return at once). "No sleep" is the time of the same turns without sleep, "chain" is the longest sum of the sleeps
of a conversation. No scheduler can be faster than the larger of the two. "Together" is a loop in which the next turn begins if all tools have returned; its
time is the time without sleep, and the sum over the turns of the longest sleep. The actions of all ways are compared token by token.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.api import start
from gradus.environments.tools import Tools
from gradus.rollouts.episodes import Episodes
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tools.forms import Call, LineCalls, Said
from gradus.tools.tool import Result, Tool
from gradus.training.memory import Memory
from gradus.training.plan import plan
from gradus.types import Frozen, Group, Key, Problem, Request, Sampling
from gradus.types.parts import World
from gradus.types.spaces import Observation

Law = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class AlwaysCalls(LineCalls):
    """Every action is a call, and no result is shown."""

    def read(self, action: str, tools: Sequence[Tool]) -> Said:
        return (Call(tools[0].name, {"text": action}),)

    def told(self, results: Sequence[Result]) -> Observation:
        return "+"


@dataclass(frozen=True)
class Sleeps:
    """A tool that sleeps for the next time of its conversation."""

    times: Mapping[str, tuple[float, ...]]  # by problem
    name: str = "sleeps"
    about: ClassVar[str] = "Sleeps."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(type="object", properties={"text": {"type": "string"}}, required=["text"])
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = False

    def open(self, problem: Problem, key: Key, world: World | None) -> Sleeping:
        return Sleeping(list(self.times[problem.id]))


@dataclass
class Sleeping:
    """A conversation's sleeps that are left."""

    left: list[float]

    async def call(self, text: str) -> str:
        await asyncio.sleep(self.left.pop(0))
        return "done"


def uniform(rng: np.random.Generator, turns: int) -> np.ndarray:
    return rng.uniform(0, 1, turns)


def rare(rng: np.random.Generator, turns: int) -> np.ndarray:
    return (rng.uniform(0, 1, turns) < 1 / turns).astype(float)


def played(turns: int, times: np.ndarray) -> tuple[float, list[Any]]:
    """Returns the seconds of a rollout, and the tokens of its conversations."""
    problems = [Problem(str(i), f"{i}+{i}", answer=str(2 * i)) for i in range(len(times))]
    tool = Sleeps(Frozen({p.id: tuple(map(float, row)) for p, row in zip(problems, times, strict=True)}))
    task = replace(arithmetic(), environment=Tools([tool], form=AlwaysCalls(), limit=turns, describes=False), sampling=Sampling(max_tokens=4))
    run = start(plan("grpo", "arithmetic"), task=task)
    world = run.world(run.recipe, "train")
    requests = [Request(p, count=1) for p in problems]
    begun = time.perf_counter()
    groups: list[Group] = asyncio.run(Memory().call("rollout", Episodes(max_turns=turns), "run", requests, world))
    seconds = time.perf_counter() - begun
    return seconds, [t.contexts[-1].tokens.tolist() for g in groups for t in g.trajectories]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=2.0, help="the longest sleep")
    options = parser.parse_args()
    print("law      turns  no sleep   chain  measured  together   measured / bound  measured / together")
    laws: Mapping[str, tuple[Law, int]] = {"uniform": (uniform, 8), "rare": (rare, 24)}
    for name, (law, turns) in laws.items():
        rng = np.random.default_rng(0)
        times = options.seconds * np.stack([law(rng, turns) for _ in range(options.conversations)])
        played(turns, 0 * times[:8])
        quick, expected = played(turns, 0 * times)
        seconds, found = played(turns, times)
        if found != expected:
            raise SystemExit(f"{name}: the conversations with and without sleep differ")
        chain, together = times.sum(1).max(), quick + times.max(0).sum()
        bound = max(quick, chain)
        print(f"{name:8} {turns:5} {quick:8.2f}s {chain:6.2f}s {seconds:8.2f}s {together:8.2f}s {seconds / bound:17.2f} {seconds / together:20.2f}", flush=True)


if __name__ == "__main__":
    main()
