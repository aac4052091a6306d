"""Does a race find one clearly better recipe among 20, and at which share of the tokens of running all of them to the end?

Twenty contestants on arithmetic with the built-in model: nineteen recipes and rates that learn next to nothing in a run of this length (rates of a hundredth
of the rule and less), and one that learns: sft at five times the rule, at a place of the list that the seed of the race draws. Every race has other seeds
of training. Runs go one after another in this process.

    python -m benchmarks.race --races 10

The reference is 20 times the tokens of a full run: each contestant once, to the end. A reference with the seeds of the last rungs costs three times that.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gradus.comparison import race
from gradus.comparison.job import Job, carry_out
from gradus.comparison.race_terms import asked_of, raced
from gradus.comparison.rungs import cost, rungs_of
from gradus.comparison.worker import Lines
from gradus.types import UserError

PLANTED = "planted=sft --learning_rate 5e-4"
KEYS = ("grpo", "rloo", "reinforce", "dr_grpo", "gspo", "cispo", "reinforce_plus_plus", "best_of_n", "rft", "expert_iteration")
RATES = ("1e-6", "3e-7")
FIELDS = {"prompts": "4", "group": "4", "warmup": "0", "study": "none", "save_every": "0", "agreement.every": "0"}
STEPS = 16  # of a full run


def one_by_one(jobs: Sequence[Job], processes: int, heard: Any, *, threads: int = 1) -> None:
    """The runs in this process."""
    for job in jobs:
        try:
            heard(job, {"result": carry_out(job, Lines(open(os.devnull, "w")))})  # noqa: SIM115
        except UserError as error:
            heard(job, {"failed": str(error)})


def arms_of(seed: int) -> list[str]:
    """Nineteen that learn little, and the planted one at a drawn place."""
    others = [f"{key}@{rate}={key} --learning_rate {rate}".replace("@", ".") for rate in RATES for key in KEYS][:19]
    others.insert(random.Random(seed).randrange(20), PLANTED)
    return others


def race_of(seed: int, tokens: float, problems: int, folder: Path) -> dict[str, Any]:
    """One race. Returns its document."""
    seeds = (3 * seed, 3 * seed + 1, 3 * seed + 2)
    asked = asked_of(arms_of(seed), rates="1", budget=f"tokens={tokens}", seeds=seeds, problems=problems, samples=2, fields=FIELDS, task="arithmetic")
    return raced(asked, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--races", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--step", type=float, default=1150.0, help="tokens of a step of grpo")
    options = parser.parse_args()
    torch.set_num_threads(1)
    race.carry_out_all = one_by_one  # type: ignore[assignment]
    slope, _ = cost(rungs_of(20))
    found, shares = 0, list[float]()
    head = ("race", "winner", "contestants", "tokens", "share of one run each", "of three runs each", "last rung", "s")
    print(f"| {' | '.join(head)} |\n| {' | '.join(['---'] * len(head))} |", flush=True)
    for seed in range(options.first, options.first + options.races):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as home:
            document = race_of(seed, slope * STEPS * options.step, options.problems, Path(home) / "race")
        full, spent = document["full"], document["spent"]["tokens"] + document["pilot"]["tokens"]
        found += document["winner"] == "planted"
        shares.append(spent / (20 * full))
        kept = " ".join(str(len(rung["order"])) for rung in document["held"])
        last = document["held"][-1]
        scores = ", ".join(f"{last['scores'][name]:.2f}" for name in last["order"][:2])
        seconds = time.perf_counter() - began
        print(f"| {seed} | {document['winner']} | {kept} | {spent:,.0f} | {shares[-1]:.3f} | {shares[-1] / 3:.3f} | {scores} | {seconds:.0f} |", flush=True)
    print(f"\nfound in {found} of {options.races}; share of one run each: mean {sum(shares) / len(shares):.3f}, largest {max(shares):.3f}")


if __name__ == "__main__":
    main()
