"""ShiQ: errors by hand, the role of constants in logits, the optimum of a three-step tree from uniform data, and limits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.regression import LogRatioRegression
from gradus.objectives.terms import evaluate
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.objectives.copg import copg
from gradus.papers.objectives.shiq import PathConsistency, shiq
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.games.bandit import regularised, total_variation
from gradus.testing.methods import REFERENCE, loss_and_gradient, toy_batch, toy_group, train_toy, weights_after
from gradus.types import UserError
from gradus.types.readers import LogSumExp
from gradus.types.signals import LogProb, Read

SUMS = Read(player="reference", reads=LogSumExp())


def fitted(term, groups, logs, sums, targets):
    """Loss, gradients by both wants and metrics if the log-probabilities and log-sum-exps of the reference are 0."""
    zeros = {t.id: np.zeros(t.actions) for g in groups for t in g.trajectories}
    batch = toy_batch(*groups, advantages=targets, signals={REFERENCE: zeros, SUMS: zeros})
    rows = {want: torch.tensor(found, dtype=torch.float64).requires_grad_() for want, found in ((LogProb(), logs), (LogSumExp(), sums))}
    loss, metrics = evaluate({"it": term}, rows, batch)
    loss.backward()
    return loss.item(), [rows[want].grad.tolist() for want in rows], {name: t.mean for name, t in metrics.items()}


def test_at_the_start_the_error_of_every_position_is_the_reward():
    loss, _, metrics = fitted(PathConsistency(0.5), [toy_group(1, lengths=[3])], [0.0] * 3, [0.0] * 3, [1.0])
    assert (loss, metrics["fit_error"], metrics["value_shift"]) == (1.0, 1.0, 0.0)


def test_the_last_position_by_hand():
    # beta .5 and g - g_ref = log-ratio + d / beta = .6, in any split: (1 - .3)^2
    for log in (0.6, 0.1, -2.0):
        loss, (one, two), _ = fitted(PathConsistency(0.5), [toy_group(1, lengths=[1])], [log], [0.6 - log], [1.0])
        assert loss == pytest.approx(0.49)
        assert one == two == pytest.approx([-2 * 0.5 * 0.7])


def test_two_positions_by_hand():
    # t = 0: g - g_ref = .2 and a log-ratio of .1 after it: (1 - .1 - .05)^2; t = 1: log-ratio .1, d / beta = .3: (1 - .2)^2
    loss, (one, two), metrics = fitted(PathConsistency(0.5), [toy_group(1, lengths=[2])], [0.15, 0.1], [0.05, 0.3], [1.0])
    assert loss == pytest.approx((0.7225 + 0.64) / 2)
    assert one == pytest.approx([-0.5 * 0.85, -0.5 * 0.85 - 0.5 * 0.8])
    assert two == pytest.approx([-0.5 * 0.85, -0.5 * 0.8])
    assert metrics["fit_error"] == pytest.approx((0.85 + 0.8) / 2)


def rows_of(logits, steps):
    """Log-probabilities and log-sum-exps of (state, action) pairs."""
    states, actions = (torch.tensor(found) for found in zip(*steps, strict=True))
    return {LogProb(): logits.log_softmax(-1)[states, actions], LogSumExp(): logits.logsumexp(-1)[states]}


def table_batch(reference, paths, rewards):
    """One group of trajectories, each a list of (state, action) pairs."""
    group = toy_group(*rewards, lengths=[len(path) for path in paths])
    read = [rows_of(reference, path) for path in paths]
    signals = {s: {f"g/{i}": r[w].numpy() for i, r in enumerate(read)} for s, w in ((REFERENCE, LogProb()), (SUMS, LogSumExp()))}
    return toy_batch(group, advantages=rewards, signals=signals), [step for path in paths for step in path]


def test_a_constant_in_the_logits_of_a_state_counts_unless_the_reference_has_it_too():
    draw = np.random.default_rng(0)
    logits, reference = (torch.tensor(draw.normal(size=(2, 3))) for _ in range(2))
    lifted = logits + torch.tensor([[0.0], [1.5]], dtype=torch.float64)
    also = reference + torch.tensor([[0.0], [1.5]], dtype=torch.float64)
    losses = []
    for g, g_ref in ((logits, reference), (lifted, reference), (lifted, also)):
        batch, steps = table_batch(g_ref, [[(0, 1), (1, 2)], [(0, 0), (1, 0)]], [1.0, 0.2])
        losses.append(evaluate({"it": PathConsistency(0.5)}, rows_of(g.clone().requires_grad_(), steps), batch)[0].item())
    assert_close(lifted.softmax(-1), logits.softmax(-1))
    assert abs(losses[1] - losses[0]) > 0.01
    assert losses[2] == pytest.approx(losses[0])


def test_in_a_tree_of_three_steps_uniform_data_gives_the_optimum_and_one_step_learning_is_slower():
    beta, draw = 0.5, np.random.default_rng(1)
    names = [path for depth in range(3) for path in product(range(2), repeat=depth)]
    leaves = list(product(range(2), repeat=3))
    rewards = dict(zip(leaves, draw.uniform(0, 2, size=8), strict=True))
    reference = torch.tensor(draw.normal(size=(7, 2)))
    paths = [[(names.index(leaf[:t]), leaf[t]) for t in range(3)] for leaf in leaves]
    prior = np.array([sum(reference.log_softmax(-1)[s, a].item() for s, a in path) for path in paths])
    best = regularised(np.exp(prior), np.array([rewards[leaf] for leaf in leaves]), beta=beta)
    taken = draw.integers(0, 8, size=40)  # leaves of a uniform sampler
    batch, steps = table_batch(reference, [paths[i] for i in taken], [rewards[leaves[i]] for i in taken])
    assert len(set(taken.tolist())) == 8

    def paths_loss(rows):
        return evaluate({"it": PathConsistency(beta)}, rows, batch)[0]

    def one_step_loss(rows):
        value = beta * (rows[LogSumExp()] - batch.signals[SUMS])
        last = batch.position == 2
        after = torch.where(last, batch.advantages, torch.roll(value.detach(), -1))
        return (after - beta * (rows[LogProb()] - batch.signals[REFERENCE]) - value).square().mean()

    found = []
    for loss in (paths_loss, one_step_loss):
        logits = reference.clone().requires_grad_()
        optimizer = torch.optim.SGD([logits], lr=4.0)
        for _ in range(300):
            optimizer.zero_grad()
            loss(rows_of(logits, steps)).backward()
            optimizer.step()
        mine = np.exp([sum(logits.log_softmax(-1)[s, a].item() for s, a in path) for path in paths])
        found.append(total_variation(mine, best))
    assert total_variation(np.exp(prior), best) > 0.1
    assert found[0] < 0.02
    assert found[1] > 2 * found[0]


def test_for_one_token_without_a_shift_it_is_the_regression_of_trajectories():
    groups, ratios, targets = [toy_group(1, 0, lengths=[1, 1])], [0.3, -0.2], [1.0, 0.0]
    loss, (slopes, _), _ = fitted(PathConsistency(0.5), groups, ratios, [0.0, 0.0], targets)
    signals = {REFERENCE: {"g/0": [0.0], "g/1": [0.0]}}
    due, slope, _ = loss_and_gradient({"it": LogRatioRegression(0.5)}, groups, ratios, advantages=targets, signals=signals)
    assert loss == pytest.approx(due)
    assert slopes == pytest.approx(slope)


def test_the_gradient_passes_a_finite_difference_check():
    group, zeros = toy_group(1, 0, 0.5, lengths=[2, 1, 3]), {f"g/{i}": np.full(n, -0.3) for i, n in enumerate((2, 1, 3))}
    batch = toy_batch(group, advantages=[0.4, -0.9, 0.2], signals={REFERENCE: zeros, SUMS: zeros})
    logs, sums = (torch.linspace(low, 0.5, 6, dtype=torch.float64, requires_grad=True) for low in (-1, -2))
    assert torch.autograd.gradcheck(lambda x, y: evaluate({"it": PathConsistency(0.3)}, {LogProb(): x, LogSumExp(): y}, batch)[0], (logs, sums))


def test_values_start_at_zero_and_move():
    run = train_toy(shiq.but(update__count=2, schedule=ConstantSchedule()), steps=2)
    assert run.metrics[0]["value_shift"] > 0  # the second mini-batch sees logits that have moved
    once = train_toy(shiq.but(schedule=ConstantSchedule()), steps=1).metrics[0]
    assert once["value_shift"] == pytest.approx(0, abs=1e-12)
    assert once["fit_error"] == pytest.approx(0.5)  # the mean of the recorded rewards 0, 1/2 and 1


def test_without_its_differences_it_is_copg_and_reinforce():
    assert shiq.but(objective=copg.objective, schedule=copg.schedule).but(key="copg", about=copg.about, base=copg.base) == copg
    plain = shiq.but(
        rollout=reinforce.rollout, credit=reinforce.credit, objective=reinforce.objective, players__reference=None, schedule=ConstantSchedule()
    )
    assert torch.equal(*(weights_after(r, steps=2)["policy.logits"] for r in (plain, reinforce)))


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(shiq, micro=m, steps=2)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)


def test_beta_is_above_zero():
    with pytest.raises(UserError, match=r"PathConsistency.beta is 0"):
        PathConsistency(0.0)
