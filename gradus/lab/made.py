"""The rows that a stage makes or keeps. The rows are JSON lines in the run's folder: `made/NAME.jsonl`, `screened/NAME.jsonl`.

The hash of each file is stored as a fact of the step that made the file. If the step is repeated, it uses the existing file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradus.lab.atomic_files import encode, room, sync, write
from gradus.lab.checkpoints import digest
from gradus.lab.folder import PROVENANCE, RunFolder
from gradus.types import UserError

MADE, SCREENED = "made", "screened"
"""The folders of a run for rows that a stage made, and for the problems that it kept."""


def path_of(folder: RunFolder, kind: str, name: str) -> Path:
    """Returns the file of a stage's rows."""
    return folder.path / kind / f"{name}.jsonl"


def store(folder: RunFolder, kind: str, name: str, lines: Sequence[str], step: int, restart: int, numbers: Mapping[str, Any]) -> Path:
    """Writes the file of the rows, then the hash of this file as a fact, then an entry in the provenance.

    Each write is either complete or absent. If a call is interrupted, it can be made again.
    """
    target, content = path_of(folder, kind, name), "".join(f"{line}\n" for line in lines).encode()
    found = hashlib.sha256(content).hexdigest()
    with room(folder.path, f"{kind}/{target.name}"):
        if not target.parent.is_dir():
            target.parent.mkdir()
            sync(folder.path)
        write(target, content)
        sync(target.parent)
    fact = {"sha256": found, "numbers": dict(numbers)}
    if folder.facts(step, restart).get(f"{kind}/{name}") != json.dumps(fact):
        folder.append_fact(step, f"{kind}/{name}", json.dumps(fact), restart)
    before = folder.provenance()
    about = {"step": step, "bytes": len(content), "rows": len(lines), "sha256": found}
    with room(folder.path, PROVENANCE):
        write(folder.path / PROVENANCE, encode({**before, kind: {**before.get(kind, {}), name: about}}))
    return target


def stored(folder: RunFolder, kind: str, name: str, step: int, restart: int) -> tuple[Path, dict[str, Any]] | None:
    """Returns the file of rows from an earlier attempt of this step, and the `numbers` that were stored with the file.

    Returns None if the step made no file, or if the file is missing.

    Raises UserError if the file has changed since then.
    """
    told = folder.facts(step, restart).get(f"{kind}/{name}")
    target = path_of(folder, kind, name)
    if told is None or not target.is_file():
        return None
    fact = json.loads(told)
    if digest(target) != fact["sha256"]:
        raise UserError(f"{target} has changed since the run made it; restore the old file, or delete the changed file: the run then makes the file again")
    return target, fact["numbers"]
