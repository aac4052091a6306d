"""A comparison from its first run to its page.

A comparison reuses finished runs, executes the other runs in parallel, and writes complete results.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradus.comparison.experiment import Experiment, folder_name
from gradus.comparison.job import Job, checked, identity, without_clock
from gradus.comparison.pool import carry_out_all
from gradus.comparison.table import figures
from gradus.comparison.terms import experiment_of
from gradus.lab.atomic_files import aside, encode, write
from gradus.lab.provenance import versions
from gradus.runtime.cache import cache_folder
from gradus.runtime.cores import usable_cores
from gradus.types import UserError

EXPERIMENT, RESULT, RUNS, RESULTS, LOG = "experiment.json", "compare.json", "runs", "results", "workers.log"

Shown = Callable[["Comparison", Job, dict[str, Any]], None]


@dataclass
class Comparison:
    """An experiment in its folder, and the results by arm and seed."""

    experiment: Experiment
    folder: Path
    results: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    reused: list[str] = field(default_factory=list)
    copied: dict[tuple[str, int], str] = field(default_factory=dict)  # (arm, seed) -> identity of each reused run
    aside: list[Path] = field(default_factory=list)  # unfinished runs that were made with other code, files or terms; these runs start again

    def jobs(self) -> list[Job]:
        """All runs, seed by seed. If the comparison ends early, the first seeds are complete."""
        return [Job(self.experiment, arm, seed, self.folder / RUNS / folder_name(arm, seed)) for seed in self.experiment.seeds for arm in self.experiment.arms]

    def result(self, job: Job) -> dict[str, Any] | None:
        return self.results.get(job.arm.name, {}).get(job.seed)

    def keep(self, job: Job, result: dict[str, Any]) -> None:
        self.results.setdefault(job.arm.name, {})[job.seed] = result

    def own(self, job: Job) -> Path:
        """The file for the result of a run."""
        return self.folder / RESULTS / f"{folder_name(job.arm, job.seed)}.json"

    def begin(self) -> None:
        """Makes the folder, with the experiment and the results that are reused."""
        (self.folder / RESULTS).mkdir(parents=True, exist_ok=True)
        write(self.folder / EXPERIMENT, encode(self.experiment.stored()))
        for job in self.jobs():
            if (name := self.copied.get((job.arm.name, job.seed))) is not None:
                write(self.own(job), encode({"identity": name, "result": self.result(job)}))

    def set_out(self, job: Job, name: str) -> None:
        """Marks the folder of a run with the run's identity. If the folder has another mark, renames it, because its steps were made with other code or other
        files.
        """
        mark = self.own(job).with_suffix(".begun")
        if job.folder.exists() and mark.exists() and mark.read_text() != name:
            self.aside.append(aside(job.folder))
        write(mark, name.encode())

    def document(self) -> dict[str, Any]:
        """The comparison as plain values. Only the field `times` depends on the clock."""
        runs = {arm.name: {str(seed): self.results.get(arm.name, {}).get(seed) for seed in self.experiment.seeds} for arm in self.experiment.arms}
        return {
            "experiment": self.experiment.stored(),
            **figures(self.experiment, self.results),
            "runs": {name: {seed: None if run is None else without_clock(run) for seed, run in found.items()} for name, found in runs.items()},
            "times": {name: {seed: run["times"] for seed, run in found.items() if run is not None and "times" in run} for name, found in runs.items()},
        }


def opened(experiment: Experiment, folder: Path) -> Comparison:
    """The comparison of a folder, which may not exist yet. Raises UserError if the folder contains another comparison or other files."""
    path = folder / EXPERIMENT
    if path.is_file():
        mine = json.loads(json.dumps(experiment.stored()))
        if (stored := _stored(path)) != mine:
            differs = [name for name in mine if stored.get(name) != mine[name]]
            raise UserError(f"{folder} contains a comparison that differs in {', '.join(differs)}; name another folder with --run")
    elif folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} contains files but no comparison; name another folder with --run")
    return Comparison(experiment, folder)


def _stored(path: Path) -> dict[str, Any]:
    """The stored experiment in the present form. If the older form lacks a field, the field gets its default."""
    try:
        return dict(json.loads(json.dumps(Experiment.read(json.loads(path.read_text())).stored())))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}: {error}); name another folder with --run") from None


def store() -> Path:
    """The folder of finished runs, which later comparisons reuse."""
    return cache_folder("results")


def compare(
    experiment: Experiment, folder: Path | str, *, processes: int = 0, fresh: bool = False, shown: Shown | None = None
) -> Comparison:
    """Executes the unfinished runs, and writes compare.json and report.html into the folder. The same call continues an interrupted
    comparison.

    Args: `processes`: the number of parallel runs (0: on the CPU one run per core; on another device, or with a budget of seconds, one run at a time).
    `fresh`: reuses no run of another comparison.
    Raises: UserError, before anything runs, if a recipe does not fit the task or the model.
    """
    timed, cores, known = experiment.budget.unit == "seconds", usable_cores(), versions()
    if timed and processes > 1:
        raise UserError(f"--parallel is {processes}, but a budget of seconds needs one run at a time (parallel runs slow each other down); leave --parallel out")
    made = opened(experiment, Path(folder))
    names = {(job.arm.name, job.seed): identity(job, known) for job in made.jobs()}
    left = [job for job in made.jobs() if not _found(made, job, names[job.arm.name, job.seed], elsewhere=not (fresh or timed))]
    for job in {job.arm.name: job for job in left}.values():
        checked(job)
    made.begin()
    for job in left:
        made.set_out(job, names[job.arm.name, job.seed])

    def heard(job: Job, line: dict[str, Any]) -> None:
        if "result" in line:
            line = _kept(made, job, names[job.arm.name, job.seed], line)
        if "failed" in line:
            made.keep(job, {"failed": line["failed"]})
        if shown is not None:
            shown(made, job, line)

    at_once = 1 if timed else processes or (cores if experiment.device == "cpu" else 1)
    carry_out_all(left, at_once, heard, threads=cores if timed else 1, log=made.folder / LOG)
    finish(made)
    return made


def _found(made: Comparison, job: Job, name: str, *, elsewhere: bool) -> bool:
    """Whether the run is finished in this folder, or, with `elsewhere`, in another comparison. The result of a finished run is kept."""
    own = _read(made.own(job), name)
    result = own if own is not None or not elsewhere else _read(store() / f"{name}.json", name)
    if result is None:
        return False
    if own is None:
        made.reused.append(job.arm.name)
        made.copied[job.arm.name, job.seed] = name
    made.keep(job, result)
    return True


def _kept(made: Comparison, job: Job, name: str, line: dict[str, Any]) -> dict[str, Any]:
    """Keeps and stores the result of a finished run.

    Returns the line of the result, or a line of failure if the disk cannot store the result.
    """
    document = encode({"identity": name, "result": line["result"]})
    try:
        write(made.own(job), document)
    except OSError as error:
        return {"failed": f"its result cannot be stored: {error.strerror} at {made.own(job)}; free some space, and repeat the command"}
    made.keep(job, line["result"])
    with suppress(OSError):  # a later comparison trains the run again
        store().mkdir(parents=True, exist_ok=True)
        write(store() / f"{name}.json", document)
    return line


def finish(made: Comparison) -> None:
    """Writes the result and its page."""
    from gradus.comparison.page import write_page

    document = made.document()
    write(made.folder / RESULT, encode(document))
    write_page(made.folder, document)


def _read(path: Path, name: str) -> dict[str, Any] | None:
    """The stored result of a run with this identity; None if there is no result, or if it was made with other code or another plan."""
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return stored["result"] if isinstance(stored, dict) and stored.get("identity") == name else None


def compare_recipes(
    *recipes: str, run: Path | str, processes: int = 0, fresh: bool = False, shown: Shown | None = None, **terms: Any
) -> dict[str, Any]:
    """Trains recipes on equal terms in the folder `run`. Returns the document of the comparison; see `gradus compare --help`.

    Args: `recipes`: keys, with changes as on the command line. `run`: the folder to make, or to continue. `processes`: the number of parallel runs (0: as for
    `compare`). `fresh`: trains again even if results exist. `shown`: shows a table during the runs. `terms`: as for `experiment_of`: ground, task, model,
    seeds, budget, measure, shows, others, problems, samples, profile, device, reward, task_options and fields (of every recipe, as text).
    """
    return compare(experiment_of(recipes, **terms), run, processes=processes, fresh=fresh, shown=shown).document()
