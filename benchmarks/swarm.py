"""Echo: seconds and reward of the push-pull mode and of the pull mode, with workers of delays 1, 2 and 4.

    python -m benchmarks.swarm              # prints
    python -m benchmarks.swarm --write      # and stores the figures beside the two claims

Sleeps stand for the machines: the reward of a group sleeps 0.3, 0.6 or 1.2 seconds, by the worker that sampled it, and each update sleeps 1.2 seconds, in
place of the training on another machine. The two modes take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import gradus
from gradus.comparison.claim_runs import judged, record, script_result
from gradus.papers.systems.echo_swarms import claims, echo_swarms
from gradus.recipe.overrides import override_all
from gradus.rewards.verified import Verified
from gradus.runtime.activity import worker_here
from gradus.types import Group
from gradus.types.parts import Judgement, Signals
from gradus.updates.minibatches import Minibatches

DELAYS = {"worker-0": 0.3, "worker-1": 0.6, "worker-2": 1.2}
UPDATE = 1.2
BOTH = [next(claim for claim in claims if claim.script == f"benchmarks.swarm {part}") for part in ("seconds", "reward")]
SHARES: Counter[str] = Counter()


@dataclass(frozen=True)
class SlowMachines:
    """The reward `then`, after the delay of the worker that sampled the groups."""

    then: Verified = Verified()
    needs = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: object) -> list[list[Judgement]]:
        worker = worker_here() or ""
        SHARES[worker] += len(groups)
        await asyncio.sleep(DELAYS.get(worker, 0.0))
        return await self.then.score(groups, signals, world)  # type: ignore[arg-type]


@dataclass(frozen=True)
class SlowUpdate:
    """The update `then`, after a sleep."""

    then: Minibatches = Minibatches()

    def apply(self, players: Any, batches: Any, step: int, key: Any) -> Any:
        time.sleep(UPDATE)
        return self.then.apply(players, batches, step, key)


def measured(staleness: int, seed: int) -> dict[str, Any]:
    """The seconds of a run, the mean reward of its last five steps, the groups of each worker, and the largest mean age of a step's groups."""
    claim = BOTH[0]
    own = [(name if name == "study" else f"setting.{name}", value) for name, value in claim.fields.items()]
    made = override_all(echo_swarms, own).but(reward=SlowMachines(), update=SlowUpdate(), system__staleness=staleness)
    SHARES.clear()
    began = time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()):
        steps = int(str(claim.budget).removeprefix("steps="))
        run = gradus.train(made, claim.task, task_options=dict(claim.options), steps=steps, seed=seed)
    seconds = time.perf_counter() - began
    reward = float(np.mean([row["reward"] for row in run.metrics[-5:]]))
    return {"seconds": seconds, "reward": reward, "shares": dict(sorted(SHARES.items())), "age": max(row["staleness"] for row in run.metrics)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["seconds", "reward"], help="the claim to store; without it both")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: list[dict[str, Any]] = []
    for seed in range(BOTH[0].seeds):
        found.append({"seed": seed, "push-pull": measured(2, seed), "pull": measured(0, seed)})
        print(json.dumps(found[-1]), flush=True)
    for claim in BOTH:
        part = str(claim.script).rpartition(" ")[2]
        one, other = ([float(f[mode][part]) for f in found] for mode in ("push-pull", "pull"))
        told = {**record(judged(claim, np.array(one)[:, None], np.array(other)[:, None])), "recipe": one, "against": other, "figures": found}
        print(claim.says, told["verdict"], told["figure"], told["interval"])
        if options.write and options.part in (None, part):
            print(script_result("echo_swarms", str(claim.script), told))


if __name__ == "__main__":
    main()
