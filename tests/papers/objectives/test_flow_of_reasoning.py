"""Flow of Reasoning: balance by hand and at its optimum, rewards and their logarithms, rising beta, replay and search in a run, limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import LogReward, group_relative
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.objectives.balance import TrajectoryBalance
from gradus.objectives.terms import PolicyGradient, evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.objectives.flow_of_reasoning import FlowReward, flow_of_reasoning, likely
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.constant import ConstantSchedule
from gradus.selection.filters import Everything
from gradus.testing.methods import REFERENCE, steps_of, toy_batch, toy_group, train_toy, weights_after
from gradus.types import NOT_APPLICABLE, UserError
from gradus.types.moments import Moment
from gradus.types.signals import LogProb
from tests.rewards.judged import groups as judged_groups
from tests.rewards.judged import trajectory


def trained(term, rewards, advantages, *, rate, steps):
    """A table of three leaves, trained on eight draws of its own per step."""
    draw, logits = np.random.default_rng(0), torch.zeros(3, dtype=torch.float64, requires_grad=True)
    for _ in range(steps):
        leaves = draw.choice(3, size=8, p=logits.softmax(0).detach().numpy())
        batch = toy_batch(toy_group(*rewards[leaves], lengths=[1] * 8), advantages=advantages(rewards[leaves]).tolist())
        loss, _ = evaluate({"it": term}, {LogProb(): logits.log_softmax(0)[torch.from_numpy(leaves)]}, batch)
        (gradient,) = torch.autograd.grad(loss, logits)
        logits.data -= rate * gradient
    return logits.softmax(0).detach().numpy()


def test_leaves_become_as_frequent_as_they_are_rewarded_and_ppo_takes_the_best():
    rewards = np.array([1.0, 2.0, 5.0])
    found = trained(TrajectoryBalance(), rewards, np.log, rate=0.2, steps=400)
    assert found == pytest.approx([0.125, 0.25, 0.625], abs=0.03)
    assert trained(PolicyGradient(trust=Clip()), rewards, group_relative, rate=0.5, steps=400)[2] > 0.9


def test_the_bonus_by_hand():
    assert likely(-2.0, cap=10) == 0.5
    assert likely(-0.1, cap=10) == pytest.approx(10)
    assert [likely(x, cap=10) for x in (-0.01, 0.0, -1e-300)] == [10] * 3
    assert likely(-3.0, cap=0.0) == 0.0


def score(reward, verdicts, logprobs):
    import asyncio

    made = [trajectory(completion=str(n), tokens=range(2)).but(id=str(n)) for n in range(len(verdicts))]
    said = type("Said", (), {"needs": (), "score": lambda self, groups, signals, world: _given(verdicts)})()
    signals = {REFERENCE: {str(n): np.array([x / 2, x / 2]) for n, x in enumerate(logprobs)}}
    return asyncio.run(replace(reward, reward=said).score(judged_groups(made), signals, None))[0]


async def _given(verdicts):
    from gradus.types import Frozen
    from gradus.types.parts import Judgement

    return [[Judgement(v, Frozen(verified=v)) for v in verdicts]]


def test_rewards_by_hand():
    row = score(FlowReward(), [1.0, 0.0, NOT_APPLICABLE, 0.0], [-2.0, -4.0, -1.0, -0.001])
    assert [j.reward for j in row] == [100.5, pytest.approx(0.251), NOT_APPLICABLE, pytest.approx(10.001)]
    assert dict(row[0].components) == {"verified": 1.0, "likely": 0.5}
    assert [j.reward for j in score(FlowReward(weight=0.0), [1.0, 0.0], [-2.0, -4.0])] == [100.0, 0.001]


def test_beta_rises_from_one_to_two():
    for step, beta in ((0, 1.0), (50, 1.5), (100, 2.0)):
        assert flow_of_reasoning.schedule.at(Moment(step=step, steps=100), flow_of_reasoning)[0].credit.beta == beta


def test_search_and_replay_act():
    few = flow_of_reasoning.but(curriculum__pool=4)
    run = train_toy(few, steps=4)
    assert any(row["found_better"] > 0 for row in run.metrics)
    assert all(row["balance_error"] > 0 for row in run.metrics)
    assert (flow_of_reasoning.selection.share, flow_of_reasoning.selection.size, flow_of_reasoning.curriculum.group) == (0.5, 50, 4)
    assert all(1 < len(kept) <= 50 for kept in run.memory.states["selection"]["state"]["kept"].values())
    fresh, replayed = (weights_after(few.but(selection__share=share), steps=2, rate=0.1)["policy.logits"] for share in (0.0, 1.0))
    assert not torch.allclose(fresh, replayed, atol=1e-3)
    assert torch.equal(fresh, weights_after(few.but(selection=Everything()), steps=2, rate=0.1)["policy.logits"])


def test_fifteen_problems_four_answers_each():
    assert (flow_of_reasoning.curriculum.pool, flow_of_reasoning.curriculum.group, flow_of_reasoning.rollout.tries) == (15, 4, 16)
    seen = steps_of(flow_of_reasoning.but(rollout__tries=0, selection=Everything()), steps=1)[0][1]
    assert {len(g.trajectories) for g in seen} == {4}


def test_without_its_differences_it_is_reinforce():
    plain = flow_of_reasoning.but(
        curriculum=ShuffledEpochs(),
        rollout=Auto(),
        reward=Verified(),
        selection=Everything(),
        credit=reinforce.credit,
        objective=reinforce.objective,
        players__reference=None,
        schedule=ConstantSchedule(),
    )
    assert torch.equal(*(weights_after(r, steps=2)["policy.logits"] for r in (plain, reinforce)))


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(flow_of_reasoning, micro=m, steps=2, rate=0.1)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)


def test_numbers_out_of_range_are_refused():
    for make, message in ((lambda: FlowReward(failure=0.0), "FlowReward.failure"), (lambda: LogReward(0.0), "LogReward.beta")):
        with pytest.raises(UserError, match=message):
            make()
