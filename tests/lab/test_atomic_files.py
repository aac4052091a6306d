"""A file is whole or is not there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gradus.lab.atomic_files import REMEDIES, encode, room, write
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


def test_what_a_disk_refuses_becomes_a_sentence_with_a_remedy(tmp_path: Path) -> None:
    for code, (wrong, remedy) in REMEDIES.items():
        with pytest.raises(UserError) as told, room(tmp_path, "it"):
            raise OSError(code, "no")
        sentence = f"{wrong} in {tmp_path} while writing it; everything written before is intact. To continue, {remedy}, then resume: gradus resume"
        assert str(told.value) == f"{sentence} {tmp_path}"


@pytest.mark.parametrize("error", [KeyError("x"), OSError(errno.ELOOP, "no"), ValueError("an os error 28 of somebody else")])
def test_other_errors_stay_what_they_are(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as same, room(tmp_path, "it"):
        raise error
    assert same.value is error


def test_json_keeps_the_order_of_the_fields() -> None:
    assert encode({"b": 1, "a": "ü"}) == b'{\n "b": 1,\n "a": "\\u00fc"\n}\n'
