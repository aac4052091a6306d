from __future__ import annotations

import pytest

from gradus.sandbox.records import MB, Limits, checked_name
from gradus.types import UserError


def test_processor_seconds_are_whole_and_follow_the_wall():
    assert [Limits(wall=w).cpu_seconds for w in (0.2, 1.0, 2.5)] == [1, 1, 3]
    assert Limits(wall=60, cpu=1.5).cpu_seconds == 2


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"wall": 0}, "Limits.wall is 0"),
        ({"wall": float("nan")}, "Limits.wall is nan"),
        ({"processes": 0}, "Limits.processes is 0; it must be 1 or more"),
        ({"files": 3}, "Limits.files is 3"),
        ({"output": -1}, "Limits.output is -1"),
        ({"memory": MB}, "an interpreter needs 67108864 bytes"),
    ],
)
def test_limits_that_cannot_hold(fields, said):
    with pytest.raises(UserError, match=said):
        Limits(**fields)


@pytest.mark.parametrize("name", ["", ".", "/etc/passwd", "../x", "a/../../x", "a\0b", "program.py", "./program.py"])
def test_names_of_files_stay_inside(name):
    with pytest.raises(UserError, match="give a relative path"):
        checked_name(name)


def test_a_name_is_made_plain():
    assert checked_name("a/./b.txt") == "a/b.txt"
