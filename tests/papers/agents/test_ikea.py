"""IKEA: rewards by hand, broken forms, executed and written searches, the balance of easy and hard problems, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.agents.ikea import HalfKnown, KnowledgeBoundary, ikea
from gradus.papers.agents.search_r1 import search_r1
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods import check_same_update, scripted_world
from gradus.types import Key, Request, UserError

TASK = replace(search_qa(1, people=40, instruction=False), environment=ikea.environment)
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))
SEARCH = "<think>who</think><search>home</search>"
RIGHT, WRONG = f"<think>so</think><answer>{PROBLEM.answer}</answer>", "<think>so</think><answer>no</answer>"


def played(script: list[str], reward: KnowledgeBoundary = ikea.reward):
    world, policy = scripted_world(TASK, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=reward)
    (group,) = asyncio.run(ikea.rollout.run([Request(PROBLEM, 1)], world))
    return group.trajectories[0], policy


@pytest.mark.parametrize(("searches", "value"), [(0, 1.6), (1, 1.4), (2, 1.2), (3, 1.0), (5, 1.0)])
def test_a_right_answer_earns_more_with_fewer_searches(searches: int, value: float) -> None:
    assert ikea.reward.of(True, searches) == pytest.approx(value)
    if searches <= 3:
        one, _ = played([SEARCH] * searches + [RIGHT])
        assert (one.reward, one.right) == (pytest.approx(value), True)
        assert dict(one.components) == {"environment": 1.0, "searches": searches, "broken": 0.0}


@pytest.mark.parametrize(("searches", "value"), [(0, 0.0), (1, 0.05), (3, 0.05)])
def test_a_wrong_answer_earns_a_little_if_it_searched(searches: int, value: float) -> None:
    one, _ = played([SEARCH] * searches + [WRONG])
    assert (one.reward, one.right) == (value, False)


@pytest.mark.parametrize("said", ["<answer>{}</answer>", "<think>a (search) b</think><answer>{}</answer>", "<think>[answer</think><answer>{}</answer>"])
def test_a_broken_form_earns_minus_1_even_if_the_answer_is_right(said: str) -> None:
    one, _ = played([said.format(PROBLEM.answer)])
    assert (one.reward, one.components["broken"], one.right) == (-1.0, 1.0, True)


def test_a_piece_without_an_action_breaks_the_form() -> None:
    assert played(["<think>hm</think>", RIGHT])[0].reward == -1.0
    assert played([f"<answer>{PROBLEM.answer}</answer>"], KnowledgeBoundary(think=False))[0].reward == 1.6


@pytest.mark.parametrize(("searches", "value"), [(0, -1.0), (2, -1.0), (3, 0.05)])
def test_a_last_piece_without_an_action_is_wrong_and_breaks_nothing(searches: int, value: float) -> None:
    one, _ = played([SEARCH] * searches + ["<think>hm</think>"])  # in the first cases the last of several such pieces
    assert (one.links["turns"], one.links["invalid"], one.reward, one.right) == (4, 4 - searches, value, False)


def test_the_fourth_search_is_written_but_not_executed_and_no_answer_is_wrong() -> None:
    one, policy = played([SEARCH])
    (context,) = one.contexts
    assert (len(one.links["calls"]), one.components["searches"], one.reward) == (3, 4.0, 0.05)
    inserted = policy.text(context.tokens[~context.chosen])
    assert inserted.count("<information>") == 3
    assert len(context.logprobs) == context.chosen.sum()


def test_with_both_numbers_0_it_is_the_reward_for_right_answers() -> None:
    plain = KnowledgeBoundary(saved=0.0, tried=0.0, broken=None)
    for script in ([RIGHT], [SEARCH, RIGHT], [SEARCH, WRONG], [WRONG], ["hm", RIGHT]):
        one, _ = played(script, plain)
        assert one.reward == float(one.right)
    same = ikea.but(environment=None, rollout=Auto(), reward=Verified(), curriculum=grpo.curriculum, setting__group=grpo.setting.group)
    check_same_update(same, grpo.but(objective__kl__coefficient=0.001))


def chosen(rights: dict[int, int], steps: int = 1, count: int = 4, pool: int = 6) -> tuple[list[list[int]], list[int]]:
    """The places that each step draws, if problem i has `rights[i]` right probes. Also the turns that the probes had."""
    problems, turns = TASK.source.draw(range(pool), 1, Key(1).fold("problems")), list[int]()

    def speak(ask):
        turns.append(ask.request.turns)
        i = next(i for i, p in enumerate(problems) if p.id == ask.request.problem.id)
        right = ask.request.sample < rights.get(i, 0)
        return f"<answer>{problems[i].answer}</answer>" if right else SEARCH

    world, _ = scripted_world(TASK, speak, reward=KnowledgeBoundary(think=False))
    part, drawn = HalfKnown(pool=pool), []
    state = part.start()
    for _ in range(steps):
        requests, state = asyncio.run(part.choose(replace(TASK.source, size=pool), count, world, state))
        drawn.append([next(i for i, p in enumerate(problems) if p.id == r.problem.id) for r in requests])
    return drawn, turns


def test_one_right_probe_of_16_is_easy_and_none_is_hard() -> None:
    drawn, turns = chosen({0: 1, 3: 16}, steps=3)
    for places in drawn:
        assert [i in (0, 3) for i in places] == [True, True, False, False]
    assert {i for places in drawn for i in places[:2]} == {0, 3}
    assert {i for places in drawn for i in places[2:]} == {1, 2, 4, 5}  # a pass over all hard problems
    assert turns == [1] * 96  # 16 probes of 6 problems, once


def test_without_easy_problems_all_are_hard() -> None:
    (places,), _ = chosen({})
    assert len(set(places)) == 4


def test_numbers_of_the_paper() -> None:
    assert ikea.reward == KnowledgeBoundary(0.6, 0.05, -1.0, 3, True)
    assert (ikea.environment.calls, ikea.environment.limit, ikea.environment.tools["search"].top) == (3, 4, 3)
    assert (ikea.setting.group, ikea.objective["kl"].coefficient, ikea.curriculum.probes) == (16, 0.001, 16)
    assert ikea.environment.form == search_r1.environment.form
    assert set(changes(grpo, ikea)) == {"environment", "rollout", "curriculum", "reward", "objective.kl.coefficient", "setting.group"}
    with pytest.raises(UserError, match=r"KnowledgeBoundary\.saved"):
        KnowledgeBoundary(saved=-1)
