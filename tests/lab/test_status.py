"""The file with the state of a run."""

from __future__ import annotations

import json

import pytest

from gradus.lab.status import STATUS, read_status, write_status


def test_what_is_written_is_read(tmp_path):
    write_status(tmp_path, {"step": 3, "queue": None})
    assert read_status(tmp_path) == {"form": 1, "step": 3, "queue": None}
    assert [path.name for path in tmp_path.iterdir()] == [STATUS]


@pytest.mark.parametrize("content", [None, "", "{", "[1]", json.dumps({"form": 0, "step": 3})])
def test_a_missing_or_strange_file_is_no_state(tmp_path, content):
    if content is not None:
        (tmp_path / STATUS).write_text(content)
    assert read_status(tmp_path) is None


def test_a_number_that_is_not_finite_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Out of range"):
        write_status(tmp_path, {"step": float("nan")})
    assert read_status(tmp_path) is None
