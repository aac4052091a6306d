"""Atomic writes: a file is written in its folder under a temporary name, flushed to the disk, then renamed.

Disk errors become messages with a remedy.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gradus.types import UserError, command

PARTIAL = ".partial-"  # prefix of unfinished files; readers ignore these names
BROKEN = "broken-"  # prefix of the new names of broken files

REMEDIES: Mapping[int, tuple[str, str]] = {
    errno.ENOSPC: ("no space left", "free some space"),
    errno.EDQUOT: ("no space left in your quota", "free some space"),
    errno.EFBIG: ("a file would be larger than the system allows", "raise the limit (ulimit -f), or use another file system"),
    errno.EROFS: (
        "the file system is read-only",
        "make it writable again (systems often do this to a disk with errors), or copy the run",
    ),
    errno.EACCES: ("permission denied", "give yourself write permission there"),
    errno.EPERM: ("permission denied", "give yourself write permission there"),
    errno.EIO: ("the disk failed", "check the disk (dmesg names it), or copy the run to another disk"),
    errno.ESTALE: ("the network folder is no longer mounted", "mount it again"),
    errno.ENODEV: ("the disk is no longer there", "mount it again"),
    errno.ENOENT: ("a file or a folder is no longer there", "restore it, or resume the run in its new folder"),
    errno.EISDIR: ("a folder has the place of a file", "move it away"),
    errno.ENOTDIR: ("a file has the place of a folder", "move it away"),
    errno.EMFILE: ("too many open files", "raise the limit (ulimit -n)"),
}
"""Errors of a disk by number: description and remedy."""

_TOLD_AS_TEXT = re.compile(r"os error (\d+)")  # the text in which safetensors reports the number of a system error


def sync(path: Path) -> None:
    """Flushes a file or the entries of a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Writes `data` to `path` atomically. Without `synced`, the file survives if the process is killed, but it may be lost if the power fails."""
    partial = path.with_name(PARTIAL + path.name)
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        with suppress(OSError):  # if a disk cannot write, it may also not delete
            partial.unlink(missing_ok=True)
        raise
    if synced:
        sync(path.parent)


def remove(path: Path) -> None:
    """Deletes a file, a link, or a folder with its content. A missing path is not an error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def aside(path: Path) -> Path:
    """Renames a broken file or folder, so that no code reads or deletes it. Returns the new path."""
    target, number = path.with_name(BROKEN + path.name), 1
    while target.exists():
        number += 1
        target = path.with_name(f"{BROKEN}{path.name}-{number}")
    os.rename(path, target)
    sync(target.parent)
    return target


def encode(document: Any) -> bytes:
    """Returns JSON text with one field per line, in the order of the fields."""
    return (json.dumps(document, indent=1, ensure_ascii=True) + "\n").encode()


@contextmanager
def room(folder: Path, what: str) -> Iterator[None]:
    """Turns a disk error into a UserError. `what`: the name of the file or data that is written, for the message."""
    try:
        yield
    except Exception as error:
        number = refused(error)
        if number is None:
            raise
        what_is_wrong, remedy = REMEDIES[number]
        raise UserError(
            f"{what_is_wrong} in {folder} while writing {what}; everything written before is intact. To "
            f"continue, {remedy}, then resume: {command('resume', folder)}"
        ) from error


def refused(error: Exception) -> int | None:
    """Returns the number of a disk error that has a remedy; None for any other error."""
    if isinstance(error, OSError):
        return error.errno if error.errno in REMEDIES else None
    told = _TOLD_AS_TEXT.search(str(error)) if type(error).__name__ == "SafetensorError" else None
    return int(told[1]) if told and int(told[1]) in REMEDIES else None
