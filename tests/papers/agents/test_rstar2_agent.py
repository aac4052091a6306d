"""rStar2-Agent: penalties and chances by hand, the numbers of kept answers, the draws, the stages, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.agents.rstar2_agent import CODE, ResampleOnCorrect, chances, drawn, error_penalty, form_penalty, rstar2_agent
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.constant import ConstantSchedule
from gradus.selection.filters import Informative
from gradus.tasks.code.python_tool import SLIP, python_tool
from gradus.testing.methods import check_different_update, check_same_update, scripted_world, toy_trajectory
from gradus.tools.calculator import Calculator
from gradus.tools.python import Python
from gradus.types import Frozen, Group, Key, Request, UserError
from gradus.types.moments import Steps
from tests.sandbox.isolated import isolated


def calls(*oks: bool) -> tuple[tuple[int, str, bool], ...]:
    return tuple((i, "python", ok) for i, ok in enumerate(oks))


def answer(name: str, reward: float, *oks: bool):
    return toy_trajectory([2], reward=reward, name=name).but(completion="<answer>1</answer>", links=Frozen(calls=calls(*oks), turns=len(oks) + 1))


def group(right: int, wrong: int) -> Group:
    rows = [answer(f"r{i}", 1.0, *[False] * (i % 3), True) for i in range(right)] + [answer(f"w{i}", 0.0) for i in range(wrong)]
    return Group("g", tuple(rows))


def kept(part: ResampleOnCorrect, given: Group, key: Key = Key(0)) -> list[str]:
    ((one,), _) = part.keep([given], key)
    return [t.id for t in one.trajectories]


def test_penalties_by_hand() -> None:
    assert error_penalty(calls(True, False, True)) == pytest.approx(1 / 3)
    assert error_penalty(()) == 0.5
    two = "a <answer>1</answer> b <answer>2</answer>"
    assert [form_penalty(text, 4) for text in ("<answer>1</answer>", two, "1", "<answer>1", two + "<answer>")] == [0.0, 0.25, 1.0, 1.0, 1.0]
    assert form_penalty("<answer>1</answer>" * 9, 4) == 1.0
    assert form_penalty("<answer>1</answer>", 0) == 1.0


def test_chances_by_hand() -> None:
    np.testing.assert_allclose(chances([0.25, 0.5, 1.0], 0.0), [4 / 7, 2 / 7, 1 / 7])
    np.testing.assert_allclose(chances([0.0, 0.95]), [20 / 21, 1 / 21])


def test_draws_have_these_chances_without_replacement() -> None:
    orders = [drawn([0.2, 0.45, 0.95], 0.05, Key(i)) for i in range(4000)]  # weights 4, 2, 1
    first = Counter(order[0] for order in orders)
    np.testing.assert_allclose([first[i] / 4000 for i in range(3)], [4 / 7, 2 / 7, 1 / 7], atol=0.03)
    second = Counter(order[1] for order in orders if order[0] == 0)
    assert second[1] / sum(second.values()) == pytest.approx(2 / 3, abs=0.03)
    assert all(sorted(order) == [0, 1, 2] for order in orders)


@pytest.mark.parametrize("draw", ["sampled", "lowest"])
@pytest.mark.parametrize(
    ("right", "wrong", "count"),
    [(20, 12, 10), (7, 25, 4), (5, 27, 2), (1, 31, 1), (3, 29, 2), (31, 1, 15), (29, 3, 14), (2, 2, 1), (1, 1, 0), (3, 1, 1), (2, 3, 1)],
)
def test_numbers_of_kept_answers(draw: str, right: int, wrong: int, count: int) -> None:
    names = kept(ResampleOnCorrect(draw=draw), group(right, wrong))
    assert sum(name[0] == "r" for name in names) == count
    assert len(names) == max(1, round((right + wrong) / 2))
    assert len(set(names)) == len(names)


def test_at_least_one_answer_stays_if_all_are_right_with_different_rewards() -> None:
    rows = [answer(name, reward).but(components=Frozen(verified=1.0)) for name, reward in (("a", 1.0), ("b", 0.5))]
    assert len(kept(ResampleOnCorrect(share=0.1), Group("g", tuple(rows)))) == 1


def test_the_mean_reward_of_32_answers_stays() -> None:
    given = group(20, 12)
    ((one,), _) = ResampleOnCorrect().keep([given], Key(0))
    assert (given.rewards.mean(), one.rewards.mean(), len(one.trajectories)) == (0.625, 0.625, 16)


def test_lowest_keeps_the_right_answers_with_the_fewest_failed_calls() -> None:
    rows = [answer("a", 1.0, False, True), answer("w", 0.0, True), answer("b", 1.0, True), answer("v", 0.0), answer("c", 1.0), answer("d", 1.0, False)]
    names = kept(ResampleOnCorrect(draw="lowest"), Group("g", tuple(rows)))  # penalties 1/2, -, 0, -, 1/2, 1
    assert [name for name in names if name not in "wv"] == ["a", "b"]
    sampled = Counter(name for i in range(300) for name in kept(ResampleOnCorrect(), Group("g", tuple(rows)), Key(i)))
    assert sampled["b"] > 250 > sampled["a"] > sampled["d"]
    assert sampled["w"] + sampled["v"] == 300
    assert 100 < sampled["w"] < 200  # wrong ones are drawn evenly


def test_groups_with_equal_rewards_are_dropped() -> None:
    stay, gone = ResampleOnCorrect().keep([group(4, 0), group(0, 4), group(1, 0), group(2, 2)], Key(0))
    assert (len(stay), len(gone)) == (1, 3)


def test_only_the_kept_answers_are_compared() -> None:
    ((one,), _) = ResampleOnCorrect().keep([group(4, 4)], Key(0))
    (rows,) = GroupRelative().assign([one], {})
    np.testing.assert_allclose([c.advantages[0] for c in rows], np.where(one.rewards > 0, 1.0, -1.0), atol=1e-5)


def played(script: list[str]):
    task = replace(python_tool(1, instruction=False), environment=replace(CODE, tools=Frozen(python=Calculator(name="python"))))
    (problem,) = task.source.draw([0], 1, Key(0))
    world, policy = scripted_world(task, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)].format(problem.answer), reward=rstar2_agent.reward)
    (found,) = asyncio.run(rstar2_agent.rollout.run([Request(problem, 1)], world))
    return found.trajectories[0], policy


def test_the_reward_is_the_outcome_alone() -> None:
    one, policy = played(["<tool_call>1 / 0</tool_call>", "<tool_call>1</tool_call>", "<answer>{}</answer>"])
    assert (one.reward, dict(one.components)) == (1.0, {"environment": 1.0, "errors": 0.5, "answers": 1.0})
    (context,) = one.contexts
    assert policy.text(context.tokens[~context.chosen]).endswith("<tool_response>1</tool_response>")
    assert len(context.logprobs) == context.chosen.sum()
    one, _ = played(["<answer>no</answer>"])
    assert (one.reward, one.components["errors"]) == (0.0, 0.0)


@isolated
def test_a_slip_of_the_demonstrations_has_the_result_that_they_show() -> None:
    problems = python_tool(1, slips=1.0).source.draw(range(3), 1, Key(0))
    for problem in problems:
        (_, slip), (seen, right), _ = problem.meta["demonstration"]
        assert (slip, seen) == (right + ")", SLIP)
    result = asyncio.run(Python().call(slip.removeprefix("python: ")))
    assert (result.text, result.ok) == (SLIP, False)


def test_if_all_answers_are_kept_it_is_grpo() -> None:
    plain = rstar2_agent.but(
        environment=None, rollout=Auto(), reward=Verified(), schedule=ConstantSchedule(), objective=grpo.objective, players=grpo.players,
        setting__prompts=grpo.setting.prompts, setting__group=grpo.setting.group,
    )  # fmt: skip
    check_same_update(plain.but(selection__share=1.0), grpo.but(selection=Informative()))
    check_different_update(plain, grpo.but(selection=Informative()))


def test_numbers_of_the_paper() -> None:
    stages = rstar2_agent.schedule.stages
    assert list(stages) == ["sft", "short", "longer", "hard"]
    assert stages["sft"].until == Steps(150)
    assert [stages[n].changes["setting.max_tokens"] for n in ("short", "longer", "hard")] == [8000, 12000, 12000]
    assert sum(stages[n].until.count for n in ("short", "longer", "hard")) == 510
    assert [stages["hard"].screen.keeps(rate) for rate in (0.0, 0.5, 1.0)] == [True, True, False]
    assert (rstar2_agent.setting.prompts, rstar2_agent.setting.group, rstar2_agent.environment.limit) == (128, 32, 10)
    assert rstar2_agent.objective["policy"].trust == Clip(low=0.2, high=0.28)
    assert rstar2_agent.objective["policy"].average == TokenMean()
    assert "kl" not in rstar2_agent.objective
    assert "selection" in changes(grpo, rstar2_agent)
    with pytest.raises(UserError, match=r"ResampleOnCorrect\.offset"):
        ResampleOnCorrect(offset=0.0)
