"""LongCat-Flash-Thinking: experts of three domains, their fusion, and one run on all domains with as many rollouts.

    python -m benchmarks.fusion                     # prints
    python -m benchmarks.fusion --write             # and stores the figures beside the two claims

Every seed has two runs. The first one has a stage per domain, each from the start model, and then the fusion; the second one trains on the mixture of
the domains. All models answer the same held-out problems of every domain.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gradus
from gradus.comparison.claim_runs import judged, record, script_result
from gradus.lab.folder import STAGES
from gradus.papers.systems.longcat_flash_thinking import claims, longcat_flash_thinking
from gradus.recipe.claim import Claim
from gradus.recipe.overrides import override_all
from gradus.schedules.stages import Fuse, Stage, Stages
from gradus.types import Frozen
from gradus.types.moments import Steps

DOMAINS = ("arithmetic", "string_ops", "countdown")
BOTH = [next(claim for claim in claims if claim.script == f"benchmarks.fusion {part}") for part in ("experts", "mixture")]


def method() -> gradus.Recipe:
    """The recipe with the fields of the claims, without a system, so that no clock decides."""
    made = override_all(longcat_flash_thinking.but(system=None), [(f"setting.{name}", value) for name, value in BOTH[0].fields.items()])
    return made.but(setting__eval_every=0, study__problems=8)


def steps() -> int:
    return int(str(BOTH[0].budget).removeprefix("steps="))


def experts(folder: Path, seed: int) -> dict[str, str]:
    """Trains the experts and fuses them. Returns the folder of each model by domain, and of the fused model under `fused`."""
    own = {name: Stage(until=Steps(steps()), start="first", task=name) for name in DOMAINS}
    made = method().but(schedule=Stages(Frozen(**own, fused=Fuse(DOMAINS))))
    gradus.train(replace(made, key="experts", base=None), DOMAINS[0], run=folder, seed=seed)
    return {name: str((folder / STAGES / name).resolve()) for name in (*DOMAINS, "fused")}


def mixture(folder: Path, seed: int) -> str:
    """Trains on all domains, with as many steps as all experts together. Returns the folder of the model."""
    gradus.train(method(), ",".join(DOMAINS), run=folder, seed=seed, steps=steps() * len(DOMAINS))
    return str((folder / "final").resolve())


def accuracy(model: str, domain: str, claim: Claim) -> float:
    return float(gradus.evaluate(model, domain, samples=claim.samples or 1, problems=claim.problems or 100).pass_at[1].mean)


def figures(seed: int, folder: Path) -> dict[str, Any]:
    """The accuracies of a seed: of each expert and of the fused model in each domain, and of the run on the mixture."""
    models = {**experts(folder / "experts", seed), "mixture": mixture(folder / "mixture", seed)}
    asked = [(name, domain) for name in models for domain in DOMAINS if name in (domain, "fused", "mixture")]
    return {"seed": seed, **{f"{name} in {domain}": accuracy(models[name], domain, BOTH[0]) for name, domain in asked}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["experts", "mixture"], help="the claim to store; without it both")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(BOTH[0].seeds):
            found.append(figures(seed, Path(folder) / str(seed)))
            print(json.dumps(found[-1]), flush=True)
    shares = [min(f[f"fused in {d}"] / f[f"{d} in {d}"] for d in DOMAINS) for f in found]
    fused, mixed = ([float(np.mean([f[f"{name} in {d}"] for d in DOMAINS])) for f in found] for name in ("fused", "mixture"))
    for claim, (one, other) in zip(BOTH, [(shares, [1.0] * len(shares)), (fused, mixed)], strict=True):
        part = str(claim.script).rpartition(" ")[2]
        told = {**record(judged(claim, np.array(one)[:, None], np.array(other)[:, None])), "recipe": one, "against": other, "figures": found}
        print(claim.says, told["verdict"], told["figure"], told["interval"])
        if options.write and options.part in (None, part):
            print(script_result("longcat_flash_thinking", str(claim.script), told))


if __name__ == "__main__":
    main()
