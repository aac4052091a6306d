from __future__ import annotations

import os

import pytest

from gradus.runtime import cores


@pytest.mark.parametrize(
    ("quota", "usable"),
    [("200000 100000\n", 2), ("150000 100000\n", 1), ("50000 100000\n", 1), ("9900000 100000\n", 8), ("max 100000\n", 8), ("", 8), (None, 8)],
)
def test_the_bound_of_the_process_and_the_quota_of_its_container(quota, usable, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(cores, "QUOTA", tmp_path / "cpu.max")
    if quota is not None:
        cores.QUOTA.write_text(quota)
    assert cores.usable_cores() == usable
