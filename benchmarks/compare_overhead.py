"""The cost of a comparison beyond its runs: `gradus compare` of two recipes and two seeds against the same four runs and examinations alone.

    python -m benchmarks.compare_overhead [--pairs 3] [--task countdown] [--steps 20]

Both sides have one process that trains, and it carries out all four runs; the comparison has its own process beside it, which checks, hashes, waits and
writes the page. The two are measured in alternation, in seconds of processor time of all their processes, and of wall time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ARMS, SEEDS = ("grpo", "rloo"), (0, 1)


def alone(folder: Path, task: str, steps: int) -> None:
    """The four runs, each with the examinations of its last and its best weights."""
    from gradus import api
    from gradus.comparison.job import examined
    from gradus.comparison.terms import experiment_of
    from gradus.lab import checkpoints

    made = experiment_of(ARMS, task=task, seeds=SEEDS, budget=f"steps={steps}")
    for seed in SEEDS:
        for arm in made.arms:
            run = api.launch(made.plan(arm, seed), folder / f"{arm.name}-{seed}")
            asyncio.run(examined(run, made))
            assert run.folder is not None
            linked = run.folder.model("best")
            if linked is not None and linked != run.folder.model("final") and (found := checkpoints.at(linked.parent)) is not None:
                run.restore(found)
                asyncio.run(examined(run, made))


def measured(words: list[str]) -> tuple[float, float]:
    """Seconds of processor time, of a command and all its processes, and of wall time."""
    began = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(words)} ended with status {status}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--task", default="countdown")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--alone", metavar="DIR", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        alone(Path(options.alone), options.task, options.steps)
        return
    terms = ["--task", options.task, "--steps", str(options.steps)]
    equal = ["--task", options.task, "--budget", f"steps={options.steps}", "--seeds", str(len(SEEDS)), "--parallel", "1", "--fresh"]
    found: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for pair in range(options.pairs):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = folder
            sides = {
                "alone": ["-m", "benchmarks.compare_overhead", *terms, "--alone", f"{folder}/alone"],
                "compared": ["-m", "gradus", "compare", *ARMS, *equal, "--run", f"{folder}/compared"],
            }
            times = {name: measured(sides[name]) for name in (sorted(sides) if pair % 2 else sorted(sides, reverse=True))}
        found.append((times["alone"], times["compared"]))
        (cpu, wall), (more_cpu, more_wall) = found[-1]
        told = f"processor {cpu:.1f} s alone, {more_cpu:.1f} s compared: {more_cpu / cpu:.3f}; wall {wall:.1f} s, {more_wall:.1f} s: {more_wall / wall:.3f}"
        print(told, flush=True)
    more = sum(b[0] - a[0] for a, b in found) / len(found)
    cpu, wall = (sum(b[i] for _, b in found) / sum(a[i] for a, _ in found) for i in (0, 1))
    print(f"processor time beside the runs: {more:.1f} s for each comparison of {len(ARMS) * len(SEEDS)} runs")
    print(f"processor time of comparisons over that of their runs: {cpu:.3f}; wall time: {wall:.3f} ({options.pairs} pairs, {options.task}, {options.steps} steps)")


if __name__ == "__main__":
    main()
