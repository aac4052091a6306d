"""TimeHC-RL: the bonus by hand, the three forms, the shuffled group, and GRPO without bonus and form."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.timehc_rl import OrderBonus, ShuffledGroups, form, share_right, timehc_rl
from gradus.recipe.core import changes
from gradus.testing.methods import TOY, advantages_of, check_micro_batches, scripted_world, steps_of, toy_trajectory, weights_after
from gradus.types import Failed, Frozen, Group, Key, Problem, UserError
from gradus.types.parts import Judgement

RIGHT, WRONG = "<answer>b</answer>", "<answer>c</answer>"


def judged(ordered: list[str], shuffled: list[str], reward: OrderBonus = OrderBonus()) -> list[Group]:
    world, _ = scripted_world(TOY, lambda ask: "")
    problem = Problem("p", "toy", text="a", answer="b")

    def group(texts: list[str], trained: bool) -> Group:
        made = (toy_trajectory([2], name=f"{trained}/{i}", trained=trained).but(problem=problem, completion=c) for i, c in enumerate(texts))
        return Group(str(trained), tuple(made))

    groups = [g for g in (group(ordered, True), group(shuffled, False)) if g.trajectories]
    found = asyncio.run(reward.score(groups, {}, world))
    return [
        g.but(trajectories=tuple(t.but(reward=j.reward, components=j.components) for t, j in zip(g.trajectories, row, strict=True)))
        for g, row in zip(groups, found, strict=True)
    ]


def test_the_bonus_by_hand() -> None:
    # 6 of 8 in order, 2 of 4 shuffled: .75 >= .8 * .5
    ordered, shuffled = judged([RIGHT] * 6 + [WRONG] * 2, [RIGHT] * 2 + [WRONG] * 2)
    assert ordered.rewards.tolist() == pytest.approx([1.4] * 6 + [0.1] * 2)  # 1 + .3 + .1, and .1 for the form
    assert shuffled.rewards.tolist() == pytest.approx([1.1] * 2 + [0.1] * 2)
    assert [t.components["temporal"] for t in ordered.trajectories] == [1.0] * 6 + [0.0] * 2
    # 2 of 8 in order, 2 of 4 shuffled: .25 < .4
    assert judged([RIGHT] * 2 + [WRONG] * 6, [RIGHT] * 2 + [WRONG] * 2)[0].rewards.tolist() == pytest.approx([1.1] * 2 + [0.1] * 6)
    # at the bound: .4 >= .8 * .5
    assert judged([RIGHT] * 2 + [WRONG] * 3, [RIGHT] * 2 + [WRONG] * 2)[0].rewards[0] == pytest.approx(1.4)


def test_without_a_second_group_there_is_no_bonus() -> None:
    assert judged([RIGHT, WRONG], [])[0].rewards.tolist() == pytest.approx([1.1, 0.1])


def test_the_share_leaves_out_failed_verdicts() -> None:
    assert share_right([Judgement(1.0, Frozen(verified=1.0)), Judgement(Failed("x"))]) == 1.0
    assert share_right([]) is None


def test_the_division_hides_the_bonus_if_forms_agree() -> None:
    with_bonus, without = (judged([RIGHT, RIGHT, WRONG], [WRONG], OrderBonus(alpha=a))[0] for a in (0.3, 0.0))
    credit = timehc_rl.credit
    assert advantages_of(credit, with_bonus)[0] == [pytest.approx(row) for row in advantages_of(credit, without)[0]]
    plain = timehc_rl.but(credit__scale="none").credit
    assert advantages_of(plain, with_bonus)[0][0][0] == pytest.approx(1.3 / 3)  # 1.4 - (1.4 + 1.4 + .1) / 3, against 1 / 3
    assert advantages_of(plain, without)[0][0][0] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<answer>a</answer>", 1.0),
        ("<social>x</social> <answer>a</answer>", 1.0),
        ("<social>x</social><think>y</think><answer>a</answer>", 1.0),
        ("<think>y</think><answer>a</answer>", 0.0),
        ("<think>y</think><social>x</social><answer>a</answer>", 0.0),
        ("<social>x</social>", 0.0),
        ("a", 0.0),
    ],
)
def test_the_three_forms(text: str, value: float) -> None:
    assert form(text) == value


def test_the_shuffled_prompt_differs_and_keeps_the_events() -> None:
    problem = Problem("p", "t", text="", meta=Frozen(events=("a", "b", "c")))
    for value in range(50):
        text = ShuffledGroups().of("a. b. c; where", problem, Key(value))
        assert text != "a. b. c; where"
        assert sorted(text.removesuffix("; where").split(". ")) == ["a", "b", "c"]
    (message,) = ShuffledGroups().of(({"role": "user", "content": "a. b. c; where"},), problem, Key(0))
    assert message["content"] != "a. b. c; where"
    for events in ((), ("a",), ("a", "a")):
        assert ShuffledGroups().of("a. a; where", Problem("p", "t", text="", meta=Frozen(events=events)), Key(0)) == "a. a; where"


def test_no_shuffled_answer_enters_the_update() -> None:
    for _, groups in steps_of(timehc_rl, steps=2):
        second = [g for g in groups if "sibling" in g.key]
        assert len(second) == 4
        assert not any(t.trained for g in second for t in g.trajectories)
    # the weights do not depend on how many answers the second group has, if the bonus is off
    one, four = (weights_after(timehc_rl.but(reward__alpha=0.0, rollout__count=n), steps=3)["policy.logits"] for n in (1, 4))
    assert torch.equal(one, four)


def test_without_bonus_and_form_it_is_grpo() -> None:
    base = grpo.but(objective__kl__coefficient=0.001)
    bare = timehc_rl.but(reward__alpha=0.0, reward__form=0.0)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (bare, base)))
    assert set(changes(grpo, timehc_rl)) == {"reward", "rollout", "objective.kl.coefficient"}
    assert (timehc_rl.reward, timehc_rl.rollout.count) == (OrderBonus(0.3, 0.8, 0.1), 4)
    check_micro_batches(timehc_rl)
    with pytest.raises(UserError, match=r"OrderBonus\.mu"):
        OrderBonus(mu=-1)
