"""RetriedCalls: the thought and its cut, which calls are written again, what is trained, and the rewards."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from gradus.credit.groups import GroupRelative
from gradus.environments.tools import Tools
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.failed_calls import RetriedCalls, thought_before
from gradus.selection.filters import Informative
from gradus.tasks.code.python_tool import python_tool
from gradus.testing.methods import scripted_world
from gradus.tools.calculator import Calculator
from gradus.tools.forms import FencedCalls, JsonCalls, LineCalls, TaggedCalls
from gradus.types import Group, Key, Request, UserError

FENCED = Tools([Calculator(name="python")], form=FencedCalls(), calls=5, limit=6, describes=False)
TASK = replace(python_tool(1, instruction=False), environment=FENCED)
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))


def call(code: str) -> str:
    return f"```python\n{code}\n```\n```output"


BAD, GOOD = call("1 / 0"), call("1 + 1")


def retried(ask) -> int | None:
    """The number of the continuation for which an action is asked; None for a turn of an episode."""
    return ask.request.sample if "retry" in ask.request.tags else None


def run(speak, rollout=RetriedCalls(), count=1, requests=1):
    """The groups, the auxiliary groups, the notes and the policy; `speak(number of the continuation or None, sample, turn)` is an action."""
    numbers: dict[tuple, int] = {}

    def said(ask) -> str:
        tags = ask.request.tags
        if "fork" not in tags:
            return speak(None, ask.request.sample, tags[-1])
        numbers[tags] = numbers.get(tags, -1) + 1
        return speak(numbers[tags], tags[-2], tags[-1])

    world, policy = scripted_world(TASK, said)
    groups = asyncio.run(rollout.run([Request(PROBLEM, count, tags=(n,)) for n in range(requests)], world))
    return groups, world._beside, world.notes, policy


def episode(thought: str = "", again=lambda i: GOOD):
    """Speaks `thought` and a failing call, then the answer; continuation i is `again(i)`."""
    return lambda i, sample, turn: again(i) if i is not None else (f"{thought}{BAD}", "2")[turn]


def prefix(group: Group, policy) -> str:
    (context,) = group.trajectories[0].contexts
    return policy.text(context.prefix)


@pytest.mark.parametrize(("length", "kept"), [(130, 30), (60, 0), (100, 0), (101, 1)])
def test_a_continuation_starts_without_the_last_100_tokens_of_the_thought(length: int, kept: int) -> None:
    thought = "".join(chr(97 + i % 26) for i in range(length))
    _, (group,), _, policy = run(episode(thought))
    assert prefix(group, policy) == f"{PROBLEM.question}{thought[:kept]}"


def test_the_cut_is_in_the_thought_of_the_failed_call_alone() -> None:
    speak = lambda i, sample, turn: GOOD if i is not None else (f"first {GOOD}", f"second {BAD}", "2")[turn]  # noqa: E731
    _, (group,), _, policy = run(speak, RetriedCalls(cut=4))
    assert prefix(group, policy) == f"{PROBLEM.question}first {GOOD}\n2\n```\nsec"
    _, (group,), _, policy = run(speak)
    assert prefix(group, policy) == f"{PROBLEM.question}first {GOOD}\n2\n```\n"
    assert [t.links["calls"] for t in group.trajectories] == [((1, "python", True),)]


def test_only_the_continuation_is_trained() -> None:
    (group,), (tried,), _, policy = run(episode("think "), RetriedCalls(cut=2))
    (context,) = tried.trajectories[0].contexts
    assert policy.text(context.tokens[context.chosen]) == GOOD
    assert context.chosen.all()
    assert len(context.logprobs) == context.actions == len(GOOD)
    assert context.streams["turn"].tolist() == [0] * len(GOOD)
    assert tried.trajectories[0].completion == f"thin{GOOD}"
    (own,) = group.trajectories[0].contexts
    assert policy.text(own.tokens[own.chosen]) == f"think {BAD}2"
    assert "ZeroDivisionError" in policy.text(own.tokens[~own.chosen])  # the inserted error has no loss


def test_a_continuation_has_the_reward_1_if_its_call_runs() -> None:
    _, (group,), notes, _ = run(episode(again=lambda i: (GOOD, GOOD, BAD, BAD)[i]), count=4, rollout=RetriedCalls(most=1.0))
    assert group.rewards.tolist() == [1.0, 1.0, 0.0, 0.0]
    (rows,) = GroupRelative().assign([group], {})
    np.testing.assert_allclose([c.advantages[0] for c in rows], [1, 1, -1, -1])
    assert (notes["ran"], notes["retried"], notes["retried/ran"]) == (0.0, 1.0, 0.5)
    _, (same,), _, _ = run(episode(), count=4)
    assert same.rewards.tolist() == [1.0] * 4
    assert Informative().keep([same, group], Key(0)) == ([group], [same])


def test_a_continuation_without_a_call_is_left_out_and_an_unreadable_call_fails() -> None:
    _, (group,), notes, _ = run(episode(again=lambda i: ("2", GOOD, "so ```output", GOOD)[i]), count=4)
    assert group.rewards.tolist() == [1.0, 0.0, 1.0]
    assert notes["retried/ran"] == pytest.approx(2 / 3)
    assert run(episode(again=lambda i: "2"))[1] == []


def test_the_number_of_groups_is_limited() -> None:
    assert len(run(episode(), count=4)[1]) == 1
    assert len(run(episode(), RetriedCalls(most=2.0), count=4, requests=2)[1]) == 4
    assert len(run(episode(), RetriedCalls(most=9.0), count=4)[1]) == 4
    made = run(episode(), RetriedCalls(most=1.0), count=8, requests=3)[1]
    assert len({g.key for g in made}) == 3
    assert {t.links["origin"] for g in made for t in g.trajectories} == {g.key.partition("/call")[0] for g in made}


def test_every_failed_call_of_an_episode_is_written_again() -> None:
    speak = lambda i, sample, turn: GOOD if i is not None else (BAD, GOOD, BAD, "2")[turn]  # noqa: E731
    _, made, notes, _ = run(speak, RetriedCalls(most=9.0))
    assert sorted(g.key[-1] for g in made) == ["0", "2"]
    assert notes["ran"] == pytest.approx(1 / 3)


def test_without_continuations_the_episodes_are_those_of_episodes() -> None:
    speak = episode("think ")
    for rollout in (RetriedCalls(), RetriedCalls(most=0.0)):
        (ours,), made, _, _ = run(speak, rollout, count=2)
        (plain,), _, _, _ = run(speak, Episodes(), count=2)
        assert len(made) == (rollout.most > 0)
        for a, b in zip(ours.trajectories, plain.trajectories, strict=True):
            assert (a.id, a.reward, a.completion, dict(a.links)) == (b.id, b.reward, b.completion, dict(b.links))
            assert a.contexts[0].sequence.tolist() == b.contexts[0].sequence.tolist()


def test_episodes_whose_calls_run_have_no_continuations() -> None:
    assert run(lambda i, sample, turn: (GOOD, "2")[turn])[1] == []
    assert run(lambda i, sample, turn: "2")[1] == []


def test_the_thought_before_a_call_in_each_form() -> None:
    def of(form, action: str) -> str:
        return thought_before(action, Tools([Calculator()], form=form))

    assert of(FencedCalls(), f"a ```b``` c {GOOD}") == "a ```b``` c "
    assert of(FencedCalls(), "no block ```output") == "no block "
    assert of(TaggedCalls(), "so <calculate>1</calculate> or <calculate>2</calculate>") == "so <calculate>1</calculate> or "
    assert of(LineCalls(), "so\ncalculate: 1") == "so\n"
    two = '<tool_call>{"name": "calculate"}</tool_call>'
    assert of(JsonCalls(), f"so {two}{two}") == "so "
    assert of(FencedCalls(), GOOD) == ""


def test_an_environment_without_calls_is_refused() -> None:
    with pytest.raises(UserError, match="writes failed calls again"):
        RetriedCalls().check_task(python_tool(1))
    RetriedCalls().check_task(TASK)
    with pytest.raises(UserError, match="history"):
        RetriedCalls(play=Episodes(history=1))
