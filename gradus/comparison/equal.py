"""Hashes of the common inputs of all runs of a comparison, and hashes of the files that influence a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from gradus.lab.checkpoints import digest
from gradus.policies import registry
from gradus.recipe.core import specs_of
from gradus.training.run import Run
from gradus.types import Problem
from gradus.types.players import Fresh

MOST = 256
"""The number of training problems that are compared between runs: the first ones, in the order of first use."""


def start_of(run: Run, model: str | None, examined: Sequence[Problem]) -> dict[str, Any]:
    """{"problems": a hash of each training problem in the order of first use, at most `MOST`; "held_out", "model": one hash each}.

    Args: model: the plan's model; examined: the held-out problems of the examination.
    """
    return {"problems": [hash_of([p]) for p in drawn(run)], "held_out": hash_of(examined), "model": model_hash(run, model)}


def drawn(run: Run) -> list[Problem]:
    """The first training problems of a run, each once, in the order of the stored rollouts. Auxiliary groups are left out."""
    found: dict[tuple[str | None, str], Problem] = {}
    assert run.folder is not None
    for step in range(run.step):
        for _, group in run.folder.rollouts([step]):
            if group.trajectories and not group.aside:
                problem = group.trajectories[0].problem
                found.setdefault((problem.task, problem.id), problem)
        if len(found) >= MOST:
            break
    return list(found.values())[:MOST]


def hash_of(problems: Sequence[Problem]) -> str:
    """A hash of the contents of problems: ids, texts, pictures and answers."""
    told = [[p.id, p.text, p.question if p.messages else "", [m.digest for m in p.media], repr(p.answer)] for p in problems]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]


def model_hash(run: Run, model: str | None) -> str:
    """A hash of the files of the loaded policy, also for the built-in model. If the seed draws the weights, the result is a hash of the model's
    form.
    """
    specs = specs_of(run.recipe)
    relation: Any = specs["policy"].model
    while hasattr(relation, "of") or relation in specs:  # the model points to another model or to another player
        relation = relation.of if hasattr(relation, "of") else specs[relation].model
    if isinstance(relation, Fresh) and model is None:
        return hashlib.sha256(repr(relation).encode()).hexdigest()[:16]
    own = relation if isinstance(relation, str) else model
    folder = Path(registry.folder_of(own, run.task.policy, run.task.name, run.task.showing))
    return hashlib.sha256("".join(_digest(path) for path in files_in(folder)).encode()).hexdigest()[:16]


def files_in(path: Path) -> list[Path]:
    """A file, or the files of a folder in order, without hidden files."""
    return sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith(".")) if path.is_dir() else [path]


def fingerprints(*values: Any) -> dict[str, str]:
    """File -> SHA-256, for each file that any text in these plain values names.

    A text may name a file, FILE.py:NAME, or a folder with all its files.
    """
    named = {path for value in values for text in _texts(value) for path in _paths(text)}
    return {str(file): _digest(file) for path in sorted(named) for file in files_in(path)}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _paths(text: str) -> Iterator[Path]:
    """The file or folder that a text names. Parents of the current folder are left out, because they have too many files."""
    for name in (text, text.rpartition(":")[0], text.rpartition("*")[0].rpartition(":")[0]):
        if not 1 < len(name) < 1000 or "\0" in name or not ("/" in name or "." in name):
            continue
        path = Path(name)
        if path.is_file() or (path.is_dir() and path.resolve() not in (Path.cwd(), *Path.cwd().parents, Path.home())):
            yield path


def _digest(path: Path) -> str:
    stat = path.stat()
    return _known(str(path), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4096)
def _known(path: str, size: int, changed: int) -> str:
    """The digest of a file. The file is read again only if its size or its time has changed."""
    return digest(Path(path))
