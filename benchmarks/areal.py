"""AReaL: the time of 20 steps with and without workers that stream, on a clock that counts decoding steps.

    python -m benchmarks.areal            # seeds 0, 1 and 2; prints
    python -m benchmarks.areal --write    # and stores the figures beside the claim

The lengths of the answers are those of a synchronous run with a low learning rate. A group takes as many decoding steps as its longest answer has tokens, and
an update takes as long as a mean group. Both arms have as many workers as a step has groups. Admission, age and order are the functions of
`gradus.training.admission`, which the runs call too. The clock does not count the time to read interrupted answers again.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import gradus
from gradus.comparison.claim_runs import judged, record, script_result
from gradus.papers.systems.areal import areal, claims
from gradus.training.admission import admitted_until, first_finished, next_request, stale_of

PROMPTS, GROUP, STEPS, STALENESS = 8, 8, 20, 4


def lengths(seed: int) -> list[int]:
    """The tokens of the longest answer of each group of a synchronous run, in the order of the requests."""
    found: list[int] = []
    made = areal.but(system=None, study=None)
    gradus.train(
        made, "arithmetic", task_options={"level": "2"}, steps=STEPS, seed=seed, setting__prompts=PROMPTS, setting__group=GROUP, setting__warmup=0,
        setting__learning_rate=1e-6, on_step=lambda run, row, groups: found.extend(max(t.actions for t in g.trajectories) for g in groups),
    )  # fmt: skip
    return found


def in_order(durations: Sequence[float], prompts: int, update: float) -> float:
    """The time of a run that waits for all groups of a step, and then updates. All groups of a step begin together."""
    return sum(max(durations[n : n + prompts]) + update for n in range(0, len(durations), prompts))


def streamed(durations: Sequence[float], prompts: int, update: float, *, staleness: int, workers: int) -> float:
    """The time of a run whose workers sample without a pause."""
    steps, now, admitted = len(durations) // prompts, 0.0, 0
    free: set[int] = set()
    running: list[tuple[float, int, int]] = []  # (end, request, version)
    done: dict[int, int] = {}  # request -> version, in the order of the ends

    def assign(version: int) -> None:
        while len(running) < workers and (number := next_request(free, {}, None)) is not None:
            free.discard(number)
            heapq.heappush(running, (now + durations[number], number, version))

    for step in range(steps):
        until = (admitted_until(step, staleness, steps - 1) + 1) * prompts
        free.update(range(admitted, until))
        admitted = until
        while True:
            for number in stale_of(done, step, staleness):
                del done[number]
                free.add(number)
            assign(step)
            if (chosen := first_finished(done, prompts)) is not None:
                break
            now, number, version = heapq.heappop(running)
            done[number] = version
        for number in chosen:
            del done[number]
        finish = now + update
        while running and running[0][0] <= finish:
            now, number, version = heapq.heappop(running)
            done[number] = version
            assign(step)
        now = finish
    return now


def both(seed: int) -> tuple[float, float]:
    """The times of a seed: streaming, and in order."""
    durations = [float(n) for n in lengths(seed)]
    update = float(np.mean(durations))
    return streamed(durations, PROMPTS, update, staleness=STALENESS, workers=PROMPTS), in_order(durations, PROMPTS, update)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    claim = next(claim for claim in claims if claim.script == "benchmarks.areal")
    times = np.array([both(seed) for seed in range(claim.seeds)])
    found = judged(claim, times[:, :1], times[:, 1:])
    figures: dict[str, Any] = {**record(found), "recipe": times[:, 0].round(1).tolist(), "against": times[:, 1].round(1).tolist()}
    print(json.dumps(figures))
    if options.write:
        print(script_result("areal", "benchmarks.areal", figures))


if __name__ == "__main__":
    main()
