"""A comparison from its first run to its page: what is finished is reused, what is left runs in parallel, and the result is written whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradus.comparison.experiment import Experiment, folder_name
from gradus.comparison.job import Job, checked, identity, without_clock
from gradus.comparison.pool import carry_out_all
from gradus.comparison.table import figures
from gradus.comparison.terms import experiment_of
from gradus.lab.atomic_files import encode, write
from gradus.lab.provenance import versions
from gradus.runtime.cores import usable_cores
from gradus.types import UserError

EXPERIMENT, RESULT, RUNS, RESULTS = "experiment.json", "compare.json", "runs", "results"

Shown = Callable[["Comparison", Job, dict[str, Any]], None]


@dataclass
class Comparison:
    """An experiment in its folder, and the results by arm and seed."""

    experiment: Experiment
    folder: Path
    results: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    reused: list[str] = field(default_factory=list)

    def jobs(self) -> list[Job]:
        """All runs, seed by seed, so that an early end leaves whole seeds."""
        return [Job(self.experiment, arm, seed, self.folder / RUNS / folder_name(arm, seed)) for seed in self.experiment.seeds for arm in self.experiment.arms]

    def result(self, job: Job) -> dict[str, Any] | None:
        return self.results.get(job.arm.name, {}).get(job.seed)

    def keep(self, job: Job, result: dict[str, Any]) -> None:
        self.results.setdefault(job.arm.name, {})[job.seed] = result

    def document(self) -> dict[str, Any]:
        """The whole comparison as plain values; only the field `times` depends on the clock."""
        runs = {arm.name: {str(seed): self.results.get(arm.name, {}).get(seed) for seed in self.experiment.seeds} for arm in self.experiment.arms}
        return {
            "experiment": self.experiment.stored(),
            **figures(self.experiment, self.results),
            "runs": {name: {seed: None if run is None else without_clock(run) for seed, run in found.items()} for name, found in runs.items()},
            "times": {name: {seed: run["times"] for seed, run in found.items() if run is not None and "times" in run} for name, found in runs.items()},
        }


def opened(experiment: Experiment, folder: Path) -> Comparison:
    """The comparison in its folder, with what is finished there. Raises UserError if the folder holds another one, or other files."""
    path = folder / EXPERIMENT
    if path.is_file():
        if (stored := json.loads(path.read_text())) != json.loads(json.dumps(experiment.stored())):
            differs = [name for name in experiment.stored() if stored.get(name) != json.loads(json.dumps(experiment.stored()[name]))]
            raise UserError(f"{folder} holds another comparison, which differs in {', '.join(differs)}; name another folder with --run")
    elif folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} holds files but no comparison; name another folder with --run")
    folder.mkdir(parents=True, exist_ok=True)
    write(path, encode(experiment.stored()))
    (folder / RESULTS).mkdir(exist_ok=True)
    return Comparison(experiment, folder)


def store() -> Path:
    """The folder of finished runs, which later comparisons reuse."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "gradus" / "results"


def compare(
    experiment: Experiment, folder: Path | str, *, processes: int = 0, fresh: bool = False, shown: Shown | None = None
) -> Comparison:
    """Runs what is not finished, and writes compare.json and report.html into the folder. The same call continues an interrupted comparison.

    Args: processes: runs at a time; 0: one for each core, but one alone on another device than the processor and for a budget of seconds.
    fresh: reuses no run of another comparison.
    Raises: UserError, before anything runs, if a recipe does not fit the task or the model.
    """
    timed, cores, known = experiment.budget.unit == "seconds", usable_cores(), versions()
    if timed and processes > 1:
        raise UserError(f"--parallel is {processes}, but runs with a budget of seconds go one at a time, or they would slow each other; leave it out")
    made = opened(experiment, Path(folder))
    left: list[Job] = []
    names: dict[tuple[str, int], str] = {}
    for job in made.jobs():
        own = made.folder / RESULTS / f"{folder_name(job.arm, job.seed)}.json"
        names[job.arm.name, job.seed] = name = identity(job, known)
        stored = _read(own, name) or (None if fresh or timed else _read(store() / f"{name}.json", name))
        if stored is None:
            left.append(job)
            continue
        if not own.exists():
            made.reused.append(job.arm.name)
            write(own, encode({"identity": name, "result": stored}))
        made.keep(job, stored)
    for job in {job.arm.name: job for job in left}.values():
        checked(job)

    def heard(job: Job, line: dict[str, Any]) -> None:
        if "result" in line:
            made.keep(job, line["result"])
            document = encode({"identity": names[job.arm.name, job.seed], "result": line["result"]})
            write(made.folder / RESULTS / f"{folder_name(job.arm, job.seed)}.json", document)
            store().mkdir(parents=True, exist_ok=True)
            write(store() / f"{names[job.arm.name, job.seed]}.json", document)
        elif "failed" in line:
            made.keep(job, {"failed": line["failed"]})
        if shown is not None:
            shown(made, job, line)

    at_once = 1 if timed else processes or (cores if experiment.device == "cpu" else 1)
    carry_out_all(left, at_once, heard, threads=cores if timed else 1)
    finish(made)
    return made


def finish(made: Comparison) -> None:
    """Writes the result and its page."""
    from gradus.comparison.page import write_page

    document = made.document()
    write(made.folder / RESULT, encode(document))
    write_page(made.folder, document)


def _read(path: Path, name: str) -> dict[str, Any] | None:
    """The stored result of a run with this identity; None if there is none, or if it belongs to another code or plan."""
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return stored["result"] if isinstance(stored, dict) and stored.get("identity") == name else None


def compare_recipes(
    *recipes: str, run: Path | str, processes: int = 0, fresh: bool = False, shown: Shown | None = None, **terms: Any
) -> dict[str, Any]:
    """Trains recipes on equal terms in the folder `run`, and returns the document of the comparison; see `gradus compare --help`.

    Args: recipes: as on the command line; processes, fresh, shown: as for `compare`; terms: as for `experiment_of`: ground, task, model, seeds, budget,
    measure, shows, others, problems, samples, profile, device, reward, task_options and fields (of every recipe, as text).
    """
    return compare(experiment_of(recipes, **terms), run, processes=processes, fresh=fresh, shown=shown).document()
