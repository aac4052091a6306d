"""A run on disk: its recipe, provenance, metrics, timings, rollouts, checkpoints, and pointers to its best and final model."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.lab import checkpoints, rollouts
from gradus.lab.checkpoints import Checkpoint
from gradus.lab.durable import PARTIAL, encode, remove, room, sync, write
from gradus.lab.provenance import now
from gradus.types import Group, UserError

if TYPE_CHECKING:
    from torch import Tensor

RECIPE, PROVENANCE, METRICS, TIMINGS, ROLLOUTS = "recipe.json", "provenance.json", "metrics.jsonl", "timings.jsonl", "rollouts"
FACTS = "facts.jsonl"  # what the clock decided


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run. Steps count from 0; a checkpoint of step n comes before step n."""

    path: Path

    @classmethod
    def create(cls, path: Path | str, recipe: Mapping[str, Any], provenance: Mapping[str, Any]) -> RunFolder:
        """A new run. Raises: UserError where the folder holds anything already, or cannot be made."""
        path = Path(path)
        refuse_taken(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            write(path / RECIPE, encode(recipe))  # what makes it a run
            write(path / PROVENANCE, encode(provenance))
        except OSError as error:
            if path.is_dir():
                cls(path).discard()
            raise UserError(f"cannot make the run folder {path}: {error.strerror}; name another folder with --run") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """A run that exists. Raises: UserError where there is none."""
        if not is_run(Path(path)):
            raise UserError(f"{path} holds no run: it has no {RECIPE}; give the folder that was named with --run")
        return cls(Path(path))

    def discard(self) -> None:
        """Deletes the run, for one in which nothing was done yet."""
        for path in self.path.iterdir():
            remove(path)
        with suppress(OSError):  # where something is mounted the empty folder stays
            self.path.rmdir()

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Holds the run for this process until it ends, however it ends. Raises: UserError where another process trains in it."""
        import fcntl

        with open(self.path / ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UserError(f"another process is training in {self.path}: wait for it, or end it first") from error
            yield

    # what a step leaves

    def append_metrics(self, step: int, metrics: Mapping[str, Any]) -> None:
        """One line: step first, then the names in order. Equal metrics give equal bytes; a number that is not finite is written as null."""
        _append(self.path / METRICS, step, metrics)

    def append_timings(self, step: int, timings: Mapping[str, Any]) -> None:
        """One line of what the clock says, in seconds."""
        _append(self.path / TIMINGS, step, timings)

    def append_rollouts(self, step: int, groups: Sequence[Group]) -> None:
        """Every rollout of a step."""
        with room(self.path, f"the rollouts of step {step}"):
            rollouts.append(self.path / ROLLOUTS, step, groups)

    def append_fact(self, step: int, call: str, reason: str) -> None:
        """What the clock decided in a step. On the disk before the step goes on, and kept when the run is cut back: it is obeyed again."""
        with room(self.path, FACTS), open(self.path / FACTS, "ab") as file:
            file.write((json.dumps({"step": step, "call": call, "reason": reason}) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def facts(self, step: int) -> dict[str, str]:
        """call -> reason of what the clock decided in a step."""
        return {record["call"]: record["reason"] for record, _ in _records(self.path / FACTS) if record["step"] == step}

    def cut_back(self, step: int) -> None:
        """Drops what belongs to `step` and to all that come after, for these are done again. Interrupted, it can be repeated."""
        with room(self.path, f"what came before step {step}"):
            rollouts.cut_back(self.path / ROLLOUTS, step)
            for name in (TIMINGS, METRICS, FACTS):
                kept = [line for record, line in _records(self.path / name) if record["step"] < step or name == FACTS]
                if (self.path / name).exists():
                    write(self.path / name, b"".join(kept))
            for path in self.path.glob(PARTIAL + "*"):
                remove(path)
            for number, path in checkpoints.steps(self.path).items():
                if number > step:
                    checkpoints.discard(path)

    # checkpoints and models

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        documents: Mapping[str, Any],
        copies: Mapping[str, Path] | None = None,
        *,
        keep: int = 2,
    ) -> Path:
        """Commits a checkpoint; all that was appended before is on the disk first. The checkpoints of `best` and `final` are kept."""
        for name in (METRICS, TIMINGS):
            if (self.path / name).exists():
                sync(self.path / name)
        rollouts.settle(self.path / ROLLOUTS)
        models = [model for model in (self.model("best"), self.model("final")) if model is not None]
        protected = {n for n, path in checkpoints.steps(self.path).items() if any(m.is_relative_to(path.resolve()) for m in models)}
        return checkpoints.save(self.path, step, tensors, documents, copies, keep=keep, protected=protected)

    def latest(self) -> tuple[Checkpoint | None, str]:
        """The newest whole checkpoint, and a sentence about those passed over."""
        return checkpoints.latest(self.path)

    def point(self, name: str, target: Path) -> None:
        """Lets `best` or `final` stand for a model's folder in a checkpoint of this run."""
        link, partial = self.path / name, self.path / (PARTIAL + name)
        partial.unlink(missing_ok=True)
        partial.symlink_to(os.path.relpath(target, self.path), target_is_directory=True)
        os.replace(partial, link)
        sync(self.path)

    def model(self, name: str) -> Path | None:
        """The folder that `best` or `final` stands for; None where there is none."""
        link = self.path / name
        return link.resolve() if link.is_dir() else None

    # reading

    def recipe(self) -> dict[str, Any]:
        return _document(self.path / RECIPE)

    def provenance(self) -> dict[str, Any]:
        path = self.path / PROVENANCE
        return _document(path) if path.exists() else {}

    def identity(self) -> str:
        """Eight hexadecimal digits that stay this run's as long as its folder keeps its name: a hash of that and of how it began."""
        began = {name: value for name, value in self.provenance().items() if name != "resumed"}
        return hashlib.blake2b(json.dumps([self.path.resolve().name, began], sort_keys=True).encode(), digest_size=4).hexdigest()

    def replan(self, recipe: Mapping[str, Any]) -> None:
        """Puts another recipe in the place of the run's, for whoever goes on with it."""
        with room(self.path, RECIPE):
            write(self.path / RECIPE, encode(recipe))

    def note_resumed(self, step: int, command: Sequence[str], notes: Sequence[str] = ()) -> None:
        """Adds to the provenance that the run went on from a step, when, by which command, and what was noticed."""
        before = self.provenance()
        entry = {"step": step, "at": now(), "command": list(command), "notes": list(notes)}
        write(self.path / PROVENANCE, encode({**before, "resumed": [*before.get("resumed", []), entry]}))

    def metrics(self) -> list[dict[str, Any]]:
        """One object a step; a torn last line is left out. Raises: UserError where another line is broken."""
        return [record for record, _ in _records(self.path / METRICS)]

    def timings(self) -> list[dict[str, Any]]:
        return [record for record, _ in _records(self.path / TIMINGS)]

    def rollouts(self, steps: Sequence[int] | None = None) -> list[tuple[int, Group]]:
        """(step, group) of the steps wanted; None: all."""
        return rollouts.read(self.path / ROLLOUTS, steps)


def is_run(path: Path) -> bool:
    """Whether a folder holds a run."""
    return (path / RECIPE).is_file()


def refuse_taken(path: Path) -> None:
    """Raises UserError where a new run cannot have this folder, because something is there."""
    if is_run(path):
        raise UserError(f"{path} already holds a run: go on with it by gradus resume {path}, or name another folder with --run")
    if path.is_dir() and any(path.iterdir()):
        raise UserError(f"{path} holds files that are no run: name another folder with --run")


def _append(path: Path, step: int, values: Mapping[str, Any]) -> None:
    record = {"step": step, **{name: _number(values[name]) for name in sorted(values) if name != "step"}}
    with room(path.parent, path.name), open(path, "ab") as file:
        file.write((json.dumps(record, allow_nan=False) + "\n").encode())


def _number(value: Any) -> Any:
    """A plain value: arrays of one number become that number."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def _records(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):  # torn: only the last line can be
            return
        try:
            record = json.loads(line)
            record["step"] + 0
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{path}, line {number} is no record of a step: delete the line to go on") from error
        yield record, line


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}; put the old file back") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} holds a {type(found).__name__} where an object is expected; put the old file back")
    return found
