"""The task beliefs: who saw what, the verdict, and that the order of the events matters."""

from __future__ import annotations

import pytest

from gradus.tasks.text.beliefs import beliefs, last_seen, verify
from gradus.types import Key, Problem
from tests.tasks.contract import check_contract, check_read_back


def test_the_contract() -> None:
    check_contract(beliefs(), limit=260, hints=False)
    check_read_back(beliefs())


EVENTS = [("ann", "ball", "box"), ("bob", "out"), ("ann", "ball", "bag"), ("bob", "in"), ("ann", "ball", "jar")]


@pytest.mark.parametrize(("count", "bob", "real"), [(1, "box", "box"), (3, "box", "bag"), (4, "box", "bag"), (5, "jar", "jar")])
def test_who_saw_what(count: int, bob: str, real: str) -> None:
    assert last_seen(EVENTS[:count], "bob") == bob
    assert last_seen(EVENTS[:count], "ann") == last_seen(EVENTS[:count], None) == real


def test_who_moves_a_thing_sees_it() -> None:
    assert last_seen([("bob", "out"), ("bob", "ball", "box")], "bob") == "box"
    assert last_seen([("bob", "out"), ("ann", "ball", "box")], "bob") is None


def test_the_verdict() -> None:
    problem = Problem("x", "beliefs", text="", answer="box")
    texts = ("<answer>box</answer>", "=box", "<answer>bag</answer><answer> box </answer>", "box", "<answer>bag</answer>=box")
    assert [verify(problem, t) for t in texts] == [1.0, 1.0, 1.0, 0.0, 0.0]


def test_the_order_of_the_events_decides() -> None:
    for p in beliefs().source.draw(range(50), 2, Key(0)):
        events = [tuple(text.split()) for text in p.meta["events"]]
        assert p.question.startswith(". ".join(p.meta["events"]))
        assert len({e[2] for e in events if len(e) == 3}) >= 2
        assert verify(p, p.meta["solution"]) == 1.0
