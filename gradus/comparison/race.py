"""A race from its first run to its winner.

A race has several rungs, and a run continues from rung to rung. All results are written atomically, so the same call continues an interrupted race.

The plan of every run has the full length, and a rung only pauses the run earlier. So if a run reaches the next rung, it continues from its checkpoint. The
schedules of a run depend on the finished share of the full run. The run of a finalist has the same bytes as a run without pauses. If the learning rate of a
recipe decays, early rungs judge the recipe while its rate is still high.

The files of a race: race.json (terms, contestants, plan, and at the end the result), results/ (one for each run and rung), runs/, pilot/
(one step, which gives the estimate of time), winner.py, report.html. The runs of losers keep their metrics; their checkpoints are deleted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gradus.comparison import contestants
from gradus.comparison.compare import Comparison
from gradus.comparison.contestants import Choice, entrants_of
from gradus.comparison.experiment import Experiment, folder_name
from gradus.comparison.job import Job
from gradus.comparison.measures import Measure, values
from gradus.comparison.pool import carry_out_all
from gradus.comparison.rungs import Rung, Scores, affordable, cost, rungs_of
from gradus.lab import checkpoints
from gradus.lab.atomic_files import encode, write
from gradus.lab.folder import RunFolder, is_run
from gradus.runtime.cores import usable_cores
from gradus.training.budget import Budget, budget_of, spent
from gradus.training.interrupts import seconds_of
from gradus.types import UserError

RACE, RUNS, RESULTS, PILOT = "race.json", "runs", "results", "pilot"
POINTS = 4  # evaluations of a full run
RESERVE = 0.1  # this share of a time budget is kept as a reserve
PILOTS = 3  # the pilot tries at most this number of contestants; if all of them fail, the race ends

Screen = Callable[[int], AbstractContextManager[Any]]
"""Makes the display of this number of runs; see `gradus.comparison.progress.Display`."""


@dataclass(frozen=True)
class Asked:
    """The request for a race. `experiment`: the terms; its arms are the candidate recipes. `budget`: the budget of all runs together; the unit seconds means
    clock time.
    """

    experiment: Experiment
    choice: Choice
    budget: Budget

    def __post_init__(self) -> None:
        if self.experiment.measure in ("auc", "best"):
            raise UserError(f"--measure is {self.experiment.measure}, which needs full runs, but a race judges parts of runs; choose accuracy or pass@K")

    def stored(self) -> dict[str, Any]:
        """The race as plain values."""
        tries = [[name, list(found)] for name, found in self.choice.tries]
        budget = [self.budget.unit, self.budget.amount]
        return {"experiment": self.experiment.stored(), "rates": list(map(str, self.choice.rates)), "tries": tries, "budget": budget}


def budget_of_race(text: str) -> Budget:
    """Reads the budget of a race: a duration such as 2h, or a unit and an amount for all runs together. Raises UserError for any other text.

    >>> budget_of_race("2h"), str(budget_of_race("tokens=2e6"))
    (Budget(unit='seconds', amount=7200.0, points=10), 'tokens=2e+06')
    """
    if "=" in text:
        return budget_of(text)
    try:
        return Budget("seconds", seconds_of(text))
    except UserError:
        raise UserError(
            f'--budget is "{text}"; write the budget of all runs together: a duration such as 2h, 30m or 90s, or tokens=N, rollouts=N or steps=N'
        ) from None


@dataclass
class Race:
    """A race in its folder. `document` is the content of race.json; only its field `times` depends on the clock."""

    asked: Asked
    folder: Path
    document: dict[str, Any]
    processes: int = 0
    screen: Screen | None = None
    said: Callable[[str], None] = lambda _: None
    results: dict[tuple[str, int, int], dict[str, Any]] = field(default_factory=dict)  # (contestant, seed, rung) -> result
    began: float = field(default_factory=time.monotonic)

    @property
    def unit(self) -> str:
        return self.asked.budget.unit

    @property
    def timed(self) -> bool:
        return self.unit == "seconds"

    @property
    def at_once(self) -> int:
        """The number of parallel runs. Runs with a time budget also run in parallel, because each run has its own core."""
        return self.processes or (usable_cores() if self.asked.experiment.device == "cpu" else 1)

    @property
    def experiment(self) -> Experiment:
        """The experiment of full runs of all contestants."""
        arms = contestants.read(self.document).contestants
        return replace(self.asked.experiment, arms=arms, budget=Budget(self.unit, self.document["full"], POINTS))

    @property
    def rungs(self) -> tuple[Rung, ...]:
        return tuple(Rung(*rung) for rung in self.document["rungs"])

    def save(self) -> None:
        """Writes race.json with the time that is used so far."""
        now = time.monotonic()
        self.document["times"]["used"] += now - self.began
        self.began = now
        write(self.folder / RACE, encode(self.document))

    def left(self) -> float:
        """The rest of the budget, for all parallel runs together."""
        if self.timed:
            return (self.asked.budget.amount * (1 - RESERVE) - self.document["times"]["used"] - (time.monotonic() - self.began)) * self.at_once
        return self.asked.budget.amount - spent_in([*(self.folder / PILOT).glob("*"), *(self.folder / RUNS).glob("*")], self.unit)

    @property
    def extra(self) -> float:
        """The extra cost of each start or continuation of a run.

        This cost contains half a step, because on average a run exceeds its end by half a step. If the budget is in steps, this part is 0. For a time budget,
        the cost also contains the time to start and to examine a run.
        """
        pilot = self.document["times"]["pilot"] if self.timed else self.document["pilot"]
        return float(pilot["start"] + pilot["examine"] + pilot["step"] / 2 if self.timed else pilot[self.unit] / 2 if self.unit != "steps" else 0.0)

    @property
    def step(self) -> float:
        """The amount that one step of the pilot used."""
        return float(self.document["times"]["pilot"]["step"] if self.timed else self.document["pilot"][self.unit])

    def carry_out(self, jobs: Sequence[Job], number: int, share: float) -> dict[tuple[str, int], dict[str, Any]]:
        """Executes the jobs of a rung, or of the pilot (number -1). A failed run is {"failed": reason}. share: length as a share of a full run."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        made = Comparison(self.asked.experiment, self.folder)
        with self.screen(len(jobs)) if self.screen is not None and jobs else nullcontext() as shown:

            def heard(job: Job, line: dict[str, Any]) -> None:
                if "result" in line and number >= 0:
                    write(self.place(job, number), encode({"result": line["result"]}))
                    self.save()
                if "result" in line or "failed" in line:
                    found[job.arm.name, job.seed] = line.get("result") or {"failed": line["failed"]}
                if shown is not None:
                    shown(made, job, {**line, "total": line["total"] * share} if "total" in line else line)

            carry_out_all(jobs, self.at_once, heard, threads=1 if self.asked.experiment.device == "cpu" else usable_cores())
        return found

    def place(self, job: Job, number: int) -> Path:
        """The file of the result of a run at a rung."""
        return self.folder / RESULTS / f"{folder_name(job.arm, job.seed)}-rung{number + 1}.json"

    def scores(self, number: int, rung: Rung, names: Sequence[str]) -> Scores | None:
        """Trains the contestants of a rung, or reads their stored results. Returns None if the budget is used up."""
        amount = self.amount(number, len(names))
        if amount is None:
            return None
        experiment = self.experiment
        arms = {arm.name: arm for arm in experiment.arms}
        self.prune(names)
        wanted = [
            Job(experiment, arms[name], seed, self.folder / RUNS / folder_name(arms[name], seed), amount)
            for seed in experiment.seeds[: rung.seeds]
            for name in names
        ]
        places = {(job.arm.name, job.seed): self.place(job, number) for job in wanted}
        known = {at: json.loads(path.read_text())["result"] for at, path in places.items() if path.is_file()}
        jobs = [job for job in wanted if (job.arm.name, job.seed) not in known]
        if jobs:
            self.said(f"rung {number + 1} of {len(self.rungs)}: {counted(len(names), 'contestant')}, to {shown_amount(self.unit, amount)} each")
        fresh = self.carry_out(jobs, number, amount / experiment.budget.amount)
        for at, result in fresh.items():
            if "failed" in result:
                write(places[at], encode({"result": result}))
        self.results |= {(name, seed, number): result for (name, seed), result in {**known, **fresh}.items()}
        measure = Measure(experiment.measure)
        return {name: scored(measure, [self.results[name, seed, number] for seed in experiment.seeds[: rung.seeds]]) for name in names}

    def amount(self, number: int, arms: int) -> float | None:
        """The length of a rung's runs: the planned length, or a shorter length if the rest of the budget is too small. None if the rest is less than one
        step.
        """
        amounts, rungs = self.document["amounts"], self.rungs
        if number < len(amounts):
            return float(amounts[number])
        reached = amounts[-1] if amounts else 0.0
        now = self.document["full"]
        if number:
            how = {"arms": arms, "reached": reached, "seeds": rungs[number - 1].seeds, "extra": self.extra}
            now = min(now, affordable(rungs[number:], self.left(), **how))
        amount = amount_of(self.unit, rungs[number].share * now)
        if number and amount - reached < self.step:
            return None
        amounts.append(amount)
        self.save()
        return amount

    def prune(self, names: Sequence[str]) -> None:
        """Deletes the checkpoints of contestants that have lost."""
        kept = {folder_name(arm, seed) for arm in self.experiment.arms if arm.name in names for seed in self.experiment.seeds}
        for run in (self.folder / RUNS).glob("*"):
            if run.name not in kept and is_run(run):
                for name in ("best", "final"):
                    RunFolder.open(run).unlink(name)
                for path in checkpoints.steps(run).values():
                    checkpoints.discard(path)


def scored(measure: Measure, results: Sequence[Mapping[str, Any]]) -> Any:
    """The values of a contestant, float64 [seeds, problems], or the reason of a failed run."""
    for result in results:
        if "failed" in result:
            return str(result["failed"])
    try:
        return values(measure, results)
    except UserError as error:
        return str(error)


def spent_in(runs: Sequence[Path], unit: str) -> float:
    """The amount that all these runs have spent."""
    return sum(spent(unit, RunFolder.open(run).metrics(), {}) for run in runs if is_run(run))


def counted(count: int, what: str) -> str:
    """A number with its noun: '1 run', '1,200 runs'."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def amount_of(unit: str, amount: float) -> float:
    """The amount at which a run can pause. For the unit steps: a whole number, at least 1; for other units: the amount itself."""
    return float(max(1, int(amount))) if unit == "steps" else amount


def shown_amount(unit: str, amount: float) -> str:
    """An amount of a budget as text: '40 steps', '1,200 tokens', '12.5 seconds'."""
    return f"{amount:,.1f} seconds" if unit == "seconds" else f"{amount:,.0f} {unit}"


def opened(asked: Asked, folder: Path) -> dict[str, Any]:
    """The document of the race in its folder. Raises UserError if the folder contains another race or other files."""
    path, stored = folder / RACE, json.loads(json.dumps(asked.stored()))
    if path.is_file():
        document: dict[str, Any] = json.loads(path.read_text())
        if document["asked"] != stored:
            differs = [name for name in stored if document["asked"].get(name) != stored[name]]
            raise UserError(f"{folder} contains a race that differs in {', '.join(differs)}; name another folder with --run")
        return document
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} contains files but no race; name another folder with --run")
    return {"asked": stored, "times": {"used": 0.0}}


def enter(race: Race) -> None:
    """Finds the contestants. If fewer than two contestants fit, raises UserError before any file is written."""
    if "contestants" not in race.document:
        asked = race.asked
        experiment = replace(asked.experiment, budget=Budget(asked.budget.unit, 1000.0, POINTS))
        race.document |= contestants.stored(entrants_of(experiment, asked.choice, race.said))
        (race.folder / RESULTS).mkdir(parents=True, exist_ok=True)
        race.save()


def try_out(race: Race) -> None:
    """Runs the pilot: one step of a contestant, which gives the size of a step and the times.

    Raises UserError if the first `PILOTS` contestants all fail.
    """
    if "pilot" in race.document:
        return
    experiment = replace(race.asked.experiment, arms=contestants.read(race.document).contestants, budget=Budget("steps", 1, 1))
    reasons = []
    for number, arm in enumerate(experiment.arms[:PILOTS]):
        race.said(f"pilot: one step of {arm.name}")
        job = Job(experiment, arm, experiment.seeds[0], race.folder / PILOT / str(number))
        result = race.carry_out([job], -1, 1.0).get((arm.name, job.seed), {"failed": "it was stopped"})
        if "failed" in result:
            reasons.append(f"{arm.name}: {result['failed']}")
            continue
        values(Measure(experiment.measure), [result])  # raises for a metric that runs do not have
        clock = result["times"]
        race.document["pilot"] = {"arm": arm.name, **result["spent"]}
        race.document["times"]["pilot"] = {"step": clock["steps"], "start": clock["train"] - clock["steps"], "examine": clock["examine"]}
        race.save()
        return
    raise UserError(f"the race cannot begin, because all of its first runs failed; fix the cause, and start the race again. {'; '.join(reasons)}")


def lay_out(race: Race) -> None:
    """Plans the rungs. Raises UserError if the budget is too small for one step of each run of the first rung."""
    if "full" not in race.document:
        experiment = race.asked.experiment
        rungs = rungs_of(len(race.document["contestants"]), len(experiment.seeds))
        full = affordable(rungs, race.left(), extra=race.extra)
        if full * rungs[0].share < race.step:
            raise UserError(_too_small(race, rungs))
        race.document["full"] = float(int(full)) if race.unit == "steps" else full
        race.document |= {"rungs": [[r.arms, r.seeds, r.share] for r in rungs], "amounts": []}
        race.document["times"]["estimate"] = expected_seconds(race, rungs, full)
        race.save()


def _too_small(race: Race, rungs: Sequence[Rung]) -> str:
    slope, fixed = cost(rungs, extra=race.extra)
    needed = slope * race.step / rungs[0].share + fixed
    asked = race.asked.budget.amount
    needed = (needed / race.at_once + race.document["times"]["used"]) / (1 - RESERVE) if race.timed else needed + race.step
    given, wanted = (f"{n / 60:.1f}m" if race.timed else f"{race.unit}={n:.0f}" for n in (asked, 1.1 * needed))
    return (
        f"--budget {given} is too small for {len(race.document['contestants'])} contestants in {len(rungs)} rungs: the runs of the first rung would have less "
        f"than one step; give --budget {wanted} or more, name fewer recipes, or try fewer settings with --rates 1"
    )


def expected_seconds(race: Race, rungs: Sequence[Rung], full: float) -> float:
    """The time that the race takes if every run is like the pilot."""
    pilot = race.document["times"]["pilot"]
    slope, fixed = cost(rungs, extra=pilot["start"] + pilot["examine"])
    return float((slope * full * pilot["step"] / race.step + fixed) / race.at_once)
