"""Atomic checkpoints: safetensors, JSON and copied files, with a manifest of their hashes. A checkpoint gets its final name when all its files are complete.

`checkpoints/step-000123` contains the state after 123 steps: steps 0 to 122 are finished, and step 123 is the next step. A broken checkpoint is renamed to
`checkpoints/broken-step-000123` and never deleted.

A checkpoint is planned if `save_every` requires it and the state has no NaN or infinite numbers. Unplanned checkpoints are made for the best model, at the
end of a run, and when a run stops early. Unplanned checkpoints are used only to resume, and never replace a planned checkpoint. A run that gets NaN or
infinite numbers never returns to an unplanned checkpoint. So a run gives the same results with and without stops.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.lab.atomic_files import PARTIAL, aside, encode, remove, room, sync, write
from gradus.types import UserError

if TYPE_CHECKING:
    from torch import Tensor

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
SEAL = "sha256"  # field of the manifest: the hash of its other fields
_NAME = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files match its manifest."""

    step: int
    path: Path

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Returns the tensors of a file, on the CPU."""
        from safetensors.torch import load_file

        return load_file(self.path / name)

    def has(self, name: str) -> bool:
        """Whether the checkpoint has a file of this name."""
        return (self.path / name).exists()

    def document(self, name: str) -> Any:
        return json.loads((self.path / name).read_text())


def save(
    folder: Path,
    step: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    documents: Mapping[str, Any],
    copies: Mapping[str, Path] | None = None,
    *,
    keep: int = 2,
    protected: Collection[int] = (),
    planned: bool = True,
    beside: Mapping[str, str] | None = None,
    origin: str | None = None,
) -> Path:
    """Writes a checkpoint of the run `folder`. Then deletes old checkpoints.

    Keeps the newest `keep` planned checkpoints and the checkpoints of the `protected` steps.

    Args: `tensors`, `documents`, `copies`: mappings from a path inside the checkpoint to tensors, to a JSON value, or to a file or folder to copy. `beside`:
    mapping from the name of a run's file to its current SHA-256, for the manifest. `origin`: see `gradus.lab.folder.origin_of`. If the write fails, nothing
    changes.
    Raises: UserError for a disk error.
    """
    if keep < 1:
        raise ValueError(f"`keep` is {keep}; it must be at least 1, because the new checkpoint is always kept")
    home = folder / FOLDER
    target = home / f"step-{step:06d}"
    partial = home / (PARTIAL + target.name)
    with room(folder, f"the checkpoint of step {step}"):
        if not home.is_dir():
            home.mkdir(parents=True)
            sync(folder)
        remove(partial)
        try:
            _fill(partial, {"step": step, "planned": planned, "origin": origin, "beside": dict(beside or {})}, tensors, documents, _files(copies or {}))
            _commit(partial, target)
        except BaseException:
            with suppress(OSError):  # the caller raises the first error; the next save deletes the remains
                remove(partial)
            raise
        prune(folder, keep, {step, *protected})
    return target


def _files(copies: Mapping[str, Path]) -> dict[str, Path]:
    """Returns the files to copy: the single files, and all files of the folders."""
    found = {name: path for name, path in copies.items() if not path.is_dir()}
    for name, folder in copies.items():
        found |= {f"{name}/{path.relative_to(folder)}": path for path in folder.rglob("*") if path.is_file()}
    return found


def _fill(
    partial: Path, about: Mapping[str, Any], tensors: Mapping[str, Any], documents: Mapping[str, Any], copies: Mapping[str, Path]
) -> None:
    from safetensors.torch import save_file

    manifest: dict[str, dict[str, Any]] = {}
    for name in sorted([*tensors, *documents, *copies]):
        path = partial / name
        if not path.resolve().is_relative_to(partial.resolve()) or name == MANIFEST or name in manifest:
            raise ValueError(
                f"a checkpoint cannot have a file {name!r}, because this name is given twice, is reserved, or leads out of the checkpoint; "
                "give another name"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        if name in tensors:
            save_file(_separate(tensors[name]), path, metadata={"format": "pt"})
        elif name in documents:
            path.write_bytes(encode(documents[name]))
        else:
            shutil.copyfile(copies[name], path)
        sync(path)
        manifest[name] = {"bytes": path.stat().st_size, "sha256": digest(path)}
    for inner in (path for path in partial.rglob("*") if path.is_dir()):
        sync(inner)
    partial.mkdir(exist_ok=True)
    whole = {**about, "files": manifest}
    write(partial / MANIFEST, encode({**whole, SEAL: _seal(whole)}))


def _seal(manifest: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a manifest without the field `SEAL`."""
    rest = {name: value for name, value in manifest.items() if name != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors on the CPU, each with its own memory. Tied weights are written once for each name."""
    import torch

    result: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name in sorted(tensors):
        tensor = torch.as_tensor(tensors[name]).detach().cpu().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        result[name] = tensor.clone() if storage in seen else tensor
        seen.add(storage)
    return result


def _commit(partial: Path, target: Path) -> None:
    """Renames the new checkpoint to its final name.

    If a checkpoint of this name exists already, an equal checkpoint stays, a broken checkpoint is renamed, and any other checkpoint is deleted.
    """
    if target.exists() and broken(target) is None:
        if (target / MANIFEST).read_bytes() == (partial / MANIFEST).read_bytes():
            remove(partial)
            return
        discard(target)
    elif target.exists():
        aside(target)
    os.rename(partial, target)
    sync(target.parent)


def steps(folder: Path) -> dict[int, Path]:
    """Returns a mapping from step to path, for all checkpoints of a run, complete or broken, in rising order of steps."""
    home = folder / FOLDER
    entries = home.iterdir() if home.is_dir() else ()
    found = {int(match[1]): path for path in entries if path.is_dir() and (match := _NAME.fullmatch(path.name))}
    return dict(sorted(found.items()))


def planned(path: Path) -> bool:
    """Whether a checkpoint was planned, according to its manifest. The result is True if the manifest has no such entry or cannot be read."""
    try:
        return bool(json.loads((path / MANIFEST).read_bytes()).get("planned", True))
    except (OSError, ValueError, AttributeError):
        return True


def beside(path: Path) -> Mapping[str, str]:
    """Returns, by name, the SHA-256 that each file of the run had when the checkpoint was complete; empty if the manifest has none."""
    return dict(json.loads((path / MANIFEST).read_bytes()).get("beside", {}))


def foreign(path: Path, origin: str | None) -> bool:
    """Whether a run of another origin made a checkpoint, according to its manifest. The result is False if one of the two origins is unknown."""
    try:
        made = json.loads((path / MANIFEST).read_bytes()).get("origin")
    except (OSError, ValueError, AttributeError):
        return False
    return origin is not None and made not in (None, origin)


def latest(folder: Path, *, only_planned: bool = False, origin: str | None = None) -> tuple[Checkpoint | None, str]:
    """Returns the newest complete checkpoint of a run of this origin, and a sentence about newer checkpoints that are broken or foreign.

    The sentence is '' if there are no such checkpoints. Broken files raise no error.
    """
    passed: list[str] = []
    for step, path in reversed(steps(folder).items()):
        if only_planned and not planned(path):
            continue
        if foreign(path, origin):
            passed.append(f"checkpoint {path.name} belongs to another run")
            continue
        fault = broken(path)
        if fault is None:
            start = f"; continuing from {path.name}" if passed else ""
            return Checkpoint(step, path), "; ".join(passed) + start
        passed.append(f"checkpoint {path.name} is broken ({fault})")
    return None, "; ".join(passed) + ("; starting again from step 0" if passed else "")


def at(path: Path) -> Checkpoint:
    """Returns the checkpoint in a folder. Raises: UserError if the checkpoint is broken."""
    match, fault = _NAME.fullmatch(path.name), broken(path)
    if match is None or fault is not None:
        raise UserError(
            f"checkpoint {path} is broken ({fault or 'its name has no step'}); use another checkpoint, or continue from the newest checkpoint "
            "of the run with gradus resume"
        )
    return Checkpoint(int(match[1]), path)


def broken(path: Path) -> str | None:
    """Returns the fault of a checkpoint according to its manifest; None if every file is unchanged."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        if path.name != f"step-{manifest['step']:06d}":
            return f"its manifest belongs to step {manifest['step']}"
        if manifest.get(SEAL, _seal(manifest)) != _seal(manifest):
            return f"{MANIFEST} has changed since it was written"
        if not manifest["files"]:
            return f"{MANIFEST} lists no file"
        for name, facts in manifest["files"].items():
            file = path / name
            if not file.is_file():
                return f"{name} is missing"
            size = file.stat().st_size
            if size != facts["bytes"]:
                return f"{name} has {size} bytes, but its manifest gives {facts['bytes']}"
            if digest(file) != facts["sha256"]:
                return f"{name} has changed since it was written"
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} is not a manifest"
    return None


def copied(path: Path, name: str) -> dict[str, str]:
    """Returns the SHA-256 of the files in the copied folder `name`, by their paths in this folder.

    The hashes come from the manifest of the checkpoint. The result is empty if the manifest cannot be read.
    """
    try:
        files = json.loads((path / MANIFEST).read_bytes())["files"]
        return {file.removeprefix(f"{name}/"): facts["sha256"] for file, facts in files.items() if file.startswith(f"{name}/")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def prune(folder: Path, keep: int, protected: Collection[int] = ()) -> None:
    """Deletes old checkpoints and the remains of interrupted saves.

    Keeps the newest checkpoint, the newest `keep` planned checkpoints, and the checkpoints of the `protected` steps.
    """
    every = steps(folder)
    kept = {*list(every)[-1:], *[step for step, path in every.items() if planned(path)][-keep:], *protected}
    for step, path in every.items():
        if step not in kept:
            discard(path)
    for path in (folder / FOLDER).glob(PARTIAL + "*"):
        remove(path)


def discard(path: Path) -> None:
    """Deletes a checkpoint. Renames the checkpoint first, so that the remains of an interrupted deletion do not count as a checkpoint."""
    hidden = path.with_name(PARTIAL + "deleted-" + path.name)
    remove(hidden)
    os.rename(path, hidden)
    remove(hidden)


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal form."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
