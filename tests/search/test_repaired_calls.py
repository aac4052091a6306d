"""RepairedCalls: what is dropped, the number of repairs, the turns, and calls that fail at random."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.environments.tools import Tools
from gradus.rollouts.episodes import Episodes
from gradus.search.repaired_calls import RepairedCalls
from gradus.tasks.code.python_tool import python_tool
from gradus.testing.methods import scripted_world
from gradus.tools.calculator import Calculator
from gradus.tools.forms import FencedCalls
from gradus.types import Key, Request, UserError
from tests.rollouts.test_failed_calls import BAD, GOOD

TASK = replace(python_tool(1, instruction=False), environment=Tools([Calculator(name="python")], form=FencedCalls(), limit=2))
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))


def played(speak, rollout=RepairedCalls(), count=1):
    """The group, the notes and the policy; `speak(number of the repair in the run, turn, key)` is an action; number 0 is no repair."""
    repairs = [0]

    def said(ask) -> str:
        if "fork" in ask.request.tags:
            repairs[0] += 1
            return speak(repairs[0], ask.request.tags[-1], ask.key)
        return speak(0, ask.request.tags[-1], ask.key)

    world, policy = scripted_world(TASK, said)
    (group,) = asyncio.run(rollout.run([Request(PROBLEM, count)], world))
    return group, world.notes, policy


ANSWER = str(PROBLEM.answer)


def test_a_failed_call_its_error_and_the_end_of_the_thought_are_dropped() -> None:
    speak = lambda repair, turn, key: (f"w{GOOD}" if repair else f"abcdef {BAD}", ANSWER)[turn]  # noqa: E731
    group, notes, policy = played(speak, RepairedCalls(cut=3))
    (one,) = group.trajectories
    (context,) = one.contexts
    assert policy.text(context.tokens[context.chosen]) == f"abcdw{GOOD}{ANSWER}"
    assert policy.text(context.tokens[~context.chosen]) == "\n2\n```\n"
    assert context.streams["turn"].tolist() == [0] * len(f"abcdw{GOOD}") + [1] * (len(ANSWER) + 1)
    assert len(context.logprobs) == context.actions
    assert (one.reward, one.links["calls"], one.links["turns"]) == (1.0, ((0, "python", True),), 2)
    assert notes["repairs"] == 1
    whole, _, policy = played(speak)
    context = whole.trajectories[0].contexts[0]
    assert policy.text(context.tokens[context.chosen]) == f"w{GOOD}{ANSWER}"  # the thought has fewer than 100 tokens


@pytest.mark.parametrize(("needed", "ran", "repairs"), [(1, True, 1), (4, True, 4), (5, False, 4)])
def test_there_are_at_most_four_repairs(needed: int, ran: bool, repairs: int) -> None:
    group, notes, _ = played(lambda repair, turn, key: ((GOOD if repair >= needed else BAD), ANSWER)[turn])
    assert group.trajectories[0].links["calls"] == ((0, "python", ran),)
    assert notes["repairs"] == repairs


def test_the_repairs_of_all_turns_are_counted_together() -> None:
    wide = replace(TASK, environment=replace(TASK.environment, limit=3))
    world, _ = scripted_world(wide, lambda ask: BAD)
    (group,) = asyncio.run(RepairedCalls(tries=1).run([Request(PROBLEM, 1)], world))
    assert world.notes["repairs"] == 1
    assert [ok for _, _, ok in group.trajectories[0].links["calls"]] == [False] * 3


def test_without_failures_or_repairs_it_is_the_plain_episode() -> None:
    for speak, rollout in ((lambda repair, turn, key: (GOOD, ANSWER)[turn], RepairedCalls()), (lambda repair, turn, key: BAD, RepairedCalls(tries=0))):
        ours, notes, _ = played(speak, rollout, count=2)
        plain, _, _ = played(speak, Episodes(), count=2)
        assert notes["repairs"] == 0
        for a, b in zip(ours.trajectories, plain.trajectories, strict=True):
            assert (a.id, a.reward, a.ended, dict(a.links)) == (b.id, b.reward, b.ended, dict(b.links))
            assert a.contexts[0].sequence.tolist() == b.contexts[0].sequence.tolist()


def test_if_calls_fail_at_random_with_probability_0_3_repairs_raise_accuracy() -> None:
    def speak(repair: int, turn: int, key: Key) -> str:
        if turn == 0:
            return BAD if float(key.uniform()[()]) < 0.3 else GOOD
        return ANSWER

    def right(rollout) -> float:
        group, _, _ = played(lambda repair, turn, key: speak(repair, turn, key), rollout, count=50)
        ran = [t.links["calls"][0][2] and t.right for t in group.trajectories]
        return sum(ran) / len(ran)

    assert right(Episodes()) == pytest.approx(0.7, abs=0.15)
    assert right(RepairedCalls()) > 0.98  # 1 - 0.3 to the power 5


def test_an_environment_without_calls_is_refused() -> None:
    with pytest.raises(UserError, match="RepairedCalls writes failed calls again"):
        RepairedCalls().check_task(python_tool(1))
