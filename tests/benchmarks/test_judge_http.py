"""The judge that misbehaves: all faults occur, no verdict is wrong, and no reply is given twice to a client that lives."""

from __future__ import annotations

import pytest

from benchmarks.judge_http import FAULTS, LOST, Server, ask, draw, fault_of, measure
from tests.workers.test_chat_client import started


def test_a_tenth_of_the_attempts_is_faulty_in_all_kinds():
    found = [fault_of(f"answer {i}", 1) for i in range(10_000)]
    assert sum(kind is not None for kind in found) == pytest.approx(1000, abs=100)
    assert all(found.count(kind) > 60 for kind in FAULTS)
    assert sum(draw("lost", f"answer {i}") < LOST for i in range(10_000)) == pytest.approx(20, abs=12)


def test_all_verdicts_are_right(tmp_path):
    server = Server(fault=lambda question, attempt: (fault_of(question, 1) or "").replace("slow", "closed") or None if attempt == 1 else None)
    url, store = started(server), str(tmp_path / "r.sqlite")
    found = ask(url, store, 150, 32)
    assert (found["right"], found["wrong"], found["failed"]) == (150, 0, 0)
    assert set(server.given.values()) - {0} == {1}
    before = sum(server.seen.values())
    assert ask(url, store, 150, 32)["right"] == 150
    assert sum(server.seen.values()) == before


@pytest.mark.nightly
@pytest.mark.alone
def test_the_whole_benchmark(tmp_path):
    found = measure(2000, 200.0, 64, tmp_path)
    assert (found["wrong"], found["requests of the third start"]) == (0, 0)
    assert found["right"] + found["failed"] == 2000
    assert found["given twice"] <= found["given but not stored at the kill"]
