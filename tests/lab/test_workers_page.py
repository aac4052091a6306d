"""The section about the workers of a run: its numbers by hand, and figures only for known numbers."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from gradus.lab.folder import RunFolder
from gradus.lab.report import write_report
from gradus.lab.workers_page import ages, stretches, times, workers
from gradus.runtime.activity import ACTIVITIES


def row(step: int, **more: Any) -> dict[str, Any]:
    seconds = {"trainer": {"updating": 1.0, "waits for groups": 3.0}, "worker-0": {"sampling": 2.0}, "worker-1": {"sampling": 1.0, "judging": 1.0}}
    usual = {"seconds": seconds, "tokens": {"sampling": 80, "evaluating": 7}, "ages": {"0": 1, "2": 3}, "queue": {"waiting": 5}, "memory": 2_500_000_000}
    return {"step": step, **usual, **more}


def titles(page: str) -> list[str]:
    return re.findall(r"<figcaption>(.*?)</figcaption>", page)


def values(page: str) -> list[dict[str, Any]]:
    return [json.loads(html.unescape(text)) for text in re.findall(r"data-values='(.*?)'", page)]


def test_a_run_with_workers():
    page = workers([row(0), row(1)])
    assert titles(page) == [
        "Time of the trainer", "Time of the other workers", "Age of the groups", "Queue at the end of the step", "Tokens per second", "Memory of the process",
    ]
    assert "The trainer waits for groups 75% of the time" in page
    trainer, others, queue, speeds, memory = values(page)
    assert {name: points for name, _, points in trainer["series"]} == {"updating": [0.25, 0.25], "waits for groups": [0.75, 0.75]}
    assert {name: points for name, _, points in others["series"]} == {"sampling": [0.75, 0.75], "judging": [0.25, 0.25]}
    assert [(name, points) for name, _, points in queue["series"]] == [("waiting", [5, 5])]
    assert [(name, points) for name, _, points in speeds["series"]] == [("sampling", [20, 20])]  # 80 tokens in 4 s of the trainer
    assert [points for _, _, points in memory["series"]] == [[2.5, 2.5]]


def test_a_run_without_a_system():
    seconds = {"trainer": {"sampling": 1.0, "updating": 1.0}}
    page = workers([row(step, seconds=seconds, ages={}, queue=None, memory=None) for step in range(3)])
    assert titles(page) == ["Time of the trainer", "Tokens per second"]
    assert "One worker does all work" in page


@pytest.mark.parametrize("rows", [[], [row(0, seconds={})]])
def test_without_numbers_there_is_no_section(rows):
    assert workers(rows) == ""


def test_every_activity_has_a_colour_and_keeps_it():
    one = times("t", [row(0, seconds={"trainer": dict.fromkeys(ACTIVITIES, 1.0)})], lambda _: True)
    two = times("t", [row(0)], lambda name: name != "trainer")
    entry = re.compile(r'<li style="--c:var\(--curve-(\d)\)"[^>]*>([^<]*?) <b>')
    found = {name: colour for colour, name in entry.findall(one)}
    assert set(found) == set(ACTIVITIES)
    assert entry.findall(two) == [(found["sampling"], "sampling"), (found["judging"], "judging")]


def test_long_runs_are_added_up_in_stretches():
    rows = [row(step, seconds={"trainer": {"updating": float(step)}}) for step in range(10)]
    found = stretches(rows, lambda _: True, most=4)
    assert found == [(0, {"updating": 3.0}), (3, {"updating": 12.0}), (6, {"updating": 21.0}), (9, {"updating": 9.0})]


def test_the_histogram_of_ages_by_hand():
    page = ages([row(0), row(1, ages={"0": 4, "40": 2})])
    said = re.findall(r"<title>groups, (\S+): ([\d.]+)%</title>", page)
    assert len(said) == 17
    assert dict(said) == {**dict.fromkeys(map(str, range(16)), "0.0"), "0": "50.0", "2": "30.0", "16+": "20.0"}
    assert ages([row(0, ages={})]) == ""


def test_the_page_of_a_run(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"recipe": {"key": "grpo"}, "task": "arithmetic", "seed": 0}, {})
    run.append_metrics(0, {"reward": 0.5})
    assert "<h2>Workers</h2>" not in write_report(run).read_text()
    run.append_work(0, row(0))
    assert "<h2>Workers</h2>" in write_report(run).read_text()
