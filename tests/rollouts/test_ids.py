"""Names are unique where requests differ, and plain where nothing is special."""

from __future__ import annotations

from gradus.rollouts.ids import group_name, trajectory_name
from gradus.types import Problem, Request

PROBLEM = Problem("sums/4", "sums")


def test_names_by_hand() -> None:
    assert group_name(Request(PROBLEM)) == "sums/4"
    assert group_name(Request(PROBLEM, tags=("hint", 2), player="critic")) == "sums/4/critic/hint/2"
    assert trajectory_name(5, Request(PROBLEM, sample=3), 1) == "5/sums/4/4"  # the second sample of a request that begins at 3


def test_requests_that_draw_differently_have_different_names() -> None:
    requests = [Request(PROBLEM), Request(PROBLEM, tags=("a",)), Request(PROBLEM, tags=("a", 1)), Request(PROBLEM, player="user")]
    names = {trajectory_name(step, r, i) for r in requests for step in (0, 1) for i in (0, 1)}
    assert len(names) == 16
