"""SIRL: form, overlap and both rewards by hand, the KL on the model part only, labels by agreement, and REINFORCE++ at the limit."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from gradus.credit.kl_penalty import KLPenalty, kl_costs
from gradus.credit.reward_to_go import RewardToGo
from gradus.papers.bases.reinforce_plus_plus import reinforce_plus_plus
from gradus.papers.rewards.sirl import PartialKL, SolverReward, consistent, form, overlap, sirl
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.maths.optimisation import optimisation
from gradus.testing.methods import advantages_of, check_micro_batches, scripted_world, toy_group, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Problem
from gradus.types.signals import LogProbs

WHOLE = "<think>t</think><model>m</model><python>{}</python>"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (WHOLE.format("p"), 1.0),
        (WHOLE.format("p").replace("</python>", ""), 0.5 * (2 - 1 / 4 - 1 / 3)),
        ("", 0.5 * (2 - 1 - 1 / 3)),
        (WHOLE.format("p").replace("<think>", ""), 0.5 * (2 - 1 / 8)),
        ("<model>m</model><think>t</think><python>p</python>", 0.5 * (2 - 1 / 3)),
        ("<python>p</python><think>t</think><model>m</model>", 0.5 * (2 - 2 / 3)),
        ("<think>t</think><python>p</python><model>m</model>", 0.5 * (2 - 1 / 3)),
    ],
)
def test_the_form_by_hand(text: str, part: float) -> None:
    assert 0.5 * form(text) == pytest.approx(part)


def judged(reward: SolverReward, *programs: str, answer: float = 11.0, values: tuple[float, ...] = (3.0, 0.0, 2.0)) -> list[float]:
    problem = Problem("p", "optimisation", text="q", answer=answer, meta=Frozen(solution_values=values))
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=problem, completion=WHOLE.format(c)) for i, c in enumerate(programs))
    world, _ = scripted_world(optimisation(), lambda ask: "")
    (found,) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return [j.reward for j in found]  # type: ignore[misc]


def test_the_first_reward_by_hand() -> None:
    assert judged(SolverReward(), "max a st a<=11", "max a st a<=5", "no code") == pytest.approx([3.0, 2.0, 1.0])


def test_the_second_reward_by_hand() -> None:
    # the program finds 3, 2, 1 where 3, 0, 2 is the reference: h = 2/3; its value is 11
    said = "max 2a+2b+c st a<=3, b<=2, c<=1"
    second = SolverReward(form=0.0, bonus=1.0)
    assert judged(second, said) == pytest.approx([1 + 1 + 2 / 3])
    assert judged(second, said, answer=12.0) == pytest.approx([1.0])  # wrong, with the same vector
    assert judged(second, "no code") == [0.0]


def test_the_overlap_by_hand() -> None:
    assert overlap([3, 2, 1], [3, 0, 2]) == pytest.approx(2 / 3)
    assert overlap([2, 2], [2, 1]) == 0.5
    assert overlap([1.00049], [1.0]) == 1.0
    assert (overlap([], [1]), overlap([1], [])) == (0.0, 0.0)
    assert overlap([-0.0], [0.0]) == 1.0


def test_thoughts_pay_no_kl() -> None:
    group = toy_group(0, lengths=[4])
    (t,) = group.trajectories
    context = t.contexts[0]
    marked = t.but(contexts=(type(context)(**{**vars(context), "streams": Frozen(span=np.array([-1, -1, 0, 0]))}),))
    ours, theirs = np.zeros(4), np.array([1.0, -2.0, 3.0, -1.0])
    signals = {LogProbs(): {t.id: ours}, LogProbs(player="reference"): {t.id: theirs}}
    rule = PartialKL(RewardToGo(whitened=False), 0.5)
    # costs -1, 2, -3, 1 times .5; only the last two count, and later costs count at earlier tokens
    assert kl_costs(ours, theirs, estimator="k1").tolist() == [-1.0, 2.0, -3.0, 1.0]
    assert advantages_of(rule, group.but(trajectories=(marked,)), signals=signals) == [[[1.0, 1.0, 1.0, -0.5]]]
    plain = KLPenalty(RewardToGo(whitened=False), 0.5)
    assert advantages_of(plain, group, signals=signals) == [[[0.5, 0.0, 1.0, -0.5]]]


def test_the_marked_part_begins_with_the_model() -> None:
    text = WHOLE.format("p")
    mark = sirl.rollout.marking.regions
    assert mark(text) == [(text.index("<model>"), len(text))]
    assert mark("<think>t</think>a\n<python>p") == [(18, 27)]  # code without a model
    assert mark("<think>t</think>") == []


def test_labels_by_agreement() -> None:
    assert consistent([(5.0, "max", 0), (4.0, "max", 1), (4.0, "min", 1)]) == 1  # 1: 1+1 values, .5*2, .5*2
    assert consistent([(1.0, "max", 0), (2.0, "max", 0)]) == 0


def test_at_the_limit_it_is_reinforce_plus_plus() -> None:
    bare = sirl.but(reward=Verified(), credit__within=None, rollout=Auto(), schedule=ConstantSchedule())
    base = reinforce_plus_plus.but(credit__coefficient=0.0005, objective__policy__trust=sirl.objective["policy"].trust)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (bare, base)))
    assert {"reward", "rollout", "credit", "objective.policy.trust.high", "schedule"} <= set(changes(reinforce_plus_plus, sirl))
    first, second = sirl.schedule.phases
    assert (dict(first.values), dict(second.values)) == ({}, {"reward.form": 0.0, "reward.bonus": 1.0})
    check_micro_batches(sirl)
