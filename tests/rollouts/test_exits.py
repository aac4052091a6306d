"""Forced exits: where a thought is cut, what is inserted, what is trained, and the links and names of a group."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.rewards.verified import Verified
from gradus.rollouts.exits import Budgets, ForcedExits, RandomCuts, tokens_of
from gradus.rollouts.single_turn import SingleTurn
from gradus.testing.methods import TOY, readable, scripted_world
from gradus.types import Ended, Key, Request, UserError

WHOLE = "abcdef =X"
PARTS = {"text": "..=", "mark": " =", "limit": 3}


def run(part, speak=lambda ask: "Z" if "exit" in ask.request.tags else WHOLE, count=1, problems=1, max_tokens=1000):
    world, _ = scripted_world(TOY, speak, reward=Verified(), max_tokens=max_tokens)
    asked = [Request(p, count=count) for p in TOY.source.draw(range(problems), None, Key(0))]
    return asyncio.run(part.run(asked, world)), world


def actions(t) -> str:
    (context,) = t.contexts
    return readable(context.sequence[context.action_positions])


def everything(t) -> str:
    return readable(t.contexts[0].sequence)[1:]  # without the prompt of one token


def test_every_forced_answer_is_a_prefix_the_text_and_an_answer() -> None:
    ((group,), _) = run(ForcedExits(Budgets((2, 4)), **PARTS))
    assert [everything(t) for t in group.trajectories] == ["ab..=Z|", "abcd..=Z|", "abcdef =X|"]
    assert [actions(t) for t in group.trajectories] == ["abZ|", "abcdZ|", "abcdef =X|"]  # nobody chose the inserted text
    assert [t.completion for t in group.trajectories] == ["ab..=Z", "abcd..=Z", WHOLE]
    assert [t.links["exit"] for t in group.trajectories] == [0, 1, 2]
    assert all(t.links["trace"] == 0 and t.links["cuts"] == (2, 4) for t in group.trajectories)
    assert len({t.id for t in group.trajectories}) == 3
    trace = group.trajectories[2].contexts[0]
    first = group.trajectories[0].contexts[0]
    assert first.logprobs is not None
    assert first.logprobs[:2].tolist() == trace.logprobs[:2].tolist()  # those of the sampled thought
    assert first.parent is trace.parent


def test_forced_answers_have_their_own_limit_and_draws() -> None:
    asked = []

    def speak(ask):
        asked.append((ask.request.tags, ask.sampling.limit))
        return "ZZZZZ" if "exit" in ask.request.tags else WHOLE

    (groups, _) = run(ForcedExits(Budgets((2, 4)), **PARTS), speak, count=2, problems=2)
    assert [limit for tags, limit in asked if "exit" in tags] == [3] * 8
    assert len({(tags, i) for i, (tags, _) in enumerate(asked)}) == 12
    assert [len(g.trajectories) for g in groups] == [6, 6]
    assert [t.links["trace"] for t in groups[0].trajectories] == [0, 0, 0, 1, 1, 1]
    assert len({t.id for g in groups for t in g.trajectories}) == 12
    assert all(t.ended is Ended.LENGTH for t in groups[0].trajectories if t.links["exit"] < 2)


def test_drawn_places_are_different_and_within_the_thought() -> None:
    seen = set()
    for i in range(60):
        cuts = RandomCuts(3).cuts(6, Key(i))
        assert cuts == sorted(set(cuts))
        assert len(cuts) == 3
        seen |= set(cuts)
    assert seen == {1, 2, 3, 4, 5}
    assert [RandomCuts(3).cuts(n, Key(0)) for n in (0, 1, 2)] == [[], [], [1]]
    assert len(RandomCuts(9).cuts(4, Key(0))) == 3
    assert RandomCuts(0).cuts(9, Key(0)) == []


def test_a_budget_beyond_the_thought_counts_at_its_end() -> None:
    assert Budgets((2, 4, 9)).cuts(6) == [2, 4, 6]
    assert Budgets((2, 4)).cuts(0) == [0, 0]


def test_without_exits_it_is_single_turn() -> None:
    ((group,), _), ((plain,), _) = run(ForcedExits(RandomCuts(0), **PARTS), count=2), run(SingleTurn(), count=2)
    assert group.key == plain.key
    assert [t.id for t in group.trajectories] == [t.id for t in plain.trajectories]
    assert [t.contexts[0].sequence.tolist() for t in group.trajectories] == [t.contexts[0].sequence.tolist() for t in plain.trajectories]


def test_an_empty_answer_and_a_cut_answer() -> None:
    ((group,), _) = run(ForcedExits(RandomCuts(2), **PARTS), lambda ask: "Z" if "exit" in ask.request.tags else "")
    assert [everything(t) for t in group.trajectories] == ["|"]
    ((group,), _) = run(ForcedExits(Budgets((2, 4)), **PARTS), max_tokens=3)
    assert [everything(t) for t in group.trajectories] == ["ab..=Z|", "abc..=Z|", "abc"]


def test_inserted_tokens_have_no_end_token() -> None:
    world, _ = scripted_world(TOY, lambda ask: "", reward=Verified())
    assert readable(tokens_of("a=", world, "policy")) == "a="
    assert tokens_of("", world, "policy").tolist() == []
    assert isinstance(tokens_of("a", world, "policy"), np.ndarray)


def test_wrong_settings_are_refused() -> None:
    for make, text in (
        (lambda: RandomCuts(-1), "count"),
        (lambda: Budgets(()), "ascending"),
        (lambda: Budgets((3, 2)), "ascending"),
        (lambda: Budgets((2, 2)), "ascending"),
        (lambda: Budgets((0, 2)), "1 or more"),
        (lambda: ForcedExits(mark=""), "mark"),
        (lambda: ForcedExits(limit=0), "limit"),
    ):
        with pytest.raises(UserError, match=text):
            make()
