"""Summaries of episodes: when the context is reset, what the player reads then, which tokens are actions, and episodes without a reset."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.rollouts.episodes import Episodes
from gradus.rollouts.summaries import Summarised
from gradus.testing.methods import TOY, TOY_EPISODES, readable, scripted_world
from gradus.types import Ended, Key, Request, UserError
from gradus.types.parts import Turn


class Count:
    """Observations o1, o2, ...; the action "end" ends the episode."""

    def start(self, problem, key, world):
        return Counting()


class Counting:
    first = Turn("o0")

    def __init__(self) -> None:
        self.moves = 0

    async def step(self, action):
        self.moves += 1
        return Turn(f"o{self.moves}", reward=float(action == "end"), terminated=action == "end")


TASK = replace(TOY_EPISODES, environment=Count())
ASK, TITLE = "sum?", "So: "


def run(part, say, count=1, task=TASK):
    world, _ = scripted_world(task, say)
    requests = [Request(p, count=count) for p in TOY_EPISODES.source.draw([0], None, Key(0))]
    (group,) = asyncio.run(part.run(requests, world))
    return group


def summarising(limit, most=7, **more):
    return Summarised(limit, most, ask=ASK, title=TITLE, play=Episodes(max_turns=8), **more)


def say(ask):
    tags = ask.request.tags
    return f"z{tags[-1]}" if "summary" in tags else "end" if tags[-1] == 5 else f"a{tags[-1]}"


def texts(t):
    return [readable(c.sequence) for c in t.contexts]


def own(t):
    return [readable(c.sequence[c.action_positions]) for c in t.contexts]


def test_two_summaries_give_three_contexts() -> None:
    (t,) = run(summarising(26), say).trajectories
    start = texts(t)[0].split("o0")[0]
    # prompts of 7, 15, 23 tokens; the fourth would have 31, so a2 and o3 are dropped; then 16, 24, and 32 is too long again
    assert own(t) == ["a0|a1|z0|", "a3|z1|", "end|"]
    assert t.links["summaries"] == 2
    for k, text in enumerate(texts(t)[1:]):
        assert text.startswith(f"{start}o0\n{TITLE}z{k}|")  # the first prompt and the summary, no earlier turn
        assert "a0" not in text
    for k, text in enumerate(texts(t)[:-1]):
        assert text.endswith(f"\n{ASK}|<a>z{k}|")
    assert t.ended is Ended.ENVIRONMENT
    assert (t.links["return"], t.links["unfinished"]) == (1.0, False)


def test_no_action_is_sampled_from_a_longer_context() -> None:
    seen = []

    def watched(ask):
        seen.append(("summary" in ask.request.tags, ask.at))
        return say(ask)

    group = run(summarising(30), watched, count=2)
    assert max(at for summary, at in seen if not summary) <= 30
    assert any(summary for summary, _ in seen)
    assert all(t.links["summaries"] for t in group.trajectories)


def test_the_action_that_broke_the_limit_is_dropped() -> None:
    (t,) = run(summarising(26), say).trajectories
    assert "a2" not in "".join(texts(t))
    assert "o3" not in "".join(texts(t))
    assert t.links["turns"] == 6  # the environment has seen it


def test_without_a_long_context_it_is_episodes() -> None:
    (one,), (other,) = run(summarising(1000), say).trajectories, run(Episodes(max_turns=8), say).trajectories
    assert texts(one) == texts(other)
    assert own(one) == own(other)
    assert one.id == other.id
    assert one.contexts[0].rewards == other.contexts[0].rewards
    assert {n: row.tolist() for n, row in one.contexts[0].streams.items()} == {n: row.tolist() for n, row in other.contexts[0].streams.items()}


def test_an_episode_that_needs_another_summary_ends_without_an_answer() -> None:
    (t,) = run(summarising(26, most=1), say).trajectories
    assert (t.ended, t.links["summaries"], len(t.contexts), t.links["unfinished"]) == (Ended.TRUNCATED, 1, 2, True)
    (t,) = run(summarising(26, most=0), say).trajectories
    assert (t.ended, len(t.contexts)) == (Ended.TRUNCATED, 1)
    part = summarising(26, most=1, at_test=3)
    assert (part.test.most, part.test.at_test) == (3, None)
    assert run(part.test, say).trajectories[0].ended is Ended.ENVIRONMENT


def test_a_summary_counts_as_an_action_of_its_turn() -> None:
    (t,) = run(summarising(26), say).trajectories
    rows = t.contexts[0].streams["turn"].tolist()
    assert len(rows) == t.contexts[0].actions
    assert all(t.contexts[0].streams["valid"])


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="no environment"):
        run(summarising(26), say, task=TOY)
    with pytest.raises(UserError, match="history"):
        Summarised(play=Episodes(history=2))
    with pytest.raises(UserError, match="limit"):
        Summarised(limit=0)
