"""The entity-deduction game: the score by turns, the judge's answers, halving, and the limit at which the recipe is PPO."""

from __future__ import annotations

import asyncio

import pytest

from gradus.papers.agents.entity_deduction import TurnScore, entity_deduction, turn_score
from gradus.papers.bases.ppo import ppo
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.tasks.games.questions_environment import Quiz, TwentyQuestions, attributes, solution, table
from gradus.tasks.games.twenty_questions import twenty_questions
from gradus.testing.methods import TOY_EPISODES, check_different_update, check_same_update, toy_group
from gradus.testing.methods.scripted import scripted_world
from gradus.types import Failed, NotApplicable, Request, UserError

TASK = twenty_questions(3)  # 16 candidates


def played(script: list[str], reward=TurnScore()):
    """The game of a guesser that says these words, one a turn, about the first problem of the task."""
    world, _ = scripted_world(TASK, lambda ask: script[ask.request.tags[-1]], reward=reward)
    (problem,) = TASK.source.draw([0], 3, world.seed)
    (group,) = asyncio.run(entity_deduction.rollout.run([Request(problem, 1)], world))
    return group.trajectories[0]


def item() -> str:
    world, _ = scripted_world(TASK, lambda ask: "")
    return str(TASK.source.draw([0], 3, world.seed)[0].answer)


@pytest.mark.parametrize(("turns", "score"), [(1, 1.0), (5, 1.0), (6, 0.98), (12, 0.86), (20, 0.70)])
def test_the_score_of_a_success_by_turns(turns, score):
    assert turn_score(1.0, turns, price=0.02, free=5) == pytest.approx(score)
    one = played(["is it big?"] * (turns - 1) + [f"it is {item()}"])
    assert one.reward == pytest.approx(score)  # the turn of the guess counts
    assert one.components == {"environment": 1.0, "turns": float(turns)}
    assert one.right


def test_a_failure_earns_nothing_however_short():
    wrong = next(name for name in table() if name != item())
    one = played([f"it is {wrong}"])
    assert (one.reward, one.right, one.components["turns"]) == (0.0, False, 1.0)
    unfinished = played(["is it big?"] * 20)
    assert (unfinished.reward, unfinished.links["turns"]) == (0.0, 20)


def test_a_high_price_never_gives_a_negative_score():
    assert turn_score(1.0, 20, price=0.1, free=5) == 0.0  # 1 - 0.1 * 15 < 0
    with pytest.raises(UserError, match="price"):
        TurnScore(price=-0.1)


def test_without_an_environment_the_score_does_not_apply_and_a_failure_stays():
    group = toy_group(1.0, 0.0)
    ((first, _),) = asyncio.run(TurnScore().score([group], {}, None))
    assert isinstance(first.reward, NotApplicable)
    failed = group.but(trajectories=(group.trajectories[0].but(reward=Failed("the judge is away")),))
    ((one,),) = asyncio.run(TurnScore().score([failed], {}, None))
    assert isinstance(one.reward, Failed)


def test_the_judge_answers_from_the_table_and_reminds_if_a_question_is_unknown():
    for name, has in table().items():
        for attribute in attributes():
            turn = Quiz(name, (name,), TwentyQuestions()).play(f"is it {attribute}?")
            assert (turn.observation, turn.valid) == ("yes" if attribute in has else "no", True)
        unknown = Quiz(name, (name,), TwentyQuestions()).play("is it lucky?")
        assert unknown.observation.startswith("ask: ")
        assert not unknown.valid


@pytest.mark.parametrize(("level", "most"), [(1, 4), (2, 5), (3, 7), (4, 9)])
def test_greedy_halving_needs_few_turns(level, most):
    """Perfect halving of 4, 8, 16 and 32 items needs 2, 3, 4 and 5 questions; the attributes of the table split a little less evenly."""
    world, _ = scripted_world(TASK, lambda ask: "")
    problems = twenty_questions(level).source.draw(range(40), level, world.seed)
    turns = [len(solution(str(p.answer), p.meta["candidates"])) for p in problems]
    assert max(turns) <= most
    assert all(turn_score(1.0, n, price=0.02, free=5) >= 0.92 for n in turns)


def test_the_reward_lies_at_the_last_token_of_the_game():
    one = played(["is it big?"] * 11 + [f"it is {item()}"])
    placed = [(i, name, value) for i, name, value in one.contexts[0].rewards]
    assert placed == [(one.contexts[0].actions - 1, "environment", 1.0)]  # credit adds the rest, -0.14, to the same token


def test_its_changes_and_the_limit_without_a_price():
    assert set(changes(ppo, entity_deduction)) == {"rollout", "reward"}
    plain = ppo.but(rollout=Episodes(max_turns=20), reward=EnvironmentReturn())
    free = entity_deduction.but(reward__price=0.0)
    check_same_update(free, plain, task=TOY_EPISODES)
    check_different_update(entity_deduction.but(reward__price=0.1, reward__free=1), plain, task=TOY_EPISODES)
