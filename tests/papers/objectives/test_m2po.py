"""M2PO: which tokens are masked, what the others' gradients are, how stale the data is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Unclipped, clipped_surrogate
from gradus.papers.bases.grpo import grpo
from gradus.papers.objectives.m2po import SecondMoment, SecondMomentClip, harmful, m2po, second_moment_cap, within_second_moment
from gradus.rollouts.auto import Auto
from gradus.testing.methods import loss_and_gradient, toy_group, train_toy, weights_after
from gradus.types.batch import make_batch
from gradus.types.players import Lagged, Player
from gradus.types.signals import LogProb
from gradus.updates.minibatches import Minibatches


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def stale(log_ratios, advantages):
    """A batch of one trajectory and the log-probabilities that differ by these from those that sampled it."""
    made = toy_group(1.0, lengths=[len(log_ratios)])
    t = made.trajectories[0].but(advantages=np.array(advantages, float))
    batch = make_batch([made.but(trajectories=(t,))], dtype=torch.float64)  # sampled with log-probability 0
    return batch, numbers(*log_ratios).requires_grad_()


def test_the_largest_go_until_the_mean_fits():
    # mean of all .36/4 = .09; without .25 it is .11/3 = .0367
    assert within_second_moment(numbers(0.01, 0.25, 0.09, 0.01), tau=0.04).tolist() == [True, False, True, True]
    assert within_second_moment(numbers(0.01, 0.02), tau=0.04).tolist() == [True, True]
    assert within_second_moment(numbers(0.05, 0.09), tau=0.04).tolist() == [False, False]
    assert within_second_moment(numbers(0.25, 0.25, 0.75), tau=0.25).tolist() == [True, True, False]  # a mean of tau is within
    assert within_second_moment(numbers(), tau=0.04).tolist() == []


def test_only_tokens_that_move_as_they_are_pushed_are_harmful():
    ratios, pushes = numbers(0.2, 5, 0.2, 5, 1, 5).log(), numbers(1, -1, -1, 1, 1, 0)
    assert harmful(ratios, pushes).tolist() == [False, False, True, True, False, False]


def test_masked_tokens_by_hand():
    # harmful are the four with equal signs, squares .01 .01 .09 .25: the last goes; the others keep -r A, the mean is over all six tokens
    deltas, pushes = [0.1, 0.1, -0.3, 0.5, -2.0, 2.0], [1.0, 1.0, -1.0, 1.0, 1.0, -1.0]
    batch, logprobs = stale(deltas, pushes)
    loss, metrics = evaluate(m2po.objective, {LogProb(): logprobs}, batch)
    kept = [0, 1, 2, 4, 5]
    assert_close(loss.item(), sum(-math.exp(deltas[i]) * pushes[i] for i in kept) / 6)
    loss.backward()
    assert_close(logprobs.grad, numbers(*(-math.exp(d) * a / 6 if i in kept else 0.0 for i, (d, a) in enumerate(zip(deltas, pushes)))))
    assert metrics["masked_share"].mean == pytest.approx(1 / 6)
    assert metrics["second_moment"].mean == pytest.approx(0.09)


def test_every_token_counts_alike():
    loss, slopes, _ = loss_and_gradient(m2po.objective, [toy_group(1, 0, lengths=[1, 3])], [0.0] * 4, advantages=[1.0, -1.0])
    assert loss == 0.5  # ratio 1: (-1 + 3) / 4; by answer it would be 0
    assert slopes == [-0.25, 0.25, 0.25, 0.25]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2)), min_size=1, max_size=20))
def test_what_remains_meets_the_budget_and_the_rest_is_unclipped(rows):
    deltas, pushes = (numbers(*column) for column in zip(*rows, strict=True))
    ours, _ = SecondMoment(0.04).losses(deltas, pushes, None)
    free, _ = Unclipped().losses(deltas, pushes, None)
    masked = (ours == 0) & (free != 0)
    assert torch.equal(ours[~masked], free[~masked])
    left = deltas[harmful(deltas, pushes) & ~masked].square()
    assert not len(left) or float(left.mean()) <= 0.04 + 1e-12
    if masked.any():  # one more would have broken it, and every masked one is at least as large as every kept one
        back = deltas[masked].square().min()
        assert float(torch.cat([left, back[None]]).mean()) > 0.04 - 1e-12
        assert not len(left) or float(left.max()) <= float(back)


def test_a_token_that_came_back_is_never_masked():
    for delta, push in ((math.log(0.2), 1.0), (math.log(5), -1.0)):
        losses, metrics = SecondMoment(0.04).losses(numbers(delta), numbers(push), None)
        assert_close(losses, numbers(-math.exp(delta) * push))
        assert metrics["masked_share"].mean == 0


def test_the_cap_of_the_released_form_by_hand():
    # capped at .01 the mean is .01, at .09 (.01 + .01 + .09 + .09) / 4 = .05: T^2 = .01, where .07 would meet the budget exactly
    assert second_moment_cap(numbers(0.25, 0.01, 0.09, 0.01), tau=0.04) == pytest.approx(0.1)
    assert second_moment_cap(numbers(0.25, 0.01, 0.09, 0.01), tau=0.05) == pytest.approx(0.1)  # .05 is not below .05
    assert second_moment_cap(numbers(0.25, 0.01, 0.09, 0.01), tau=0.051) == pytest.approx(0.3)
    assert second_moment_cap(numbers(0.01, 0.02), tau=0.04) == math.inf
    assert second_moment_cap(numbers(), tau=0.04) == math.inf
    assert second_moment_cap(numbers(0.5, 0.5), tau=0.04) == 0.0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 4), min_size=1, max_size=20))
def test_the_cap_is_the_last_point_within_the_budget(squares):
    values = numbers(*squares)
    cap = second_moment_cap(values, tau=0.04)
    if not math.isfinite(cap):
        assert float(values.mean()) <= 0.04
        return
    within = [v for v in squares if float(values.clamp(max=v).mean()) < 0.04 - 1e-12]
    assert cap**2 >= max(within, default=0.0) - 1e-12
    assert cap == 0.0 or float(values.clamp(max=cap**2).mean()) < 0.04 + 1e-12


def test_the_released_form_is_a_clip_with_those_bounds():
    deltas, pushes = numbers(1.0, 0.9, -1.2, 0.1), numbers(1, 1, -1, 1)
    # squares .01 .81 1 1.44, capped means .01 .61 ..: T = .1; exp(-T) = .905 and exp(T) = 1.105 are tighter than .7 and 1.5, which therefore hold
    assert second_moment_cap(deltas.square(), tau=0.04) == pytest.approx(0.1)
    losses, _ = SecondMomentClip().losses(deltas, pushes, None)
    assert_close(losses, clipped_surrogate(deltas, pushes, low=0.3, high=0.5))
    # tau .7: capped at .81 the mean is .61, at 1 it is (.01 + .81 + 1 + 1) / 4 = .705, so T = .9
    wide, metrics = SecondMomentClip(tau=0.7).losses(deltas, pushes, None)
    assert_close(wide, clipped_surrogate(deltas, pushes, low=1 - math.exp(-0.9), high=math.exp(0.9) - 1), rtol=0, atol=1e-4)
    assert metrics["clip_share"].mean == 3 / 4


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_token_at_the_cap_is_clipped_too(dtype):
    # an exact solution of the budget has T between .9 and 1, and leaves the second token its gradient
    deltas = torch.tensor([1.0, 0.9, -1.2, 0.1], dtype=dtype, requires_grad=True)
    losses, _ = SecondMomentClip(tau=0.7).losses(deltas, torch.tensor([1.0, 1, -1, 1], dtype=dtype), None)
    losses.sum().backward()
    assert deltas.grad.tolist() == [0, 0, 0, pytest.approx(-math.exp(0.1))]


def test_without_floors_the_cap_alone_holds():
    deltas, pushes = numbers(0.5, -0.5, 0.01), numbers(1, -1, 1)
    losses, _ = SecondMomentClip(tau=0.04, low=0.0, high=0.0).losses(deltas, pushes, None)  # T = .01
    assert_close(losses, clipped_surrogate(deltas, pushes, low=1 - math.exp(-0.01), high=math.exp(0.01) - 1), rtol=0, atol=1e-6)


def test_a_budget_without_end_is_the_unclipped_surrogate():
    batch, logprobs = stale([0.5, -2.0, 3.0], [1.0, -1.0, 2.0])
    ours, _ = evaluate(m2po.but(objective__policy__trust__tau=math.inf).objective, {LogProb(): logprobs}, batch)
    free, _ = evaluate(m2po.but(objective__policy__trust=Unclipped()).objective, {LogProb(): logprobs}, batch)
    assert torch.equal(ours, free)


def test_data_is_as_stale_as_the_lag_says():
    weights, steps = [], []

    def watch(run, metrics, groups):
        weights.append(run.players["policy"].policy.network.logits.detach().clone())
        steps.append((groups, run.players["generator"].updates, run.players["generator"].policy.network.logits.detach().clone()))

    run = train_toy(m2po.but(players__generator__model__updates=2, update__count=1), steps=5, watch=watch)
    assert run.players["policy"].updates == 5
    assert not run.players["generator"].learns
    for step, (groups, version, generator) in enumerate(steps):
        assert all(t.player == "generator" for g in groups for t in g.trajectories)
        assert {int(v) for g in groups for t in g.trajectories for v in t.contexts[0].versions} == {max(0, step - 2)}
        assert version == max(0, step - 1)  # after the step, two behind the policy's step + 1 updates
        if version:
            assert torch.equal(generator, weights[version - 1])


def test_four_updates_of_a_batch_and_a_lag_of_eight_is_one_of_two_steps():
    seen = []
    run = train_toy(m2po, steps=5, watch=lambda run, metrics, groups: seen.append(groups))
    assert run.players["policy"].updates == 20
    versions = [{int(v) for g in groups for t in g.trajectories for v in t.contexts[0].versions} for groups in seen]
    assert versions == [{0}, {0}, {0}, {4}, {8}]


def test_stale_data_is_masked_and_a_lagless_first_update_is_not():
    seen = []
    train_toy(m2po, steps=4, learning_rate=0.1, watch=lambda run, metrics, groups: seen.append(metrics["masked_share"]))
    assert 0 < np.mean(seen) < 0.2
    seen.clear()
    fresh = m2po.but(players__generator__model__updates=0, update__count=1)
    train_toy(fresh, steps=2, learning_rate=0.1, watch=lambda run, metrics, groups: seen.append(metrics["masked_share"]))
    assert seen == [0, 0]


@pytest.mark.nightly
def test_the_policy_learns_from_the_generator_and_is_what_evaluation_asks():
    assert isinstance(m2po.rollout.test, Auto)
    seen = []
    train_toy(m2po, steps=60, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append(metrics["reward"]))
    assert np.mean(seen[-10:]) > np.mean(seen[:5]) + 0.15


def test_without_its_differences_it_is_grpo():
    plain = m2po.but(
        rollout=Auto(),
        objective=grpo.objective,
        players__policy=None,
        players__generator=None,
        players__reference=grpo.players["reference"],
        update__count=1,
    )
    ours, base = weights_after(plain, steps=2), weights_after(grpo, steps=2)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])


def test_without_lag_the_generator_is_the_policy():
    fresh = m2po.but(players__generator=Player(Lagged(of="policy", updates=0)))
    run = train_toy(fresh, steps=3)
    assert torch.equal(run.players["generator"].policy.network.logits, run.players["policy"].policy.network.logits)


@pytest.mark.parametrize("trust", [SecondMoment(), SecondMomentClip()], ids=["mask", "clip"])
@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro, trust):
    recipe = m2po.but(objective__policy__trust=trust, update=Minibatches(epochs=2, count=2))
    whole, cut = (weights_after(recipe, micro=m, steps=2)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)
