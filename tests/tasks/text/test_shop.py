"""The task shop: actions that are read, the shopper's rules, and the verdict."""

from __future__ import annotations

from gradus.tasks.text.shop import action_of, shop, verify
from gradus.testing import Effort, check_task
from gradus.types import Frozen, Key, Problem
from tests.tasks.contract import HOSTILE, check_read_back, check_split


def test_the_contract() -> None:
    check_task(shop(), right=lambda p: [p.meta["solution"]], wrong=lambda p: HOSTILE, effort=Effort(problems=8, texts=100), strict=True)
    check_split(shop())
    check_read_back(shop())


def test_actions_are_read() -> None:
    assert action_of('so {"rationale":"a","action":{"type":"click","name":"x"}} ') == {"type": "click", "name": "x"}
    for text in ("", "{", '{"action":{"type":"click"}}', '{"rationale":"a","action":3}', '{"rationale":1,"action":{}}', "[1]"):
        assert action_of(text) is None


def test_the_rules_of_the_shopper() -> None:
    for p in shop().source.draw(range(120), 2, Key(0)):
        want, *_, page = p.question.split("; ")
        *words, budget = want.split()[1:]
        goal, action = " ".join(words), p.meta["action"]
        if page == "home":
            assert action == {"type": "type_and_submit", "name": "search", "text": goal}
        elif page.startswith("results"):
            assert action["name"] == (goal if goal in page else "sort by price")
        else:
            fits = int(page.split()[-1]) <= int(budget)
            assert action == ({"type": "click", "name": "buy now"} if fits else {"type": "terminate"})


def test_the_verdict() -> None:
    problem = Problem("x", "shop", text="", meta=Frozen(action=Frozen(type="terminate")))
    assert verify(problem, '{"rationale":"a","action":{"type":"terminate"}}') == 1.0
    assert verify(problem, '{"rationale":"a","action":{"type":"terminate","name":"x"}}') == 0.0
    assert verify(problem, "terminate") == 0.0
