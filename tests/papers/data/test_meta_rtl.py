"""Meta-RTL: rewards and meta step by hand, the recurrent policy and its gradient, equal weights at learning rate 0, and its two stages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.papers.bases.sft import sft
from gradus.papers.data.meta_rtl import TUNE, EachKind, RecurrentWeights, adam, meta_rtl, network
from gradus.recipe.core import changes
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.text.transfer import transfer
from gradus.testing.methods import check_resumes, train_toy, weights_after
from gradus.types import Key, UserError
from gradus.updates import reptile
from gradus.updates.reptile import EqualWeights, Reptile, meta_step

ALONE = meta_rtl.but(schedule=ConstantSchedule(), update__inner_lr=0.5)
LOGITS = "policy.logits"


def test_the_meta_step_by_hand():
    step = meta_step(torch.tensor(0.0), [torch.tensor(1.0), torch.tensor(3.0)], np.array([0.25, 0.75]), eta=0.5)
    assert float(step) == 1.25  # .5 (.25 + 2.25)


@pytest.mark.parametrize(("alone", "reward"), [(0.6, 0.2), (1.0, -0.2)])
def test_a_loss_of_the_source_below_that_of_the_mixture_is_a_positive_reward(alone, reward, monkeypatch):
    """Losses on the target: first of theta_i, then of theta', which is 0.8."""
    losses, rows, seen = iter([alone, 0.8]), [], []
    monkeypatch.setattr(reptile, "_loss", lambda *given: next(losses))
    monkeypatch.setattr(RecurrentWeights, "observe", lambda rule, rewards, state: (seen.append(rewards.tolist()) or {}, state))
    train_toy(ALONE, steps=1, watch=lambda run, row, groups: rows.append(row))
    assert rows[0]["gain/early"] == pytest.approx(reward)
    assert rows[0]["target_loss"] == 0.8
    assert seen == [[pytest.approx(reward)]]


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_rewards_are_the_meta_loss_minus_the_loss_of_each_source(eta):
    rows = []
    train_toy(ALONE.but(update__eta=eta), steps=1, watch=lambda run, row, groups: rows.append(row))
    # the toy task has one source: at eta 1 the mixture is the copy of this source, so the reward is 0
    assert (rows[0]["gain/early"] == 0) == (eta == 1.0)
    assert rows[0]["weight/early"] == 1


def test_weights_begin_equal_and_sum_to_1():
    rule = RecurrentWeights()
    weights, state = rule.weigh(4, Key(0), rule.start())
    assert weights.tolist() == [0.25] * 4
    _, state = rule.observe(np.array([1.0, 0.0, 0.0, -1.0]), state)
    after, _ = rule.weigh(4, Key(1), state)
    assert after.sum() == pytest.approx(1)
    assert after[1] == pytest.approx(after[2], abs=1e-3)
    assert after[0] > after[1] > after[3]
    assert state["input"].tolist() == [0.25] * 4 + [1, 0, 0, -1]
    assert rule.weigh(3, Key(1), state)[0].tolist() == [1 / 3] * 3  # another number of kinds begins anew


def test_the_gradient_is_that_of_reinforce():
    """The first step of Adam moves each bias by its learning rate, in the direction (R_i - b) - w_i sum_j (R_j - b)."""
    rule, rewards = RecurrentWeights(lr=0.01), np.array([0.5, -0.25, 0.125])
    _, state = rule.weigh(3, Key(0), rule.start())
    state = {**state, "baseline": 0.0}
    _, after = rule.observe(rewards, state)
    slope = rewards - rewards.sum() / 3
    assert_close(after["network"]["bias"], torch.from_numpy(0.01 * np.sign(slope)), atol=1e-6, rtol=0)
    assert_close(after["moments"]["bias/1"], torch.from_numpy(-0.1 * slope))
    assert after["baseline"] == pytest.approx(0.1 * rewards.mean())
    _, first = rule.observe(rewards, {k: v for k, v in state.items() if k != "baseline"})
    assert first["baseline"] == pytest.approx(rewards.mean())  # the running mean begins with the first rewards


def test_the_network_is_an_lstm_and_the_optimiser_is_adam():
    rule = RecurrentWeights(hidden=5)
    _, state = rule.weigh(2, Key(3), rule.start())
    parts = {**state["network"], "out": torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))}
    cell = torch.nn.LSTMCell(4, 5).double()
    # torch orders the gates as input, forget, new, output
    with torch.no_grad():
        for to, name in zip((cell.weight_ih, cell.weight_hh, cell.bias_ih), ("in", "back", "gate"), strict=True):
            enter, keep, give, new = parts[name].chunk(4)
            to.copy_(torch.cat([enter, keep, new, give]))
        cell.bias_hh.zero_()
        h, c = torch.ones(5).double(), torch.full((5,), 0.5).double()
        logits, h2, c2 = network(parts, state["input"], h, c)
        due_h, due_c = cell(state["input"], (h, c))
    assert_close((h2, c2), (due_h, due_c))
    assert_close(logits, parts["out"] @ due_h)
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    made, ours, moments = torch.optim.Adam([weight], lr=0.1), {"w": weight.detach().clone()}, {}
    for slope in ([0.5, -3.0], [0.25, 1.0], [-1.0, 0.0]):
        weight.grad = torch.tensor(slope, dtype=torch.float64)
        made.step()
        ours, moments = adam(ours, {"w": weight.grad}, moments, lr=0.1)
    assert_close(ours["w"], weight.detach())


def test_with_learning_rate_0_it_is_reptile_with_equal_weights():
    frozen = ALONE.but(update__weights=RecurrentWeights(lr=0.0))
    equal = ALONE.but(update__weights=EqualWeights())
    ours, theirs = (weights_after(r, steps=3)[LOGITS] for r in (frozen, equal))
    assert torch.equal(ours, theirs)
    rule = RecurrentWeights(lr=0.0)
    _, state = rule.weigh(4, Key(0), rule.start())
    for _ in range(3):
        _, state = rule.observe(np.array([1.0, 0.0, 0.0, -1.0]), state)
    assert rule.weigh(4, Key(0), state)[0].tolist() == [0.25] * 4


def test_a_source_that_always_helps_gains_weight_and_one_that_harms_loses_it():
    rule, state = RecurrentWeights(lr=0.03), {}
    rng = np.random.default_rng(0)
    for _ in range(60):
        weights, state = rule.weigh(4, Key(0), state)
        _, state = rule.observe(np.array([0.1, 0.1, 0.0, -0.2]) + rng.normal(size=4) * 0.05, state)
    assert weights[3] < 0.1
    assert weights[0] + weights[1] > 0.6


def test_a_resumed_run_keeps_the_policy():
    check_resumes(ALONE, steps=3, after=1)
    run = train_toy(ALONE, steps=2)
    assert run.memory.states["update.weights"]["state"]["moments"]["count"] == 2


def test_the_second_stage_learns_from_the_target_alone():
    seen = []
    train_toy(ALONE.but(**TUNE), steps=2, watch=lambda run, row, groups: seen.append((row, {g.trajectories[0].problem.meta["arm"] for g in groups})))
    assert [kinds for _, kinds in seen] == [{"late"}] * 2
    assert all("target_loss" not in row and row["loss/imitation"] > 0 for row, _ in seen)
    assert meta_rtl.schedule.stages["tune"].changes == TUNE


def test_the_published_parts_and_the_task():
    update = meta_rtl.update
    assert (update.inner_steps, update.inner_lr, update.eta) == (4, 1e-5, 0.3)
    assert (update.weights.hidden, update.weights.lr) == (32, 0.001)
    assert set(changes(sft, meta_rtl)) == {"curriculum", "update", "schedule"}
    assert transfer().source.arms[-1] == "target"
    assert EachKind(last=1).last == 1
    assert replace(update, weights=EqualWeights()) == Reptile()
    with pytest.raises(UserError, match="hidden"):
        RecurrentWeights(hidden=0)


def kinds(rule, **options):
    seen = []
    train_toy(sft.but(curriculum=rule), watch=lambda run, row, groups: seen.append([g.trajectories[0].problem for g in groups]), **options)
    return seen


def test_each_step_has_equally_many_of_each_kind():
    seen = kinds(EachKind(), steps=2, prompts=2, group=4)
    assert [[p.meta["arm"] for p in step] for step in seen] == [["early"] * 4 + ["late"] * 4] * 2
    assert len({p.id for step in seen for p in step}) == 16  # the second step goes on


def test_named_kinds_in_the_given_order_or_the_last_alone():
    assert [p.meta["arm"] for p in kinds(EachKind(arms=("late", "early")), steps=1, prompts=1, group=5)[0]] == ["late"] * 2 + ["early"] * 2
    assert [p.meta["arm"] for p in kinds(EachKind(last=1), steps=1, prompts=1, group=3)[0]] == ["late"] * 3


def test_a_resumed_run_goes_on():
    check_resumes(sft.but(curriculum=EachKind()), steps=3, after=1)


def test_too_few_problems_or_unknown_kinds_are_refused():
    with pytest.raises(UserError, match="give a larger --prompts"):
        kinds(EachKind(), steps=1, prompts=1, group=1)
    with pytest.raises(UserError, match="odd"):
        kinds(EachKind(arms=("odd",)), steps=1)
    with pytest.raises(UserError, match="last"):
        EachKind(last=-1)
