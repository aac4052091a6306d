"""The state of a run as text: shares, estimates and sentences by hand, and every part of the view."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gradus.lab.top import bottleneck, plain, seconds_left, shares, silence, together, tokens_per_second

STATE: dict[str, Any] = {
    "form": 1,
    "state": "running",
    "at": 1100.0,
    "began": {"at": 1000.0, "step": 0, "progress": 0.0},
    "process": 7,
    "machine": "host",
    "workers": {
        "worker-1": {"now": "sampling", "for": 1.0, "seconds": {"sampling": 70.0, "waits for requests": 30.0}},
        "trainer": {"now": "updating", "for": 2.4, "seconds": {"updating": 40.0, "waits for groups": 60.0}},
        "worker-0": {"now": "waits for requests", "for": 0.2, "seconds": {"sampling": 100.0}},
    },
    "recent": {
        "over": 50.0,
        "workers": {
            "trainer": {"updating": 20.0, "waits for groups": 30.0},
            "worker-0": {"sampling": 50.0},
            "worker-1": {"sampling": 40.0, "waits for requests": 10.0},
        },
        "tokens": {"sampling": 9000, "updating": 8000},
    },
    "tokens": {"sampling": 20_000, "updating": 16_000},
    "ages": {"0": 1, "1": 3, "10": 4},
    "queue": {"waiting": 3, "running": 2, "finished": 1200, "dropped": 1},
    "memory": {"process": 2_000_000_000, "peak": 3_000_000_000},
    "waits": [{"what": "reward function score", "seconds": 12.0}],
    "step": 5,
    "steps": 20,
    "stage": None,
    "progress": 0.25,
    "last": {"reward": 0.5},
}


def changed(**fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(STATE), **fields}


def test_shares_add_up_and_keep_their_order():
    found = shares({"saving": 1.0, "sampling": 2.0, "odd": 1.0})
    assert found == {"sampling": 0.5, "saving": 0.25, "odd": 0.25}
    assert list(found) == ["sampling", "saving", "odd"]
    assert shares({}) == {}
    assert together([{"a": 1.0}, {"a": 2.0, "b": 1.0}]) == {"a": 3.0, "b": 1.0}


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 300.0),  # a quarter in 100 s
        ({"progress": 0.5}, 100.0),
        ({"began": {"at": 1050.0, "step": 2, "progress": 0.1}}, 250.0),  # a resumed run: 0.15 in 50 s, 0.75 left
        ({"progress": None}, 300.0),  # stages: 5 of 20 steps
        ({"progress": 0.0}, None),
        ({"state": "finished"}, None),
    ],
)
def test_the_time_left(fields, seconds):
    assert seconds_left(changed(**fields)) == (None if seconds is None else pytest.approx(seconds))


def test_tokens_per_second_and_per_busy_second():
    assert tokens_per_second(STATE) == [("sampling", 9000, 180.0, 100.0), ("updating", 8000, 160.0, 400.0)]
    assert tokens_per_second(changed(recent={"over": 0.0, "workers": {}, "tokens": {}})) == []


def test_the_slower_side():
    told = "The trainer waits for groups 60% of the time, and the workers wait for requests 10% of the time. Sampling is the slower side."
    assert bottleneck(STATE["recent"]["workers"]) == told
    recent = {"trainer": {"updating": 50.0}, "worker-0": {"sampling": 20.0, "waits for requests": 30.0}}
    assert bottleneck(recent).endswith("The update is the slower side.")
    recent["worker-0"] = {"sampling": 50.0}
    assert bottleneck(recent).endswith("Neither side waits long.")


def test_a_run_without_a_system():
    recent = {"trainer": {"sampling": 5.0, "judging": 1.0, "updating": 3.0, "other": 1.0}}
    said = bottleneck(recent)
    assert "The largest share is sampling, 50%." in said
    assert "hides up to 30% of the time" in said
    recent["trainer"] = {"sampling": 1.0, "judging": 8.0, "updating": 1.0}
    assert bottleneck(recent).endswith("The largest share is judging, 80%.")
    recent["trainer"] = {}
    assert bottleneck(recent) == ""


@pytest.mark.parametrize(
    ("state", "now", "alive", "said"),
    [
        ("running", 1105.0, True, ""),
        ("running", 1111.0, True, "no state for 11s: process 7 on host is blocked"),
        ("running", 1111.0, None, "is blocked, or has been stopped"),
        ("running", 1100.0, False, "process 7 on host does not exist any more"),
        ("finished", 9999.0, False, ""),
    ],
)
def test_a_silent_run_is_told(state, now, alive, said):
    found = silence(changed(state=state), now, alive=alive)
    assert (said in found) if said else not found


def test_the_whole_view():
    shown = plain(STATE, "grpo on sums", 1100.5, width=80)
    lines = shown.split("\n")
    assert lines[0] == "grpo on sums  step 5 of 20 · 25% · running for 1m40s · 5m00s left"
    first = [line.split()[0] for line in lines if line]
    assert first.index("trainer") < first.index("worker-0") < first.index("worker-1")
    assert "trainer   updating             2s  updating 40%, waits for groups 60%" in lines
    assert "queue       3 waiting, 2 running, 1,200 finished, 1 dropped" in lines
    assert "memory      this process 2.0 GB, its peak 3.0 GB" in lines
    assert "long waits  reward function score, for 12s" in lines
    assert "last step   reward 0.500" in lines
    ages = [line.split() for line in lines[-3:]]
    assert ages == [["0", "1", "12%", "#" * 8], ["1", "3", "38%", "#" * 22], ["10", "4", "50%", "#" * 30]]
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)


def test_a_finished_run_does_nothing_now():
    shown = plain(changed(state="finished", ages={}, queue=None, waits=[], last={}), "grpo", 5000.0, width=80)
    assert "step 5 of 20 · 25% · finished" in shown
    assert "does now" in shown
    assert "age of groups" not in shown
    assert [line for line in shown.split("\n") if line.startswith("trainer")] == ["trainer   -           -  updating 40%, waits for groups 60%"]


def test_a_name_cannot_control_the_terminal():
    assert "\x1b" not in plain(changed(waits=[{"what": "\x1b[2J", "seconds": 1.0}], stage="\x1b]0;x"), "a\x1b[31m", 1100.0, width=80)
