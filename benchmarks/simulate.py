"""Predicted and measured wall time of six runs whose rewards sleep: python -m benchmarks.simulate [--steps N] [--seconds S] [--rounds N].

The rewards are those of `benchmarks.asynchronous`: the reward of a group sleeps between 0 and S seconds, as its problem says. The rates come from two short runs
without sleep, one with 8 problems per step and one with 1: seconds of a decoding step, and seconds of a step outside its rollout. The lengths are those of the
first of these runs. The first step, which loads and compiles, does not count. For each system, prints the predicted seconds, the measured seconds, and their ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.asynchronous import Slow
from gradus.api import train
from gradus.lab.folder import TIMINGS
from gradus.recipe.registry import recipe
from gradus.simulation.rates import Affine, Rates
from gradus.simulation.schedules import Model
from gradus.simulation.work import Item
from gradus.types import Group, Key
from gradus.types.systems import Ahead, Streaming

WORKERS = 8
SYSTEMS = {
    "none": None,
    "Ahead(1)": Ahead(1),
    "Ahead(2)": Ahead(2),
    "Streaming(0)": Streaming(0, WORKERS),
    "Streaming(1)": Streaming(1, WORKERS),
    "Streaming(2)": Streaming(2, WORKERS),
}
PROMPTS, GROUP = 8, 8


@dataclass
class Watched:
    """The seconds at which the steps of a run ended, and the groups of each step."""

    ends: list[float] = field(default_factory=list)
    groups: list[Sequence[Group]] = field(default_factory=list)

    def __call__(self, run: Any, row: Any, groups: Sequence[Group]) -> None:
        self.ends.append(time.perf_counter())
        self.groups.append(groups)


def trained(
    system: Ahead | Streaming | None, steps: int, seconds: float, prompts: int = PROMPTS, seed: int = 0, folder: str | None = None
) -> tuple[float, Watched]:
    """The seconds from the end of the first step to the end of the last one, and the ends of the steps with their groups."""
    made = replace(recipe("grpo"), system=system, reward=Slow(seconds), study=None)
    watched = Watched()
    small: dict[str, Any] = {"setting__prompts": prompts, "setting__group": GROUP, "setting__max_tokens": 16}
    with contextlib.redirect_stderr(io.StringIO()):
        train(made, "arithmetic", steps=steps, seed=seed, on_step=watched, run=folder, **small)
    return watched.ends[-1] - watched.ends[0], watched


def item(group: Group, seconds: float) -> Item:
    """The group as work: its lengths, and the sleep of its reward."""
    first = group.trajectories[0]
    context = first.contexts[0]
    delay = seconds * float(Key(0).fold(first.problem.id).uniform())
    return Item(len(context.sequence) - len(context.tokens), tuple(t.actions for t in group.trajectories), delay)


def calibrated(steps: int, seconds: float, seed: int) -> tuple[Rates, list[Item]]:
    """The rates of this machine by least squares over the steps of two runs without sleep, and the groups in the order of their requests."""
    rows, rollouts, rest, items = [], [], [], []
    for prompts in (PROMPTS, 1):
        with tempfile.TemporaryDirectory() as folder:
            _, watched = trained(None, steps, 0.0, prompts, seed, f"{folder}/run")
            sampling = [json.loads(line)["rollout"] for line in (Path(folder) / "run" / TIMINGS).read_text().splitlines()]
        for step in range(1, steps):  # the first step loads and compiles
            lengths = [t.actions for g in watched.groups[step] for t in g.trajectories]
            rows.append((max(lengths), sum(lengths)))
            rollouts.append(sampling[step])
        if prompts == PROMPTS:
            rest = [watched.ends[step] - watched.ends[step - 1] - sampling[step] for step in range(1, steps)]
            items = [item(group, seconds) for groups in watched.groups for group in groups]
    start, each = np.linalg.lstsq(np.array(rows, float), np.array(rollouts), rcond=None)[0]
    return Rates(Affine(max(0.0, float(start)), max(0.0, float(each))), update_start=statistics.median(rest)), items


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    print("| system | predicted s | measured s | predicted / measured |\n| --- | --- | --- | --- |")
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SYSTEMS}
    for seed in range(options.rounds):
        rates, items = calibrated(options.steps, options.seconds, seed)
        for name, system in SYSTEMS.items():
            replicas = system.workers if isinstance(system, Streaming) else 1
            ends = Model(system, rates, items, PROMPTS, options.steps, replicas).run().ends
            found[name].append((ends[-1] - ends[0], trained(system, options.steps, options.seconds, seed=seed)[0]))
    for name, pairs in found.items():
        due, measured = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"| {name} | {due:.1f} | {measured:.1f} | {due / measured:.2f} |")


if __name__ == "__main__":
    main()
