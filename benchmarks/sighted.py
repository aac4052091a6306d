"""Test that a model which reads pictures learns: GRPO on `shapes` with the built-in model, held-out accuracy at the start and at the end.

    python -m benchmarks.sighted                          # seeds 0-2
    python -m benchmarks.sighted --steps 200 --seeds 0

Prints one row per seed: accuracy before and after on 256 pictures that are not trained on (sampled; greedy in brackets), the gain of the sampled
one, steps, seconds of processor time and of the clock, evaluations included. Due: 15 points in three minutes on two cores that do nothing else.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import torch

from gradus.api import start
from gradus.training.launch import go
from gradus.training.plan import plan

DUE = 0.15  # gain of held-out accuracy


@dataclass(frozen=True)
class Found:
    """Accuracy before and after, sampled and greedy; seconds of the processor and of the clock."""

    sampled: tuple[float, float]
    greedy: tuple[float, float]
    busy: float
    passed: float


def found(seed: int, steps: int) -> Found:
    """What one run with the defaults gives."""
    run = start(plan("grpo", "shapes", steps=steps, seed=seed))
    began, busy = time.perf_counter(), time.process_time()
    go(run)
    rows = [row for row in run.metrics if row.get("held_out/accuracy") is not None]
    sampled, greedy = ((float(rows[0][name]), float(rows[-1][name])) for name in ("held_out/accuracy", "held_out/greedy"))
    return Found(sampled, greedy, time.process_time() - busy, time.perf_counter() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| seed | before | after | gain | steps | processor | clock |\n| --- | --- | --- | --- | --- | --- | --- |")
    gains = []
    for seed in map(int, options.seeds.split(",")):
        f = found(seed, options.steps)
        gains.append(f.sampled[1] - f.sampled[0])
        before, after = (f"{f.sampled[i]:.3f} ({f.greedy[i]:.3f})" for i in (0, 1))
        print(f"| {seed} | {before} | {after} | {gains[-1]:+.3f} | {options.steps} | {f.busy:.0f} | {f.passed:.0f} |", flush=True)
    mean = sum(gains) / len(gains)
    print(f"mean gain {mean:+.3f}; due {DUE:+.2f}: {'yes' if mean >= DUE else 'NO'}")
    return 0 if mean >= DUE else 1


if __name__ == "__main__":
    sys.exit(main())
