"""Test that a model which reads pictures learns: GRPO on `shapes` with the built-in model, held-out accuracy at the start and at the end.

    python -m benchmarks.sighted                          # seeds 0-2, three minutes of training each
    python -m benchmarks.sighted --steps 200 --seeds 0

Prints one row per seed: accuracy before and after on 256 pictures that are not trained on, the gain, steps, seconds of training.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from gradus.api import start
from gradus.training.launch import go
from gradus.training.plan import plan

DUE = 0.15  # gain of held-out accuracy


def gain(seed: int, steps: int) -> tuple[float, float, float]:
    """(accuracy before, after, seconds) of one run with the defaults."""
    run = start(plan("grpo", "shapes", steps=steps, seed=seed))
    began = time.perf_counter()
    go(run)
    found = [row["held_out/accuracy"] for row in run.metrics if row.get("held_out/accuracy") is not None]
    return float(found[0]), float(found[-1]), time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| seed | before | after | gain | steps | seconds |\n| --- | --- | --- | --- | --- | --- |")
    gains = []
    for seed in map(int, options.seeds.split(",")):
        before, after, seconds = gain(seed, options.steps)
        gains.append(after - before)
        print(f"| {seed} | {before:.3f} | {after:.3f} | {after - before:+.3f} | {options.steps} | {seconds:.0f} |", flush=True)
    mean = sum(gains) / len(gains)
    print(f"mean gain {mean:+.3f}; due {DUE:+.2f}: {'yes' if mean >= DUE else 'NO'}")
    return 0 if mean >= DUE else 1


if __name__ == "__main__":
    sys.exit(main())
