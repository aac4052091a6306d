"""Doubting: the mixture by hand, the doubts, which episodes get a clone, where the clone begins, and which clones are kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from gradus.environments.tools import Tools
from gradus.rewards.overlap import Matches
from gradus.rollouts.clones import DOUBTS, STREAM, Doubting, mixture, shares
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods.scripted import scripted_world
from gradus.tools.forms import TaggedCalls
from gradus.tools.search import Search
from gradus.types import Key, Request
from gradus.types.signals import LogProb

ENVIRONMENT = Tools([Search()], TaggedCalls("<information>", "</information>"), verify=Matches("exact"))
TASK = replace(search_qa(1, people=40, instruction=False), environment=ENVIRONMENT)
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))
SEARCH, RIGHT, WRONG = "<search>home of Ann</search>", f"<answer>{PROBLEM.answer}</answer>", "so <answer>no</answer>"
DOUBT = "Hm, not sure."


def run(speak, rollout=Doubting(prob=1.0, keep=1.0, doubts=(DOUBT,)), count=2, requests=1):
    """The groups, the state and the notes; an action is `speak(sample, turn)`."""
    world, policy = scripted_world(TASK, lambda ask: speak(ask.request.sample, ask.request.tags[-1]))

    async def score(contexts, want, player="policy"):
        assert want == LogProb()
        return [np.full(c.actions, -0.25 * (i + 1), np.float32) for i, c in enumerate(contexts)]

    world.score = score
    made = asyncio.run(rollout.run([Request(PROBLEM, count, tags=(n,)) for n in range(requests)], world, rollout.start()))
    return *made, world.notes, policy


def wrong_then_right(sample: int, turn: int) -> str:
    """Originals 0 and 1 search and answer wrong; their clones 2 and 3 go on with a right answer."""
    return (SEARCH, WRONG)[turn] if sample < 2 else RIGHT


def test_the_density_by_hand() -> None:
    at = {"old": 0.4, "first": 0.05}
    rows = mixture(6, 0.1, first=2, given=[1.0, 2 / 3], z=0.5, j=4).astype(float)
    q = lambda i, p: rows[i, 0] * p + rows[i, 1]  # noqa: E731
    assert q(0, at["old"]) == pytest.approx(0.9 * 0.4 + 0.1 * 0.4 / 0.5**0.25) == pytest.approx(0.4076, abs=1e-4)
    assert q(2, at["first"]) == pytest.approx(0.145)
    assert q(3, 0.3) == pytest.approx(0.9 * 0.3 + 0.1 * 2 / 3)
    assert q(4, 0.7) == pytest.approx(0.7)
    assert mixture(2, 0.1).tolist() == pytest.approx(np.array([[0.9, 0.0]] * 2))
    assert mixture(1, 0.1)[0, 0] * 0.4 == pytest.approx(0.36)


def test_the_tree_of_doubts_by_hand() -> None:
    a, b, c, d, e, f = range(6)
    pool = [(a, b, c), (a, b, d), (a, e, f)]
    assert shares(pool, (a, b, c)) == pytest.approx([1.0, 2 / 3, 1 / 2])
    assert shares(pool, (a, e, f)) == pytest.approx([1.0, 1 / 3, 1.0])
    assert shares([(a, b), (a, b, c)], (a, b, c)) == [1.0, 1.0, 1.0]  # a text that has ended does not count
    assert shares(pool, ()) == []


def test_a_clone_goes_back_to_before_the_answer() -> None:
    (group,), state, notes, policy = run(wrong_then_right)
    assert [t.value for t in group.trajectories] == [0.0, 0.0, 1.0, 1.0]
    first, clone = group.trajectories[0], group.trajectories[2]
    assert clone.links["origin"] == first.id
    assert len({t.id for t in group.trajectories}) == 4
    assert clone.completion == f"{SEARCH}\nso {DOUBT}{RIGHT}"  # the thought "so " stays
    (context,) = clone.contexts
    said = policy.text(context.tokens[context.chosen])
    assert said == f"{SEARCH}so {DOUBT}{RIGHT}"
    assert policy.text(context.tokens[~context.chosen]) == policy.text(first.contexts[0].tokens[~first.contexts[0].chosen])
    begin = len(SEARCH) + len("so ")
    rows = context.streams[STREAM].astype(float)
    assert rows[begin].tolist() == pytest.approx([0.5, 0.5])  # alpha 2/4, first inserted token
    assert rows[begin + 1].tolist() == pytest.approx([0.5, 0.5])  # the only doubt: share 1
    assert rows[-1].tolist() == [1.0, 0.0]
    assert rows[0].tolist() == pytest.approx([1.0, 0.0])  # all originals are wrong: z = 1
    assert context.logprobs[begin] in (-0.25, -0.5)  # as scored
    assert context.streams["turn"].tolist() == [0] * len(SEARCH) + [1] * (len(said) - len(SEARCH))
    assert notes["cloned"] == 0.5
    assert (notes["rescued"], notes["solved"]) == (1.0, 1.0)
    assert state["keep"] == pytest.approx(0.9 * 1.0 + 0.1 * 1.0)


def test_the_prefix_of_a_clone_is_divided_by_the_error_rate() -> None:
    (group,), *_ = run(lambda sample, turn: (SEARCH, WRONG if sample == 0 else RIGHT)[turn] if sample < 2 else RIGHT)
    clone = group.trajectories[2]
    context = clone.contexts[0]
    begin = len(SEARCH) + len("so ")
    at = context.action_positions
    j = int(at[begin] - at[0])  # with the passages
    assert j > begin
    alpha = 1 / 3
    assert context.streams[STREAM][0, 0] == pytest.approx(1 - alpha + alpha / 0.5 ** (1 / j))


def test_right_answers_clones_and_episodes_without_an_answer_are_not_cloned() -> None:
    assert len(run(lambda sample, turn: RIGHT)[0][0].trajectories) == 2
    assert len(run(lambda sample, turn: SEARCH)[0][0].trajectories) == 2
    again, state, notes, _ = run(lambda sample, turn: WRONG)
    assert len(again[0].trajectories) == 4  # the clones are wrong, too, and have no clones
    assert notes["rescued"] == 0.0
    assert state["keep"] == pytest.approx(0.9)


def test_the_filter_keeps_the_likeliest_doubts() -> None:
    # four clones; clone i has the mean log-probability -(i + 1) / 4; 0.25 * 4 originals = 1 clone
    groups, _, notes, _ = run(wrong_then_right, Doubting(prob=1.0, keep=0.25, doubts=(DOUBT,)), requests=2)
    assert [len(g.trajectories) for g in groups] == [3, 2]
    assert groups[0].trajectories[2].links["origin"] == groups[0].trajectories[0].id
    assert notes["cloned"] == pytest.approx(1 / 5)
    none, state, _, _ = run(wrong_then_right, Doubting(prob=1.0, keep=0.0, doubts=(DOUBT,)))
    assert len(none[0].trajectories) == 2
    assert state["keep"] == 0.0  # no kept clone, no change


def test_a_share_of_the_wrong_episodes_is_cloned() -> None:
    (group,), *_ = run(lambda sample, turn: WRONG, Doubting(prob=0.2, keep=1.0), count=300)
    assert (len(group.trajectories) - 300) / 300 == pytest.approx(0.2, abs=0.07)
    doubts = {d for t in group.trajectories[300:] for d in DOUBTS if d in t.completion}
    assert len(doubts) > 6
