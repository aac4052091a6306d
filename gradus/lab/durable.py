"""Files that are whole or not there: written beside their place, synced, renamed into it. A full disk is a sentence, not a traceback."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradus.types import UserError

PARTIAL = ".partial-"  # readers ignore names that begin so


def sync(path: Path) -> None:
    """Forces a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Puts `data` at `path` in one step; not synced, it survives a killed process but not a power cut."""
    partial = path.with_name(PARTIAL + path.name)
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    if synced:
        sync(path.parent)


def remove(path: Path) -> None:
    """Deletes a file, a link or a folder with all in it; one that is not there is no error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def encode(document: Any) -> bytes:
    """JSON text with one field a line, in the order of the fields."""
    return (json.dumps(document, indent=1, ensure_ascii=True) + "\n").encode()


@contextmanager
def room(folder: Path, what: str) -> Iterator[None]:
    """Turns a full disk into a sentence. Raises: UserError."""
    try:
        yield
    except Exception as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        # safetensors reports what the system said as text alone
        if full or f"os error {errno.ENOSPC}" in str(error) or f"os error {errno.EDQUOT}" in str(error):
            raise UserError(
                f"no space left in {folder} while writing {what}; all that was written before is whole: "
                f"free some space, then go on with: gradus resume {folder}"
            ) from error
        raise
