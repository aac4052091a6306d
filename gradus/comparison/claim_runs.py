"""The measurement of a claim. A comparison trains the claim's recipe and the other arm. The result is the measured figure, its interval and the verdict.

Let d be the mean difference over seeds, or the logarithm of the mean ratio (`gradus.comparison.statistics.difference` gives its 95 %
interval). The verdict is *seen* if d reaches the bound and the interval lies on the bound's side of 0. The verdict is *opposite* if the interval lies on the
other side of 0, else *not seen*. If d = 0 already reaches the bound (example: "at most 1.05 times the tokens"), the bound replaces 0 in these two
comparisons.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradus import api
from gradus.comparison import curves
from gradus.comparison.claims import Known, as_json, keep, known, word_of
from gradus.comparison.compare import Comparison, Shown, compare
from gradus.comparison.experiment import Experiment
from gradus.comparison.measures import Measure, values
from gradus.comparison.statistics import difference
from gradus.comparison.terms import experiment_of
from gradus.lab.atomic_files import remove
from gradus.lab.provenance import source, versions
from gradus.recipe.claim import Claim
from gradus.runtime.cache import cache_folder
from gradus.types import UserError, command

ALONE = ("seconds", "memory")
"""Measures whose values parallel runs would change, such as time."""


@dataclass(frozen=True)
class Verdict:
    """The figure (a difference, a ratio, or a distance between weights), its 95 % interval (or None), and the verdict."""

    figure: float
    low: float | None
    high: float | None
    verdict: str


def judged(claim: Claim, recipe: np.ndarray, against: np.ndarray) -> Verdict:
    """The verdict of a claim about a difference or a ratio.

    Args: recipe, against: float64 [seeds, problems], or [seeds, 1]. Raises UserError if the claim is about a ratio and a figure is not
    above 0.
    """
    if claim.bound == "better_by":
        return better(recipe, against, claim.value)
    means = recipe.mean(1), against.mean(1)
    if (lowest := min(found.min() for found in means)) <= 0:
        raise UserError(
            f"{claim.named} compares a ratio, which needs a measure above 0, but {claim.measure} is {lowest:g} in a run; write `better_by` in place of {claim.bound}"
        )
    d = difference(np.log(means[0])[:, None], np.log(means[1])[:, None])
    said = _said(d.mean, d.low, d.high, math.log(claim.value), -1 if claim.bound == "at_most" else 1)
    return Verdict(math.exp(d.mean), None if d.low is None else math.exp(d.low), None if d.high is None else math.exp(d.high), said)


def better(recipe: np.ndarray, against: np.ndarray, by: float) -> Verdict:
    """The verdict of a claim that a difference is at least `by`, or at most `by` if `by` is negative."""
    d = difference(recipe, against)
    return Verdict(d.mean, d.low, d.high, _said(d.mean, d.low, d.high, by, -1 if by < 0 else 1))


def _said(mean: float, low: float | None, high: float | None, bound: float, sign: int) -> str:
    """The verdict for a mean that must be at least `bound` for sign 1, or at most `bound` for sign -1."""
    if low is None or high is None:
        return "not seen"
    least, worst, best = sign * bound, *((low, high) if sign > 0 else (-high, -low))
    if least < 0:  # a difference of 0 reaches the bound, as for "at most 1.05 times the time", so the bound is the border
        return "seen" if worst >= least else "opposite" if best < least else "not seen"
    if sign * mean >= least and worst > 0:
        return "seen"
    return "opposite" if best < 0 else "not seen"


def terms(of: Known, said: Callable[[str], None] | None = None) -> Experiment:
    """The comparison that measures a claim. The first arm of the comparison is the recipe; the second arm is the other arm of the claim.

    Before a start model is made, `said` is called with a sentence. If the terms of the claim do not fit each other, raises UserError with the recipe's key.
    """
    claim = of.claim
    plain = claim.ground is None and (claim.bound == "within" or ":" in (claim.measure or "") or claim.measure in ALONE)
    own = shlex.join([of.key, *(f"--{name}={value}" for name, value in claim.own.items())])
    given = {
        **{name: getattr(claim, name) for name in ("task", "model", "profile", "budget", "measure")},
        "task_options": claim.options or None,
        "problems": claim.problems or (1 if plain else None if claim.ground else 100),
        "samples": claim.samples or (1 if plain else None),
        **({"ground": claim.ground, "said": said} if claim.ground is not None else {}),
    }
    try:
        return experiment_of(
            [own, *([claim.against] if claim.against else [])],
            seeds=claim.seeds,
            fields=claim.fields,
            **{name: value for name, value in given.items() if value is not None},
        )
    except UserError as error:
        raise UserError(f"{of.key}, {claim.named}: {error}") from None


def refuse_script(of: Known) -> None:
    """Raises UserError if a separate program measures the claim."""
    if of.claim.script is not None:
        sentence = f"{of.claim.named} has its own measuring program in the source tree; use python -m {of.claim.script} --write"
        raise UserError(f"{of.key}: {sentence}")


def measure(of: Known, home: Path, *, processes: int = 0, fresh: bool = False, shown: Shown | None = None) -> dict[str, Any]:
    """Trains the unfinished runs, and returns the record of a result. The same call continues an interrupted measurement.

    Args: home: the parent of the folder of the comparison; processes, fresh, shown: as for `compare`.
    Raises UserError if a run fails. If a separate program measures the claim, or if the claim's terms do not fit, raises UserError before the first run.
    """
    return result_of(of, trained(of, home, processes=processes, fresh=fresh, shown=shown))


def trained(of: Known, home: Path, *, processes: int = 0, fresh: bool = False, shown: Shown | None = None) -> Comparison:
    """The finished comparison that measures a claim. Arguments and errors are as in `measure`."""
    refuse_script(of)
    claim, experiment = of.claim, terms(of)
    folder = home / folder_of(of)
    made = compare(experiment, folder, processes=1 if claim.measure in ALONE else processes, fresh=fresh or claim.bound == "within", shown=shown)
    failed = [f"{name}, seed {seed}: {run['failed']}" for name, found in made.results.items() for seed, run in found.items() if "failed" in run]
    if failed:
        raise UserError(f"{of.key}: {claim.named} has no result, because a run failed ({failed[0]}); find the reason in {folder}, fix the cause, and measure again")
    return made


def result_of(of: Known, made: Comparison) -> dict[str, Any]:
    """The record of a claim's result from its finished comparison."""
    figures = weight_figures(of.claim, made) if of.claim.bound == "within" else measured_figures(of.claim, made)
    return {**figures, "budget": str(made.experiment.budget), **version()}


def keep_curve(of: Known, made: Comparison, path: Path) -> bool:
    """Stores the learning curve of a claim's runs in the file `path`. Returns whether a curve was stored.

    Nothing is stored if the file exists, if the claim is about equal weights, if the budget is not in steps, or if the runs have too few evaluations.
    """
    claim, budget = of.claim, made.experiment.budget
    if path.exists() or claim.bound == "within" or budget.unit != "steps":
        return False
    names = dict(zip([arm.name for arm in made.experiment.arms], (of.key, claim.against or ""), strict=False))
    results = {names[name]: runs for name, runs in made.results.items()}
    lines = curves.drawn(results, curves.LEAST)
    if of.key not in lines:
        return False
    about = curves.about_ground(claim.ground) if claim.ground else curves.about_task(claim.task, claim.options, budget.amount)
    again = command("claims", word_of(of.key, claim), "--run")
    curves.keep(path, {"score": curves.score_of(results), "about": about, "seeds": claim.seeds, "curves": lines, "command": again, **version()})
    return True


def version() -> dict[str, str]:
    """The version of this package and the hash of its source, in the form that a result stores."""
    return {name: found for name, found in versions().items() if name in ("gradus", "source")}


def script_result(key: str, program: str, figures: Mapping[str, Any]) -> Path:
    """Stores the result of a recipe's first claim, which a separate program measured. Returns the file."""
    claim = next(of.claim for of in known([key]) if of.claim.script == program)
    how = {"budget": claim.budget, **version(), "program": program, "command": f"python -m {program} --write"}
    return keep(key, claim, {**figures, **how})


def folder_of(of: Known) -> str:
    """The name of a measurement's folder. The name differs for each claim and for each version of the code."""
    return f"{of.key}-{of.claim.digest}-{source()}"


def measured_figures(claim: Claim, made: Comparison) -> dict[str, Any]:
    """The verdict and the figure of a claim from a finished comparison, and the mean of the measure in each run."""
    experiment = made.experiment
    arms = [values(Measure(experiment.measure), [made.results[arm.name][seed] for seed in experiment.seeds]) for arm in experiment.arms]
    found = judged(claim, arms[0], arms[1] if len(arms) > 1 else np.zeros_like(arms[0]))
    return {**record(found), **{name: _rounded(arm.mean(1)) for name, arm in zip(("recipe", "against"), arms, strict=False)}}


def record(found: Verdict) -> dict[str, Any]:
    """A verdict as the fields of a stored result."""
    interval = None if found.low is None or found.high is None else _rounded([found.low, found.high])
    return {"verdict": found.verdict, "figure": _rounded([found.figure])[0], "interval": interval}


def _rounded(numbers: Any) -> list[float]:
    """The numbers with five digits, as the file stores them."""
    return [float(f"{float(number):.5g}") for number in numbers]


def weight_figures(claim: Claim, made: Comparison) -> dict[str, Any]:
    """Two numbers over all seeds: the largest distance between the arms' final weights, and the smallest change of the weights in a run.

    The first number covers the players that both arms have. If the weights did not change, the verdict is "not seen", because two runs that learn nothing are
    always equal.
    """
    gaps, moves = [], []
    for seed in made.experiment.seeds:
        jobs = [job for job in made.jobs() if job.seed == seed]
        ends = [final_weights(job.folder) for job in jobs]
        start = api.start(jobs[0].plan)
        begun = {name: player.tensors() for name, player in start.players.items()}
        gaps.append(distance(ends[0], ends[1]))
        moves.append(distance(begun, ends[0]))
    verdict = "seen" if max(gaps) <= claim.value and min(moves) > 0 else "not seen"
    return {**record(Verdict(max(gaps), None, None, verdict)), "moved": _rounded([min(moves)])[0]}


def final_weights(folder: Path) -> dict[str, dict[str, Any]]:
    """The tensors of each player at the end of a run."""
    from gradus.lab import checkpoints

    found, _ = checkpoints.latest(folder)
    if found is None:
        raise UserError(f"{folder} has no complete checkpoint, so its weights cannot be compared; measure again with --fresh")
    return {path.stem.removeprefix("player-"): found.tensors(path.name) for path in sorted(found.path.glob("player-*.safetensors"))}


def distance(a: Mapping[str, Mapping[str, Any]], b: Mapping[str, Mapping[str, Any]]) -> float:
    """The largest absolute difference between the tensors that both runs have. Raises UserError if their shapes differ."""
    largest, shared = 0.0, [(player, name) for player in a.keys() & b.keys() for name in a[player].keys() & b[player].keys()]
    if not shared:
        raise UserError("the claim is about weights, but its arms share no tensor; compare recipes that train the same model")
    for player, name in shared:
        one, other = a[player][name], b[player][name]
        if one.shape != other.shape:
            raise UserError(
                f"{player}.{name} has the shape {tuple(one.shape)} in one arm and {tuple(other.shape)} in another, so the weights cannot be "
                "equal; compare recipes that train the same model"
            )
        if one.numel():
            largest = max(largest, float((one.double() - other.double()).abs().max()))
    return largest


def run_claim(of: Known, *, fresh: bool = False, processes: int = 0, why: str | None = None, shown: Shown | None = None) -> Path:
    """Measures a claim, stores the result, and returns its file. An interrupted measurement continues with the same call.

    The learning curve of the runs is stored, too, if the recipe has no curve yet.
    """
    home = cache_folder("claims")
    made = trained(of, home, fresh=fresh, processes=processes, shown=shown)
    file = keep(of.key, of.claim, {**result_of(of, made), "command": command("claims", word_of(of.key, of.claim), "--run")}, why)
    keep_curve(of, made, curves.file_of(file.parent.parent.name, of.key))
    remove(home / folder_of(of))
    return file


def claims(
    *keys: str, family: str | None = None, run: bool = False, fresh: bool = False, processes: int = 0, shown: Shown | None = None
) -> list[dict[str, Any]]:
    """The claims of recipes as plain values, as `gradus claims --json` prints them.

    Args: `keys`: keys of recipes, KEY:2 for the second claim alone. `family`: a family of recipes. `run`: measures the claims first and stores the results,
    except claims with their own measuring program. `fresh`, `processes`, `shown`: as for `compare`.

    >>> claims("dapo")[0]["key"]
    'dapo'
    """
    for of in known(keys, family) if run else ():
        if of.claim.script is None:
            run_claim(of, fresh=fresh, processes=processes, shown=shown)
    return as_json(known(keys, family))
