"""The folder of a run: its recipe, provenance, metrics, timings, rollouts, checkpoints, and links to its best and final model."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.lab import checkpoints, rollouts
from gradus.lab.atomic_files import PARTIAL, aside, encode, remove, room, sync, write
from gradus.lab.checkpoints import Checkpoint
from gradus.lab.provenance import now
from gradus.lab.records import append, records
from gradus.lab.trust import MARK, check_trusted, mark_of, python_of
from gradus.types import Frozen, Group, Trajectory, UserError, command

if TYPE_CHECKING:
    from torch import Tensor

RECIPE, PROVENANCE, METRICS, TIMINGS, ROLLOUTS = "recipe.json", "provenance.json", "metrics.jsonl", "timings.jsonl", "rollouts"
FACTS = "facts.jsonl"  # the file of decisions that depend on the clock or on memory
QUARANTINE = "quarantine.jsonl"  # the file of trajectories without a reward
SPIKES = "spikes.jsonl"  # the file of gradients that were far larger than the others
WORK = "workers.jsonl"  # the file of the seconds, tokens, ages and queues of the workers in each step
STAGES = "stages"  # the folder with a link to the model at the end of each stage
SEAL = "sha256"  # field of recipe.json: the hash of its other fields
ORIGIN = "origin"  # field of recipe.json: see `origin_of`


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run. Steps are counted from 0. The checkpoint of step n contains the state before step n."""

    path: Path

    @classmethod
    def create(
        cls, path: Path | str, recipe: Mapping[str, Any], provenance: Mapping[str, Any], files: Mapping[str, bytes] = Frozen()
    ) -> RunFolder:
        """Makes the folder of a new run, with further `files` by name. Raises: UserError if the folder contains a file or cannot be made."""
        path = Path(path)
        refuse_taken(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                write(path / name, content)
            write(path / RECIPE, encode(_sealed({**recipe, ORIGIN: origin_of(recipe), **_marked(recipe)})))  # a folder with this file is a run
            write(path / PROVENANCE, encode(provenance))
            sync(path.resolve().parent)
        except OSError as error:
            if path.is_dir():
                cls(path).discard()
            raise UserError(f"cannot make the run folder {path}: {error.strerror}; name another folder with --run") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Opens an existing run. Raises: UserError if the folder contains no run."""
        if not is_run(Path(path)):
            none = "" if Path(path).exists() else "; if the run was stopped while its model was loading, it has no folder yet: start the run again"
            raise UserError(f"{path} contains no run, because the file {RECIPE} is missing; give the folder that you named with --run{none}")
        return cls(Path(path))

    def discard(self) -> None:
        """Deletes the folder of a run without a finished step.

        The folder stays if it contains quarantined trajectories, because they show why the reward failed. The folder also stays if it contains facts
        (recorded decisions), because without the facts a new attempt would wait again for a call that hangs.
        """
        if (self.path / QUARANTINE).exists() or (self.path / FACTS).exists():
            return
        for path in self.path.iterdir():
            remove(path)
        with suppress(OSError):  # an empty folder that is a mount point stays
            self.path.rmdir()

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Locks the run for this process. The lock always ends with the process. Raises: UserError if another process has the lock."""
        import fcntl

        with room(self.path, "its lock"):
            opened = open(self.path / ".lock", "w")  # noqa: SIM115
        with opened as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UserError(f"another process is training in {self.path}; wait until it ends, or stop that process") from error
            yield

    # files of a step

    def append_metrics(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Appends one line with the step and then the metrics in the order of their names.

        Equal metrics give equal bytes. NaN and infinity are written as null.
        """
        append(self.path / METRICS, step, metrics)

    def append_timings(self, step: int, timings: Mapping[str, Any]) -> None:
        """Appends one line of durations in seconds."""
        append(self.path / TIMINGS, step, timings)

    def append_work(self, step: int, row: Mapping[str, Any]) -> None:
        """Appends one line about the workers of a step (see `gradus.training.reporting`)."""
        append(self.path / WORK, step, row)

    def append_rollouts(self, step: int, groups: Sequence[Group]) -> None:
        """Stores every rollout of a step."""
        with room(self.path, f"the rollouts of step {step}"):
            rollouts.append(self.path / ROLLOUTS, step, groups)

    def of_step(self, step: int, restart: int = 0) -> dict[str, Any]:
        """Returns the arguments for the `World` of a step: the stored facts, and functions that store new facts and failures."""
        return {
            "facts": self.facts(step, restart),
            "decided": partial(self.append_fact, step, restart=restart),
            "failed": partial(self.append_failed, step),
            "quarantine": str(self.path / QUARANTINE),
        }

    def append_failed(self, step: int, purpose: str, trajectories: Sequence[Trajectory]) -> None:
        """Appends one line per trajectory without a reward, with the reason."""
        from gradus.lab.quarantine import entry

        lines = "".join(json.dumps(entry(step, purpose, t), allow_nan=False) + "\n" for t in trajectories)
        with room(self.path, QUARANTINE), open(self.path / QUARANTINE, "ab") as file:
            file.write(lines.encode())

    def quarantine(self, most: int | None = None) -> list[dict[str, Any]]:
        """Returns the first `most` trajectories without a reward, in the order in which they were judged. Skips an unfinished last line."""
        return [record for record, _ in islice(records(self.path / QUARANTINE), most)]

    def append_spike(self, step: int, spike: Mapping[str, Any]) -> None:
        """Appends one line about a gradient that was far larger than other gradients."""
        append(self.path / SPIKES, step, spike)

    def append_fact(self, step: int, call: str, reason: str, restart: int = 0) -> None:
        """Stores a decision of a step that depends on the clock or on memory. If the step is repeated, it uses this decision.

        The line is on the disk before the step continues. If a run returns to a checkpoint, the data of later steps is deleted, but this line stays.
        `restart`: the number of returns to a checkpoint so far; a fact is valid only for this number.
        """
        new = not (self.path / FACTS).exists()
        with room(self.path, FACTS), open(self.path / FACTS, "ab") as file:
            file.write((json.dumps({"step": step, "call": call, "reason": reason, **({"restart": restart} if restart else {})}) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
            if new:
                sync(self.path)

    def facts(self, step: int, restart: int = 0) -> dict[str, str]:
        """Returns the reasons of a step's decisions by call. A decision counts only if the run made it after exactly `restart` returns to a checkpoint."""
        here = (record for record, _ in records(self.path / FACTS) if (record["step"], record.get("restart", 0)) == (step, restart))
        try:
            return {record["call"]: str(record["reason"]) for record in here}
        except KeyError as error:
            raise UserError(f"{self.path / FACTS}: a line of step {step} has no field {error}; delete this line to continue") from error

    def cut_back(self, step: int) -> list[str]:
        """Deletes the data of `step` and of all later steps, because these steps are repeated. If a call is interrupted, it can be made again.

        Broken checkpoints and broken files of earlier rollouts get new names. Returns: a sentence for each renamed item.
        """
        with room(self.path, f"the data before step {step}"):
            told = rollouts.set_aside(self.path / ROLLOUTS, step)
            rollouts.cut_back(self.path / ROLLOUTS, step)
            for name in (TIMINGS, WORK, METRICS, SPIKES, QUARANTINE, FACTS):
                kept = [line for record, line in records(self.path / name) if record["step"] < step or name == FACTS]
                if (self.path / name).exists():
                    write(self.path / name, b"".join(kept))
            for path in self.path.glob(PARTIAL + "*"):
                remove(path)
            for number, path in checkpoints.steps(self.path).items():
                kind = "foreign" if checkpoints.foreign(path, self.origin()) else "broken" if checkpoints.broken(path) is not None else None
                if number > step and kind is not None:
                    told.append(f"the {kind} {path.name} is kept as {aside(path)}; delete it if you do not need it")
                elif number > step:
                    checkpoints.discard(path)
        return told

    def gaps(self, step: int) -> list[str]:
        """Returns a sentence for each file that a user or a disk changed since the run wrote the checkpoint of `step`."""
        due = list(range(step))
        steps = [record["step"] for record in self.metrics() if "ended" not in record]  # without the evaluations at the ends of stages
        found = {METRICS: steps, ROLLOUTS: rollouts.stored(self.path / ROLLOUTS)}
        told = [
            f"{name} lacks steps {_few(missing)}; they are before step {step}, and the run does not repeat them"
            if (missing := sorted(set(due) - set(there)))
            else f"{name} contains steps {_few(sorted(n for n in set(there) if there.count(n) > 1))} more than once"
            for name, there in found.items()
            if there != due
        ]
        saved = checkpoints.steps(self.path).get(step)
        known = checkpoints.beside(saved) if saved is not None else {}
        if not told and METRICS in known and checkpoints.digest(self.path / METRICS) != known[METRICS]:
            told.append(f"{METRICS} was changed since the run wrote the checkpoint of step {step}: some of its numbers do not come from the run")
        if (sealed := _document(self.path / RECIPE)).get(SEAL, _seal(sealed)) != _seal(sealed):
            told.append(f"{RECIPE} was changed by hand or by a disk fault; the run continues with the present content")
        return told

    # checkpoints and models

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        documents: Mapping[str, Any],
        copies: Mapping[str, Path] | None = None,
        *,
        keep: int = 2,
        planned: bool = True,
    ) -> Path:
        """Flushes appended data to the disk and writes a checkpoint. Keeps the checkpoints of `best`, of `final` and of the ends of stages."""
        with room(self.path, f"the data before step {step}"):
            for name in (METRICS, TIMINGS):
                if (self.path / name).exists():
                    sync(self.path / name)
            rollouts.settle(self.path / ROLLOUTS)
            sync(self.path)
        names = ("best", "final", *(f"{STAGES}/{link.name}" for link in (self.path / STAGES).glob("*")))
        models = [model for model in map(self.model, names) if model is not None]
        protected = {n for n, path in checkpoints.steps(self.path).items() if any(m.is_relative_to(path.resolve()) for m in models)}
        beside = {METRICS: checkpoints.digest(self.path / METRICS)} if (self.path / METRICS).exists() else {}
        kept: dict[str, Any] = {"keep": keep, "protected": protected, "planned": planned, "beside": beside, "origin": self.origin()}
        return checkpoints.save(self.path, step, tensors, documents, copies, **kept)

    def latest(self, *, only_planned: bool = False) -> tuple[Checkpoint | None, str]:
        """Returns the newest complete checkpoint of this run, and a sentence about newer broken or foreign checkpoints."""
        return checkpoints.latest(self.path, only_planned=only_planned, origin=self.origin())

    def done(self) -> int:
        """Returns the step of the newest checkpoint of this run, complete or broken; 0 without a checkpoint."""
        return max((n for n, path in checkpoints.steps(self.path).items() if not checkpoints.foreign(path, self.origin())), default=0)

    def point(self, name: str, target: Path) -> None:
        """Links `best`, `final` or `stages/NAME` to a model's folder in a checkpoint of this run. An existing folder of that name becomes `broken-NAME`."""
        link = self.path / name
        partial = link.with_name(PARTIAL + link.name)
        with room(self.path, f"the link {name}"):
            link.parent.mkdir(exist_ok=True)
            partial.unlink(missing_ok=True)
            if link.is_dir() and not link.is_symlink():  # a copy of the run that copied the folder in place of the link
                aside(link)
            partial.symlink_to(os.path.relpath(target, link.parent), target_is_directory=True)
            os.replace(partial, link)
            sync(link.parent)

    def unlink(self, name: str) -> None:
        """Removes a link that `point` made. Leaves any other file or folder of that name."""
        if (self.path / name).is_symlink():
            (self.path / name).unlink()

    def model(self, name: str) -> Path | None:
        """Returns the folder to which `best` or `final` links; None if there is no link.

        A copied run may have a folder in place of the link. If a checkpoint contains the same files, the result is the model of this checkpoint, else the
        folder.
        """
        link = self.path / name
        if not link.is_dir():
            return None
        held = {} if link.is_symlink() else {str(p.relative_to(link)): checkpoints.digest(p) for p in link.rglob("*") if p.is_file()}
        equal = (path for path in checkpoints.steps(self.path).values() if held and checkpoints.copied(path, "model") == held)
        return next((path.resolve() / "model" for path in equal), link.resolve())

    # reading

    def recipe(self) -> dict[str, Any]:
        return {name: value for name, value in _document(self.path / RECIPE).items() if name not in (SEAL, ORIGIN, MARK)}

    def check_trusted(self) -> None:
        """Raises UserError if the run executes Python and another user made the run."""
        document = _document(self.path / RECIPE)
        check_trusted(self.path, self.recipe(), document.get(MARK))

    def origin(self) -> str | None:
        """Returns the run's origin, as `origin_of` computed it at the start; None for a run of an older version."""
        return _document(self.path / RECIPE).get(ORIGIN)

    def provenance(self) -> dict[str, Any]:
        path = self.path / PROVENANCE
        return _document(path, " or delete it: the run continues without it") if path.exists() else {}

    def identity(self) -> str:
        """Returns eight hexadecimal digits that identify this run.

        The digits are a hash of the folder's name and of the run's start, so they change if the folder is renamed.
        """
        began = {name: value for name, value in self.provenance().items() if name != "resumed"}
        return hashlib.blake2b(json.dumps([self.path.resolve().name, began], sort_keys=True).encode(), digest_size=4).hexdigest()

    def replan(self, recipe: Mapping[str, Any]) -> None:
        """Replaces the stored recipe of the run, for a resume with changes."""
        with room(self.path, RECIPE):
            origin = self.origin()
            write(self.path / RECIPE, encode(_sealed({**recipe, **({} if origin is None else {ORIGIN: origin}), **_marked(recipe)})))

    def note_resumed(self, step: int, command: Sequence[str], notes: Sequence[str] = ()) -> None:
        """Adds an entry about a resume to the provenance: step, time, command and notes."""
        before = self.provenance()
        entry = {"step": step, "at": now(), "command": list(command), "notes": list(notes)}
        with room(self.path, PROVENANCE):
            write(self.path / PROVENANCE, encode({**before, "resumed": [*before.get("resumed", []), entry]}))

    def metrics(self) -> list[dict[str, Any]]:
        """Returns one object per step. Skips an unfinished last line. Raises: UserError if any other line is broken."""
        return [record for record, _ in records(self.path / METRICS)]

    def timings(self) -> list[dict[str, Any]]:
        return [record for record, _ in records(self.path / TIMINGS)]

    def work(self) -> list[dict[str, Any]]:
        return [record for record, _ in records(self.path / WORK)]

    def rollouts(self, steps: Sequence[int] | None = None) -> list[tuple[int, Group]]:
        """Yields (step, group) for the given steps (None: all steps)."""
        return rollouts.read(self.path / ROLLOUTS, steps)


def is_run(path: Path) -> bool:
    """Whether a folder contains a run."""
    return (path / RECIPE).is_file()


def refuse_taken(path: Path) -> None:
    """Raises UserError if the folder of a new run is already a run or contains files."""
    if is_run(path):
        raise UserError(f"{path} already contains a run; resume the run with {command('resume', path)}, or name another folder with --run")
    if path.is_dir() and any(not inside.name.startswith(PARTIAL) for inside in path.iterdir()):
        raise UserError(f"{path} contains files but no run; name another folder with --run")


def _marked(recipe: Mapping[str, Any]) -> dict[str, str]:
    """Returns the field with the user's mark. The result is empty if the recipe names no Python code, or if no mark can be made."""
    named = python_of(recipe)
    mark = mark_of(named) if named else None
    return {} if mark is None else {MARK: mark}


def origin_of(recipe: Mapping[str, Any]) -> str:
    """Returns a hash of a stored plan without its steps, device and trackers. Runs with the same origin have equal checkpoints."""
    inner = recipe.get("recipe", {})
    setting = {name: value for name, value in inner.get("setting", {}).items() if name != "steps"}
    rest = {name: value for name, value in recipe.items() if name not in ("recipe", "device", "log")}
    return hashlib.sha256(json.dumps([rest, {**inner, "setting": setting}], sort_keys=True).encode()).hexdigest()[:16]


def _sealed(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the recipe with a hash of its values, so that later changes are detected."""
    return {**recipe, SEAL: _seal(recipe)}


def _seal(recipe: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in recipe.items() if name != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _document(path: Path, otherwise: str = "") -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}; restore the old file{otherwise}") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} contains a {type(found).__name__}, but it must contain a JSON object; restore the old file{otherwise}")
    return found


def _few(numbers: Sequence[int]) -> str:
    """Returns text with the first numbers and the count of the other numbers, such as '3, 4 and 7 more'."""
    shown = ", ".join(map(str, numbers[:5]))
    return shown if len(numbers) <= 5 else f"{shown} and {len(numbers) - 5} more"
