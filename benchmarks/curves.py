"""The learning curve of each recipe next to its base, for the recipe's page: held-out accuracy (or reward) over the steps, three seeds.

    python -m benchmarks.curves                      # all recipes without a stored curve
    python -m benchmarks.curves dapo gigpo --again   # these, measured again
    python -m benchmarks.curves --limit 0            # only the seconds that each missing curve takes, cheapest first

A recipe learns on the proving ground that separates it (`HOMES`), else under the terms of the claim that says most about learning. Some steps of each arm are
timed first. If all runs together would take more than --seconds, the runs get fewer steps. The other arm is the base; if the base cannot run on these terms,
it is the other arm of the claim. `gradus.comparison.curves` describes the stored file.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import resource
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks import warmed
from gradus.comparison.claims import known, of_recipe
from gradus.comparison.compare import Comparison, compare
from gradus.comparison.curves import about_ground, about_task, by_reward, drawn, file_of, keep, reason_for_none, score_of
from gradus.comparison.ground import ground_of
from gradus.comparison.terms import experiment_of
from gradus.lab.provenance import versions
from gradus.recipe import index, registry
from gradus.recipe.claim import Claim
from gradus.recipe.overrides import override_all
from gradus.types import UserError, command
from gradus.types.players import Fresh

SEEDS, STEPS, MOST, LEAST, POINTS, FEWER = 3, 20, 60, 8, 6, 4  # FEWER: evaluations of a run if evaluations are slow
SECONDS = 60  # of one core, for all runs of a curve
PROBLEMS, LEAST_PROBLEMS = 32, 12  # held-out problems of an evaluation: at most, and at least if evaluations are slow
HOMES = {
    "grpo": "stale", "gspo": "stale", "rloo": "stale", "m2po": "stale", "cispo": "stale", "trpo": "unstable", "reinforce": "unstable",
    "expert_iteration": "slow", "rft": "slow", "best_of_n": "slow", "gigpo": "corridor", "sec": "ladder", "dapo": "sparse", "chord": "weak_to_strong",
    "chord_phi": "weak_to_strong", "luffy": "weak_to_strong", "sft": "depth", "dpo": "noisy_pairs", "orpo": "noisy_pairs", "ipo": "noisy_pairs",
     "simpo": "noisy_pairs", "kto": "noisy_pairs", "delethink": "window", "sapo": "stale", "gppo": "stale", "ngrpo": "sparse",
     "bapo": "stale", "group_relative_reinforce": "stale", "llds": "stale", "nft": "many_ways", "risk_po": "many_ways",
     "online_difficulty_filtering": "ladder", "mopps": "ladder", "dump": "ladder", "gain_rl": "ladder", "apo": "wordy", "mmr1_vas": "ladder",
     "reinforce_ada": "ladder", "knapsack_rl": "ladder", "gvm_raft": "ladder", "e3_rl4llms": "many_ways", "xrpo": "ladder", "pcl": "ladder",
     "rover": "many_ways", "flow_of_reasoning": "many_ways", "kimi_k1_5": "wordy",
     "otr": "two_skills", "prioritized_kl": "two_skills", "magistral": "wordy",
     "offline_rl_ld_dpo": "wordy", "scaling_up_rl_prolonged": "sparse",
}  # fmt: skip
"""The ground on which a recipe's curve is measured."""
_LEARNING = re.compile(r"accuracy|reward|held_out|auc|best|pass@|distinct")


@dataclass(frozen=True)
class Terms:
    """What a curve is measured on: a ground, or a task with its options; fields of all arms; the words of the arms by their names."""

    arms: Mapping[str, str]
    ground: str | None = None
    task: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    steps: int = STEPS
    against: str | None = None  # the other arm of the claim
    staged: bool = False  # the steps are those of stages
    timed: int = 2  # steps that are timed: at least one per stage
    problems: int = PROBLEMS  # most held-out problems of an evaluation
    points: int = POINTS  # evaluations of a run, after the one before the first step
    start: warmed.Start | None = None  # the fine-tuning that makes the start model


_SMALL = {f"players.{player}.model.hidden": "(64,64)" for player in ("policy", "critic")}
BY_HAND = {
    "wsrl": Terms(
        {"wsrl": "wsrl --schedule.stages.offline.until=Steps(count=10) --schedule.stages.online.until=Steps(count=20)", "sac": "sac"},
        task="pendulum",
        options={"recorded": "2000"},
        fields={**_SMALL, "optimizer.lr": "1e-3", "selection.warmup": "500", "agreement.every": "0"},
        steps=30,
        staged=True,
    ),
}
"""The terms of recipes whose claims have their own program."""
LEVELS = {"clpo": "3"}
"""The level of the task, if the start model solves no problem at the level of the claim."""


def terms_of(key: str) -> Terms:
    """The terms of a recipe's curve."""
    if key in BY_HAND:
        return BY_HAND[key]
    recipe = registry.recipe(key)
    arms = {key: key}
    if recipe.base in registry.recipe_modules():
        arms[str(recipe.base)] = str(recipe.base) + _fresh(key, str(recipe.base))
    home = HOMES.get(key)
    effects = [of.claim for of in known([key]) if of.claim.within is None] if _has_claims(key) else []  # a claim of equal weights switches the method off
    fitting = [claim for claim in effects if home in (None, claim.ground)]
    if not fitting:
        return Terms(arms, ground=home, steps=_steps(ground_of(home).budget) if home else STEPS)
    claim = min(fitting, key=_distance)
    silent = ("study", "eval_every", "setting.eval_every")
    fields = {name: value for name, value in claim.fields.items() if name not in silent and not (name == "learning_rate" and float(value) == 0)}
    ground = ground_of(claim.ground) if claim.ground else None
    steps = _steps(claim.budget or (ground.budget if ground else ""))
    alone = {name: value for name, value in fields.items() if len(arms) > 1 and not _has(str(recipe.base), name, value)}
    own = shlex.join([key, *(f"--{name}={value}" for name, value in {**alone, **claim.own}.items())])
    fields = {name: value for name, value in fields.items() if name not in alone}
    staged = any("schedule.stages" in name for name in [*fields, *alone, *claim.own])
    return Terms(
        {**arms, key: own},
        ground=claim.ground,
        task=claim.task,
        options={**claim.options, **({"level": LEVELS[key]} if key in LEVELS else {})},
        model=claim.model,
        fields=fields,
        steps=min(steps if ground or staged else max(steps, STEPS), MOST),
        against=claim.against,
        staged=staged,
        timed=max(2, len(getattr(recipe.schedule, "stages", ()))),
        start=warmed.STARTS[claim.script.split()[1]] if claim.script and claim.script.startswith("benchmarks.warmed ") else None,
    )


def _fresh(key: str, base: str) -> str:
    """The field of the base that makes a fresh network, if the recipe has one and the base has none."""
    own, other = (isinstance(registry.recipe(name).players["policy"].model, Fresh) for name in (key, base))
    return " --players.policy.model=Fresh" if own and not other else ""


def _has_claims(key: str) -> bool:
    return bool(next(row for row in index.read()["recipes"] if row["key"] == key).get("claims"))


def _has(key: str, name: str, value: str) -> bool:
    """Whether a recipe has a field that takes this value. A field that only one arm has is set in this arm alone."""
    try:
        override_all(registry.recipe(key), [(name, value)])
    except UserError:
        return False
    return True


def _distance(claim: Claim) -> tuple[bool, ...]:
    """The order of claims: first those about learning, measured by plain runs on a task."""
    measure = claim.measure or "accuracy"
    still = any(name.endswith("learning_rate") and float(value) == 0 for name, value in claim.fields.items()) or claim.budget == "steps=1"
    return still, not _LEARNING.match(measure), claim.script is not None, claim.ground is not None


def _steps(budget: str) -> int:
    unit, _, amount = budget.partition("=")
    return round(float(amount)) if unit == "steps" else STEPS


def started(terms: Terms, starts: Path) -> Terms:
    """The terms with the start model. The fine-tuning that makes it runs once for all recipes with the same start."""
    if (start := terms.start) is None:
        return terms
    made = warmed.model(start, starts / hashlib.sha256(repr(start).encode()).hexdigest()[:16])
    return replace(terms, model=made) if start.player is None else replace(terms, fields={**terms.fields, f"players.{start.player}.model": made})


def compared(terms: Terms, folder: Path, seeds: int, steps: int, every: int) -> tuple[Comparison, dict[str, str]]:
    """The finished comparison, and the fields that all its arms got. Raises UserError if a run fails."""
    given: dict[str, Any] = {"ground": terms.ground} if terms.ground else {"task": terms.task, "task_options": terms.options or None}
    study = [getattr(registry.recipe(word.split()[0]), "study", None) for word in terms.arms.values()]
    asked = int(terms.fields.get("study.problems", ground_of(terms.ground).fields.get("study.problems", PROBLEMS) if terms.ground else PROBLEMS))
    small = {"study.problems": str(min(asked, terms.problems))} if all(hasattr(one, "problems") for one in study) else {}
    small |= {"study.greedy": "false"} if all(hasattr(one, "greedy") for one in study) else {}
    fields = {**terms.fields, **small, "eval_every": str(every)}
    experiment = experiment_of(
        list(terms.arms.values()),
        seeds=seeds,
        fields=fields,
        problems=1,
        samples=1,
        budget=f"steps={steps}",
        **{name: value for name, value in {**given, "model": terms.model}.items() if value is not None},
    )
    made = compare(replace(experiment, measure="accuracy", shows=(), others=()), folder, processes=1)
    failed = [f"{name}: {run['failed']}" for name, runs in made.results.items() for run in runs.values() if "failed" in run]
    if failed:
        raise UserError(failed[0])
    return made, fields


def fitted(terms: Terms, folder: Path, most: float = SECONDS) -> tuple[Terms, float]:
    """The terms with as many steps as fit into `most` seconds, and the expected seconds of one core. Times some steps and two evaluations of each arm."""
    began, clock = _spent(), time.perf_counter()
    made, _ = compared(terms, folder / "timed", 1, terms.timed, 0)
    busy = _busy(_spent() - began, time.perf_counter() - clock)
    times = [run["times"] for runs in made.results.values() for run in runs.values()]
    step = busy * sum(found["steps"] for found in times) / terms.timed * SEEDS
    one = busy * sum(found["train"] - found["steps"] for found in times) / 2 * SEEDS  # seconds of an evaluation
    rest = one * (POINTS + 1)
    if rest > most / 2:
        problems = max(LEAST_PROBLEMS, int(PROBLEMS * most / 2 / (one * (FEWER + 1))))
        terms = replace(terms, problems=min(problems, PROBLEMS), points=FEWER)
        rest = one * (FEWER + 1) * terms.problems / PROBLEMS
    if terms.staged or step * terms.steps + rest <= most:
        return terms, step * terms.steps + rest
    steps = max(min(LEAST, terms.steps), int((most - rest) / step))
    return replace(terms, steps=steps), step * steps + rest


def _busy(spent: float, seconds: float) -> float:
    """The share of the clock time in which this machine worked for the runs. Other programs slow the clock, not the processor time."""
    return min(max(spent / seconds, 0.25), 1.0)


def _spent() -> float:
    """The processor time of this process and its finished children, in seconds."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def measured(terms: Terms, folder: Path) -> dict[str, Any]:
    """The curves of all arms. Raises UserError if a run fails."""
    made, fields = compared(terms, folder / "runs", SEEDS, terms.steps, -(-terms.steps // terms.points))
    names = dict(zip([arm.name for arm in made.experiment.arms], terms.arms, strict=True))
    results = {names[name]: runs for name, runs in made.results.items()}
    place = ["--ground", terms.ground] if terms.ground else ["--task", terms.task, *(f"--task.{n}={v}" for n, v in terms.options.items())]
    options = [f"--{name}={value}" for name, value in fields.items()]
    model = ["--model", terms.model] if terms.model else []
    budget = ["--budget", f"steps={terms.steps}"]
    again = command("compare", *terms.arms.values(), *(place if place[1] else []), *model, "--seeds", SEEDS, *budget, *options)
    lines = drawn(results)
    if lines and not any(mean for points in lines.values() for _, mean, *_ in points):
        results = by_reward(results)
        lines = drawn(results)
    if not any(mean for points in lines.values() for _, mean, *_ in points):
        raise UserError("no arm gives a right answer at any evaluation, so the curve says nothing; set an easier level in LEVELS")
    return {
        "score": score_of(results),
        "about": (about_ground(terms.ground) if terms.ground else about_task(terms.task, terms.options, terms.steps)) + taught(terms.start),
        "seeds": SEEDS,
        "curves": lines,
        "command": again if terms.start is None else f"python -m benchmarks.curves {next(iter(terms.arms))}",
        **{name: found for name, found in versions().items() if name in ("gradus", "source")},
    }


def taught(start: warmed.Start | None) -> str:
    """The sentence about the fine-tuning that makes the start model; "" without one."""
    if start is None:
        return ""
    one = "start model has" if start.player is None else f"player {start.player} has"
    return f" The {one} had {start.steps} steps of supervised fine-tuning on worked solutions."


def pairs_of(key: str, terms: Terms) -> Iterator[Terms]:
    """The terms with the base as the other arm, then with the other arm of the claim, and finally with the recipe alone."""
    yield terms
    if len(terms.arms) > 1:
        if terms.against is not None and terms.against not in terms.arms:
            yield replace(terms, arms={key: terms.arms[key], terms.against: terms.against})
        yield replace(terms, arms={key: terms.arms[key]})


def curve_of(key: str, folder: Path, starts: Path, most: float, limit: float) -> tuple[dict[str, Any] | None, float]:
    """The curve of a recipe, and its expected seconds. The curve is None if it would take more than `limit` seconds.

    Raises the UserError of the last attempt if no arms can run.
    """
    last = UserError(f"{key} has no terms")
    for number, terms in enumerate(pairs_of(key, started(terms_of(key), starts))):
        try:
            fit, seconds = fitted(terms, folder / str(number), most)
            return None if seconds > limit else measured(fit, folder / str(number)), seconds
        except UserError as error:
            print(f"{key} as {' and '.join(terms.arms)}: {error}", file=sys.stderr, flush=True)
            last = error
    raise last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keys", nargs="*")
    parser.add_argument("--again", action="store_true", help="measure recipes that have a curve, too")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="seconds of one core for all runs of a curve; slow recipes get fewer steps")
    parser.add_argument("--limit", type=float, default=180, help="leave out curves that take more than this number of seconds (0: only print the seconds)")
    parser.add_argument("--starts", type=Path, help="folder that keeps the start models for later calls; without it no start model is kept")
    options = parser.parse_args()
    rows = {row["key"]: row for row in index.read()["recipes"] if row["family"] != "other"}
    prices = []
    for key in options.keys or rows:
        path = file_of(rows[key]["family"], key)
        if path.is_file() and not options.again:
            continue
        if (why := reason_for_none([of.claim for of in of_recipe(rows[key])])) is not None:
            print(f"{key}: {why}", flush=True)
            continue
        began = time.perf_counter()
        try:
            with tempfile.TemporaryDirectory() as folder:
                found, seconds = curve_of(key, Path(folder), options.starts or Path(folder) / "starts", options.seconds, options.limit)
        except UserError as error:
            print(f"{key}: {error}", file=sys.stderr, flush=True)
            continue
        prices.append((seconds, key))
        if found is None:
            print(f"{key}: left out, {seconds:.0f} s", flush=True)
            continue
        keep(path, found)
        ends = ", ".join(f"{name} {points[0][1]:.3f} -> {points[-1][1]:.3f}" for name, points in found["curves"].items())
        print(f"{key}: {ends} ({time.perf_counter() - began:.0f} s, expected {seconds:.0f} s)", flush=True)
    if not options.limit:
        print(" ".join(key for _, key in sorted(prices)))


if __name__ == "__main__":
    main()
