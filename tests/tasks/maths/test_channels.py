"""The task channels: the contract, the verdicts, and the split by source."""

from __future__ import annotations

import pytest

from gradus.tasks.maths.channels import channels, verify
from gradus.types import Frozen, Key, Problem
from tests.tasks.contract import check_contract, check_read_back


def test_the_contract() -> None:
    check_contract(channels(), hints=False)
    check_read_back(channels())


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("\\boxed{b*log2((s+k)/s)}", 1.0), ("=b*log2(1+k/s)", 1.0), ("\\boxed{b*log(1+k/s)}", 0.0), ("b*log2(1+k/s)", 0.0), ("=B", 0.0)],
)
def test_the_verdict_on_a_formula(text: str, verdict: float) -> None:
    problem = Problem("x", "channels", text="rate b k s", answer="b*log2(1+k/s)", meta=Frozen(category="whole"))
    assert verify(problem, text) == verdict


def test_the_verdict_on_a_letter() -> None:
    problem = Problem("x", "channels", text="", answer="B", meta=Frozen(category="choice"))
    assert [verify(problem, t) for t in ("\\boxed{B}", "=B", "\\boxed{b}", "B")] == [1.0, 1.0, 0.0, 0.0]


def test_no_source_is_in_both_splits() -> None:
    task = channels()
    seen = {p.meta["source"] for p in task.source.draw(range(400), 3, Key(0))}
    kept = {p.meta["source"] for p in task.held_out.draw(range(300), 3, Key(0))}
    assert len(kept) > 250
    assert not seen & kept
