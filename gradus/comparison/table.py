"""The figures of a comparison: one row per arm, one row per pair, and a sentence. The sentence names the winner, or says that no arm is clearly better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from gradus.comparison.experiment import Experiment
from gradus.comparison.measures import Measure, values
from gradus.comparison.statistics import area, difference, holm
from gradus.study.passk import paired_bootstrap
from gradus.types import UserError

ALPHA = 0.05
"""The accepted chance of a wrong winner among all pairs of a comparison."""

Results = Mapping[str, Mapping[int, Mapping[str, Any]]]


def figures(experiment: Experiment, results: Results) -> dict[str, Any]:
    """{"arms": [...], "pairs": [...], "says": sentence, "notes": [...]} from the results by arm and seed; a failed run is {"failed":
    reason}.
    """
    found = {arm.name: _whole(experiment, results.get(arm.name, {})) for arm in experiment.arms}
    measure = Measure(experiment.measure)
    shows = [Measure(name) for name in experiment.shows]
    arms = [_arm(name, runs, measure, shows, results.get(name, {})) for name, runs in found.items()]
    shared = {(a, b): sorted(found[a].keys() & found[b].keys()) for a, b in combinations(found, 2)}
    _check(shows, [run for runs in found.values() for run in runs.values()])
    pairs = [_pair(a, b, found, seeds, measure) for (a, b), seeds in shared.items() if seeds]
    for pair, p in zip(pairs, holm([pair["p"] for pair in pairs]), strict=True):
        pair["corrected"] = p
        better = pair["mean"] * measure.sign
        pair["winner"] = None if p is None or p >= ALPHA or better == 0 else pair["a"] if better > 0 else pair["b"]
    return {"measure": measure.name, "arms": arms, "pairs": pairs, "says": sentence(arms, pairs, measure), "notes": notes(experiment, results)}


def _whole(experiment: Experiment, runs: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """The finished runs of an arm by seed, each with the area under its curve."""
    amount = experiment.budget.amount
    return {seed: {**run, "area": area(run["curve"], amount)} for seed, run in runs.items() if "failed" not in run}


def _arm(
    name: str, runs: Mapping[int, Mapping[str, Any]], measure: Measure, shows: Sequence[Measure], all_: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    failed = {seed: run["failed"] for seed, run in all_.items() if "failed" in run}
    if not runs:
        return {"name": name, "seeds": [], "failed": failed}
    order = [runs[seed] for seed in sorted(runs)]
    accuracy = Measure("accuracy")
    return {
        "name": name,
        "seeds": sorted(runs),
        "final": _interval(values(measure, order)),
        "best": _interval(values(measure if measure.examined else accuracy, order, "best")),
        "shows": {further.name: _shown(further, order) for further in shows},
        "accuracy": float(values(accuracy, order).mean()),
        "area": _mean([run["area"] for run in order]),
        "length": float(values(Measure("length"), order).mean()),
        "entropy": _mean([run["metrics"].get("entropy", {}).get("last") for run in order]),
        "spent": {unit: _mean([run["spent"][unit] for run in order]) for unit in order[0]["spent"]},
        "tokens": {p: _mean([run["tokens"].get(p, 0) for run in order]) for p in sorted({p for run in order for p in run["tokens"]})},
        "failed": failed,
    }


def _check(shows: Sequence[Measure], runs: Sequence[Mapping[str, Any]]) -> None:
    """Raises UserError if no run has a further measure; the message lists the known names."""
    for measure in shows:
        if runs and not any(_has(measure, run) for run in runs):
            values(measure, runs)


def _has(measure: Measure, run: Mapping[str, Any]) -> bool:
    try:
        values(measure, [run])
    except UserError:
        return False
    return True


def _shown(measure: Measure, order: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """A further measure of an arm, without values if a run lacks it (a recipe that samples nothing has no entropy)."""
    if all(_has(measure, run) for run in order):
        return _interval(values(measure, order))
    return dict.fromkeys(("mean", "low", "high", "deviation"))


def _interval(found: np.ndarray) -> dict[str, float | None]:
    """The mean over seeds and problems, the bootstrap interval of this mean (over seeds and problems), and the deviation among seeds."""
    interval = paired_bootstrap(found, np.zeros_like(found), draws=4000)
    deviation = float(found.mean(1).std(ddof=1)) if len(found) > 1 else None
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "deviation": deviation}


def _mean(found: Sequence[float | None]) -> float | None:
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def _pair(a: str, b: str, found: Mapping[str, Mapping[int, Mapping[str, Any]]], seeds: Sequence[int], measure: Measure) -> dict[str, Any]:
    """The difference of two arms over the seeds that both finished."""
    first, second = (values(measure, [found[name][seed] for seed in seeds]) for name in (a, b))
    d = difference(first, second)
    chance = None if d.chance is None else d.chance if measure.sign > 0 else 1 - d.chance
    return {"a": a, "b": b, "seeds": list(seeds), "mean": d.mean, "low": d.low, "high": d.high, "chance": chance, "p": d.p}


def sentence(arms: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]], measure: Measure) -> str:
    """The sentence of the result: the winner, the difference and the certainty, or that no arm is clearly better."""
    done = [arm for arm in arms if arm["seeds"]]
    if len(done) < 2:
        return "There is nothing to compare: fewer than two recipes have a finished run."
    if all(pair["p"] is None for pair in pairs):
        return f"One seed cannot show which recipe has the better {measure.name}; give --seeds 3 or more."
    order = sorted(done, key=lambda arm: -measure.sign * arm["final"]["mean"])
    top = order[0]["name"]
    beaten = {name for pair in pairs if pair["winner"] == top for name in (pair["a"], pair["b"])} - {top}
    others = [arm["name"] for arm in order[1:] if arm["name"] not in beaten]
    if not beaten:
        wins = [f"{pair['winner']} beats {pair['b'] if pair['winner'] == pair['a'] else pair['a']}" for pair in pairs if pair["winner"]]
        more = f" But {', '.join(wins)}." if wins else ""
        place = "highest" if measure.sign > 0 else "lowest"
        return f"It is not clear which recipe has the better {measure.name}: no difference to {top}, the {place}, is significant.{more}"
    told = [_told(pair, top) for pair in pairs if pair["winner"] == top]
    rest = f" The difference to {_and(others)} is not clear." if others else ""
    return f"{top} has the better {measure.name} than {'; than '.join(told)}.{rest}"


def _told(pair: Mapping[str, Any], top: str) -> str:
    """The other arm, the amount by which it is worse, and the interval of this amount."""
    sign = 1 if pair["mean"] >= 0 else -1
    amounts = [f"{x:.3f}" if abs(x) < 10 else f"{x:.3g}" for x in (abs(pair["mean"]), *sorted((sign * pair["low"], sign * pair["high"])))]
    return f"{pair['b'] if pair['a'] == top else pair['a']} by {amounts[0]} [{amounts[1]}, {amounts[2]}] (p = {pair['corrected']:.2g})"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def notes(experiment: Experiment, results: Results) -> list[str]:
    """Sentences about unequal terms and missing results."""
    runs = {(name, seed): run for name, by_seed in results.items() for seed, run in by_seed.items()}
    told = [f"{name}, seed {seed}, failed: {run['failed']}" for (name, seed), run in runs.items() if "failed" in run]
    whole = {at: run for at, run in runs.items() if "failed" not in run}
    for what, about in (("held_out", "held-out problems"), ("model", "models at the start")):
        if len({run["start"][what] for run in whole.values()}) > 1:
            told.append(f"the {about} are not the same in all runs")
    told += [*_replaced(experiment), *_other_problems(experiment, whole)]
    if any(not run["final"]["fresh"] for run in whole.values()):
        told.append("the task has too few held-out problems: the examination also uses the problems that chose the best weights, so the column best is too high")
    if experiment.budget.unit == "seconds":
        told.append("the budget is in seconds, so a repetition of this comparison ends at other steps")
    return told


def _replaced(experiment: Experiment) -> list[str]:
    """The sentence about a reward that judges every run in place of the recipe's own reward."""
    if not experiment.reward:
        return []
    judge = dict(experiment.fields).get("study.reward")
    held = "and held-out answers, too" if judge is None else f"and {judge} judges held-out answers"
    return [f"{_and(experiment.reward)} judge{'s' * (len(experiment.reward) == 1)} every training run in place of the recipe's reward, {held}"]


def _other_problems(experiment: Experiment, runs: Mapping[tuple[str, int], Mapping[str, Any]]) -> list[str]:
    """A sentence for each arm whose training problems differ from those of the first arm with the same seed. If one arm used fewer problems than the other,
    only the first problems are compared.
    """
    told, first = {}, experiment.arms[0].name
    for (name, seed), run in sorted(runs.items(), key=lambda item: item[0][1]):
        here, there = run["start"]["problems"], runs.get((first, seed), run)["start"]["problems"]
        apart = next((n for n, (a, b) in enumerate(zip(here, there), start=1) if a != b), None)
        if apart is not None and name not in told:
            order = "in another order" if set(here) & set(there[apart - 1 :]) else "other problems"
            told[name] = f"the training problems of {name} are not those of {first}: from number {apart} on they are {order} (seed {seed})"
    return list(told.values())
