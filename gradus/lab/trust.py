"""The Python code that a stored run names, and a mark in the run. The mark shows whether this user made the run.

A resume or an evaluation executes the Python files that the run's recipe names (rewards, tasks, parts), with the rights of the user.
Therefore a run with names of Python code contains a mark: a keyed hash of these names. The key is a random number in a file of the user. The key is made
together with the first run that names Python. No other user can make the mark. So a run without the mark comes from another user or machine."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradus.types import UserError

MARK = "mark"  # the field of recipe.json that contains the mark
# A Python file anywhere in a value, as in the mixture arithmetic:3,own.py:task:2; and tasks that import a module by its name.
_PYTHON = re.compile(r"\.py(?!\w)|(^|,)\s*(gymnasium:[^:,]+:|verifiers:)")
_NO_ISOLATION = "programs written by the model, without isolation (isolation rlimits)"


def key_file() -> Path:
    """Returns the file of the user's key: gradus/key in $XDG_STATE_HOME, by default ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "gradus" / "key"


def python_of(stored: Mapping[str, Any]) -> list[str]:
    """Returns the code of a stored plan that this machine would execute, sorted: names of Python files or modules, and programs without isolation.
    """
    return sorted(set(_python(stored, "")))


def _python(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "file" in value and "sha256" in value:
            yield f"{value['file']}:{value.get('name')}"
        for inner, each in value.items():
            yield from _python(each, str(inner))
    elif isinstance(value, list):
        if len(value) == 2 and value[0] == "isolation":
            yield from _python(value[1], "isolation")
        for each in value:
            yield from _python(each, name)
    elif isinstance(value, str) and name == "isolation" and value.lower() != "bubblewrap":
        yield _NO_ISOLATION
    elif isinstance(value, str) and name not in ("about", "key", "base", "file") and _PYTHON.search(value):
        yield value


def mark_of(named: Sequence[str]) -> str | None:
    """Returns the user's mark for these names; None if the key cannot be read or made."""
    try:
        key = _key()
    except OSError:
        return None
    return hmac.new(key, json.dumps(sorted(named)).encode(), hashlib.sha256).hexdigest()


def _key() -> bytes:
    """Returns the user's key, which is made at the first use. If two processes make the key at the same time, both get the same key."""
    path = key_file()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{secrets.token_hex(8)}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_hex(32).encode())
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_bytes()


def check_trusted(run: Path, stored: Mapping[str, Any], mark: str | None) -> None:
    """Raises UserError if a run names Python but does not have this user's mark."""
    named = python_of(stored)
    if not named:
        return
    ours = mark_of(named)
    if ours is None or mark is None or not hmac.compare_digest(ours, mark):
        raise UserError(
            f"{run} was not made by you on this machine, and it executes Python with your rights: {', '.join(named)}. "
            "Read these files first; then repeat the command with --trust (in Python: trust=True)"
        )
