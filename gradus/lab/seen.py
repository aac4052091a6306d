"""The arrays of media in the folder of the stored rollouts: one safetensors file per step.

Every hundred steps are merged into one file, which contains each array only once.

The files are `rollouts/seen-000123.safetensors` and `rollouts/seen-000000-000099.safetensors`. Both kinds of files have one tensor per digest. A step without
media has no file.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gradus.lab.atomic_files import PARTIAL, remove, sync, write
from gradus.types import UserError

_ONE = re.compile(r"seen-(\d{6,})\.safetensors")
_MANY = re.compile(r"seen-(\d{6,})-\d{6,}\.safetensors")


def of_step(folder: Path, step: int) -> Path:
    """Returns the file of one step."""
    return folder / f"seen-{step:06d}.safetensors"


def of_steps(folder: Path, start: int, count: int) -> Path:
    """Returns the file of the `count` steps from `start` on."""
    return folder / f"seen-{start:06d}-{start + count - 1:06d}.safetensors"


def files(folder: Path) -> tuple[dict[int, Path], dict[int, Path]]:
    """Returns two mappings: from a step to its file, and from a first step to its merged file."""
    ones: dict[int, Path] = {}
    many: dict[int, Path] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if match := _ONE.fullmatch(path.name):
            ones[int(match[1])] = path
        elif match := _MANY.fullmatch(path.name):
            many[int(match[1])] = path
    return ones, many


def store(folder: Path, step: int, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes the arrays of a step in the order of their digests. Equal arrays give equal bytes. If there are no arrays, no file is written."""
    from safetensors.numpy import save

    if arrays:
        write(of_step(folder, step), save({digest: np.ascontiguousarray(arrays[digest]) for digest in sorted(arrays)}), synced=False)
    else:
        of_step(folder, step).unlink(missing_ok=True)


class Store:
    """The arrays of some files, read one at a time. A later file is read only for arrays that the earlier files lack."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = [path for path in paths if path.is_file()]
        self._open: list[Any] | None = None

    def __call__(self, digest: str) -> np.ndarray:
        """Returns the array of a digest. Raises UserError if no file contains the array, or if a file is broken."""
        from safetensors import SafetensorError, safe_open

        path = self._paths[0] if self._paths else None
        try:
            if self._open is None:
                self._open = []
                for path in self._paths:
                    self._open.append(safe_open(path, framework="np"))
            for path, opened in zip(self._paths, self._open, strict=True):  # noqa: B007
                if digest in opened.keys():  # noqa: SIM118
                    found: np.ndarray = opened.get_tensor(digest)
                    return found
        except (SafetensorError, OSError) as error:
            raise UserError(
                f"the media in {path} cannot be read ({error}); to continue without these media, delete this file and the rollouts of the same "
                "steps"
            ) from error
        named = ", ".join(map(str, self._paths)) or "none"
        raise UserError(f"the rollouts need the media {digest[:8]}, but no file of the folder contains them (files: {named}); restore the files seen-*.safetensors")


def merge(folder: Path, start: int, count: int) -> None:
    """Merges the files of the steps into one file, which contains each array only once.

    Copies one array at a time. Keeps the files of the steps.
    """
    ones = [path for step, path in sorted(files(folder)[0].items()) if start <= step < start + count]
    if not ones:
        return
    target = of_steps(folder, start, count)
    partial = folder / (PARTIAL + target.name)
    _merge(ones, partial)
    sync(partial)
    partial.replace(target)


def _merge(paths: Iterable[Path], target: Path) -> None:
    """Writes a safetensors file without the library of this format, because the library would keep all arrays in memory."""
    places: dict[str, tuple[Path, int, dict[str, Any]]] = {}
    for path in paths:
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            for digest, entry in json.loads(file.read(size)).items():
                if digest != "__metadata__":
                    places.setdefault(digest, (path, 8 + size, entry))
    header, at = {}, 0
    for digest in sorted(places):
        begin, end = places[digest][2]["data_offsets"]
        header[digest] = {**places[digest][2], "data_offsets": [at, at + end - begin]}
        at += end - begin
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with target.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for digest in sorted(places):
            path, base, entry = places[digest]
            begin, end = entry["data_offsets"]
            with path.open("rb") as file:
                file.seek(base + begin)
                out.write(file.read(end - begin))


def cut_back(folder: Path, step: int, count: int, merged: Callable[[int], bool]) -> None:
    """Deletes the files of `step` and later steps, and the files of earlier steps that are already merged."""
    ones, many = files(folder)
    for start, path in many.items():
        if start + count > step or not merged(start):
            path.unlink()
    for number, path in ones.items():
        start = number // count * count
        if number >= step or (merged(start) and start + count <= step):
            remove(path)


def settle(folder: Path) -> None:
    """Flushes the files of single steps to the disk."""
    for path in files(folder)[0].values():
        sync(path)
