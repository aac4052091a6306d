"""DeepDive: all-or-nothing rewards, the early stop, the search for the thriftiest episode, and the limit at which it is GRPO."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.environments.tools import Tools
from gradus.papers.agents.deepdive import Fewest, deepdive, thriftiest
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rollouts.episodes import Episodes
from gradus.tasks.text.walks import walks
from gradus.testing.methods.compare import check_bound_acts
from gradus.testing.methods.scripted import follow_demonstration, scripted_world
from gradus.types import Ended, Frozen, Group, Key, Request, UserError

TASK = replace(walks(2, people=40, instruction=False), environment=deepdive.environment)
(PROBLEM,) = TASK.source.draw([0], 2, Key(0))
ACTIONS = [said for _, said in PROBLEM.meta["demonstration"]]


def played(*script: str, task=TASK, count: int = 1) -> Group:
    world, _ = scripted_world(task, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=deepdive.reward)
    return asyncio.run(deepdive.rollout.run([Request(PROBLEM, count)], world))[0]


def test_a_right_answer_after_well_formed_turns_earns_1() -> None:
    (one,) = played(*ACTIONS).trajectories
    assert (one.value, one.links["turns"]) == (1.0, len(ACTIONS))
    assert played("answer: nobody").trajectories[0].value == 0.0
    assert played(f"answer: {PROBLEM.answer}").trajectories[0].value == 1.0  # no call is needed


def test_the_first_malformed_turn_ends_the_episode_with_0() -> None:
    (one,) = played(ACTIONS[0], "look: there", *ACTIONS[1:]).trajectories
    assert (one.value, one.links["turns"], one.links["invalid"], one.ended) == (0.0, 2, 1, Ended.ENVIRONMENT)
    lenient = replace(TASK, environment=replace(deepdive.environment, hint=Tools.hint))
    (again,) = played(ACTIONS[0], "look: there", *ACTIONS[1:], task=lenient).trajectories
    assert (again.value, again.links["turns"]) == (1.0, len(ACTIONS) + 1)  # a repaired episode can earn 1
    (failed,) = played("open: Nowhere", f"answer: {PROBLEM.answer}").trajectories
    assert failed.value == 1.0  # a call that finds nothing is well formed


def test_the_limit_of_turns_earns_0() -> None:
    (one,) = played(ACTIONS[0]).trajectories
    assert (one.value, one.links["turns"], one.ended) == (0.0, 10, Ended.TRUNCATED)
    late = played(*[ACTIONS[0]] * 9, "look: there").trajectories[0]
    assert (late.value, late.ended) == (0.0, Ended.ENVIRONMENT)


def test_the_thriftiest_episode_is_kept() -> None:
    scripts = [[ACTIONS[0], *ACTIONS], ACTIONS, [ACTIONS[0]], ["look: there"], [*ACTIONS[:1], "answer: nobody"], [*ACTIONS[:1], "answer: no one"]]
    rows = [played(*script).trajectories[0].but(id=str(i)) for i, script in enumerate(scripts)]
    assert [len(t.links.get("calls", ())) for t in rows] == [4, 3, 10, 0, 1, 1]
    assert thriftiest(rows).id == "4"  # the malformed one has fewer calls, but no answer
    assert thriftiest(rows[:2]).id == "1"
    assert thriftiest(rows[2:4]).id == "2"
    world, _ = scripted_world(TASK, follow_demonstration, reward=deepdive.reward)
    (group,) = asyncio.run(Fewest(3, Episodes()).run([Request(PROBLEM, 2)], world))
    assert [t.value for t in group.trajectories] == [1.0, 1.0]
    with pytest.raises(UserError, match="count"):
        Fewest(0)


def test_its_changes_to_grpo_and_the_numbers_of_the_paper() -> None:
    assert {"environment", "rollout", "reward", "schedule", "update.count"} <= set(changes(grpo, deepdive))
    trust = deepdive.objective["policy"].trust
    assert (trust.low, trust.high, deepdive.setting.group) == (0.2, 0.28, 8)
    assert "kl" not in deepdive.objective or deepdive.objective["kl"] is None
    assert deepdive.credit == grpo.credit
    assert list(deepdive.schedule.stages) == ["sft", "rl"]
    assert Frozen(deepdive.schedule.stages["sft"].changes)["environment"] == deepdive.environment


@pytest.mark.nightly
def test_the_clip_acts() -> None:
    check_bound_acts(deepdive, updates=2, learning_rate=0.05)
