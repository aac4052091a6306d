"""The tool that asks named experts: their topics, their accuracy, and the form of a query."""

from __future__ import annotations

from typing import Any

import pytest

from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods import scripted_world
from gradus.tools.experts import UNKNOWN, Expert, Route, routed
from gradus.types import Key, UserError

TASK = search_qa(1, people=40, instruction=False)
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))
QUERY = PROBLEM.meta["queries"][0][0]
TOOL = Route()


def asked(query: str, tool: Route = TOOL) -> Any:
    world, _ = scripted_world(TASK, lambda ask: "")
    return tool.open(PROBLEM, Key(3), world).call(query)


def test_experts_know_their_topics() -> None:
    (fact,) = PROBLEM.meta["evidence"]
    relation = QUERY.split()[0]
    assert asked(f"Max: {QUERY}").text == asked(f"max: {QUERY}").text == fact
    for one in (Expert("Eve", 1.0, (relation,), 1.0), Expert("Eve", 1.0, (relation,), 0.0), Expert("Eve", 1.0, ("none",), 1.0)):
        assert asked(f"Eve: {QUERY}", Route((one,))).text == (fact if relation in one.topics and one.accuracy else UNKNOWN)
    assert [asked(query).ok for query in ("Max: x", "Zoe: x", "x")] == [True, False, False]
    assert asked("Max: zzz").text == UNKNOWN
    assert routed("Max : a ") == ("Max", "a")
    half = Route((Expert("Eve", 1.0, (relation,), 0.5),))
    texts = {asked(f"Eve: {QUERY}{' ' * i}?", half).text for i in range(20)}
    assert texts == {fact, UNKNOWN}
    with pytest.raises(UserError, match="accuracy"):
        Expert("Eve", 1.0, (), 2.0)


def test_a_name_inside_another_word_is_no_repetition() -> None:
    assert routed("Ann: home of Hanna") == ("Ann", "home of Hanna")
    assert routed("Ann: does ann know?") is None
