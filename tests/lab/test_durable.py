"""A file is whole or is not there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gradus.lab.durable import encode, room, write
from gradus.types import UserError


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", b"old")

    def refuse(*arguments: object) -> None:
        raise OSError(errno.EIO, "broken disk")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="broken disk"):
        write(tmp_path / "a", b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"old")]
    write(tmp_path / "a", b"newer", synced=False)
    assert (tmp_path / "a").read_bytes() == b"newer"


def test_only_a_full_disk_becomes_a_sentence(tmp_path: Path) -> None:
    for code in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(UserError, match="no space left"), room(tmp_path, "it"):
            raise OSError(code, "full")
    with pytest.raises(PermissionError), room(tmp_path, "it"):
        raise PermissionError(errno.EACCES, "no")
    with pytest.raises(KeyError), room(tmp_path, "it"):
        raise KeyError("x")


def test_json_keeps_the_order_of_the_fields() -> None:
    assert encode({"b": 1, "a": "ü"}) == b'{\n "b": 1,\n "a": "\\u00fc"\n}\n'
