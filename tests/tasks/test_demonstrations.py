"""A demonstration is what was seen and done, and it must win."""

from __future__ import annotations

import pytest

from gradus.tasks.demonstrations import demonstrated, rehearsed
from gradus.tasks.games.lake_environment import FrozenLake, Walk
from gradus.tasks.text.research_environment import Desk, Research
from gradus.types import Key


def walk(grid: str = "P.G") -> Walk:
    return Walk((grid,), FrozenLake(), Key(0))


def test_pairs_of_observation_and_action() -> None:
    assert demonstrated(walk(), ["right", "right"]) == [("P.G", "right"), (".PG", "right")]


def test_a_demonstration_must_win() -> None:
    with pytest.raises(ValueError, match="earns nothing"):
        demonstrated(walk(), ["right"])
    with pytest.raises(ValueError, match="ended before"):
        demonstrated(walk(), ["right", "right", "up"])
    with pytest.raises(ValueError, match="earns nothing"):
        demonstrated(walk("PH"), ["right"])


def test_an_episode_with_sub_agents_is_rehearsed_with_their_findings() -> None:
    desk = Desk("Bor", (), Research(people=4))
    (person, facts) = next((n, f) for n, f in desk.settings.corpus.facts.items() if "home" in f)
    pairs, errands = rehearsed(desk, [f"search: {person}", "answer: Bor"], [[f"open: {person}", "found: it is Bor"]])
    assert pairs == [("", f"search: {person}"), ("it is Bor", "answer: Bor")]
    (errand,) = errands
    assert (errand["role"], errand["turn"]) == ("explorer", 0)
    assert errand["prompt"].endswith(f"\n{person}")
    (_, opened), (seen, found) = errand["demonstration"]
    assert (opened, found) == (f"open: {person}", "found: it is Bor")
    assert f"home {facts['home']}" in seen


def test_a_rehearsal_must_end_and_win() -> None:
    with pytest.raises(ValueError, match=r"the errand that search: x starts does not end"):
        rehearsed(Desk("Bor", (), Research(people=4)), ["search: x", "answer: Bor"], [["search: y"]])
    with pytest.raises(ValueError, match="earns nothing"):
        rehearsed(Desk("Bor", (), Research(people=4)), ["answer: Bix"], [])
