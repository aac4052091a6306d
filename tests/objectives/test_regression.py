"""The regression of log-ratios: errors and gradients by hand, its minimum, the limit of a small beta, pairs against centred errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.preference import squared_preference_losses
from gradus.objectives.regression import LogRatioRegression, regression_errors
from gradus.objectives.terms import PolicyGradient, evaluate
from gradus.objectives.trust import Unclipped
from gradus.papers.objectives.copg import PairRegression
from gradus.testing.methods import REFERENCE, loss_and_gradient, toy_batch, toy_group
from gradus.types import Key, UserError
from gradus.types.signals import LogProb
from gradus.updates.minibatches import minibatches, unit_of


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def fitted(term, groups, log_ratios, targets):
    """Loss and gradient of a term if the reference has the log-probability 0 everywhere."""
    ids = [t for group in groups for t in group.trajectories]
    signals = {REFERENCE: {t.id: [0.0] * t.actions for t in ids}}
    return loss_and_gradient({"fit": term}, groups, log_ratios, advantages=targets, signals=signals)


def test_errors_by_hand():
    assert_close(regression_errors(numbers(1 - 0.4772, 0.0), numbers(50.0, -2.0), beta=0.5), numbers(-24.4772, 1.0))
    with pytest.raises(ValueError, match="log_ratios"):
        regression_errors(numbers(1, 2), numbers(1), beta=0.5)


def test_trajectories_by_hand():
    # log-ratios .3 and -.2 of 2 and 1 tokens, beta .5: errors 1 - .15 and 0 + .1; loss (.7225 + .01) / 2; slope of a token: -beta error
    groups = [toy_group(1, 0, lengths=[2, 1])]
    loss, slopes, metrics = fitted(LogRatioRegression(0.5), groups, [0.1, 0.2, -0.2], [1.0, 0.0])
    assert loss == pytest.approx(0.36625)
    assert slopes == pytest.approx([-0.425, -0.425, -0.05])
    assert metrics["fit_error"] == pytest.approx(0.475)
    assert metrics["fit_log_ratio"] == pytest.approx(0.05)


def test_pairs_by_hand():
    # errors 1 - .5 (.2) = .9, .05 and, of a third answer, .5: squares of the differences .7225, .16, .2025; mean .36166..
    groups = [toy_group(1, 0, 0.5, lengths=[1, 1, 1], key="a"), toy_group(1, lengths=[2], key="b")]
    loss, slopes, _ = fitted(PairRegression(0.5, coefficient=1.0, source="policy"), groups, [0.2, -0.1, 0.0, 3.0, 3.0], [1.0, 0.0, 0.5, 9.0])
    assert loss == pytest.approx((0.7225 + 0.16 + 0.2025) / 3 / 2)  # the group of one counts, with 0
    # d/dl of the first: -2 beta (.85 + .4) / 3 / 2
    assert slopes == pytest.approx([-1.25 / 6, 1.3 / 6, -0.05 / 6, 0.0, 0.0])


def test_pairs_are_the_centred_errors_times_a_factor():
    # mean over pairs of (e_i - e_j)^2 = 2 / (G - 1) sum_i (e_i - mean e)^2
    draw = np.random.default_rng(0)
    targets, ratios = draw.normal(size=5), draw.normal(size=5)
    loss, _, _ = fitted(PairRegression(0.3, coefficient=1.0, source="policy"), [toy_group(*range(5), lengths=[1] * 5)], ratios.tolist(), targets.tolist())
    assert loss == pytest.approx(2 * np.var(targets - 0.3 * ratios, ddof=1))


def test_a_constant_of_the_group_cancels_in_pairs_only():
    groups, ratios = [toy_group(1, 0, lengths=[1, 1])], [0.2, -0.1]
    for term, same in ((PairRegression(0.5, source="policy"), True), (LogRatioRegression(0.5), False)):
        one, two = (fitted(term, groups, ratios, [1.0 + shift, shift]) for shift in (0.0, 3.0))
        assert (one[0] == pytest.approx(two[0])) is same
        assert (one[1] == pytest.approx(two[1])) is same


def test_half_a_unit_of_reward_between_two_answers_is_ipo():
    # rewards 1/4 and -1/4: (1/2 - beta lead)^2 = beta^2 (lead - 1 / (2 beta))^2
    loss, _, _ = fitted(PairRegression(0.1, coefficient=1 / 0.1**2, source="policy"), [toy_group(1, 0, lengths=[1, 1])], [0.7, -0.4], [0.25, -0.25])
    assert loss == pytest.approx(squared_preference_losses(numbers(0.7), numbers(-0.4), tau=0.1).item())


def test_a_small_beta_is_the_policy_gradient():
    # (A - beta l)^2 / (2 beta) has the slope -(A - beta l): at l = 0 exactly that of -A log pi, elsewhere in the limit
    groups, targets = [toy_group(1, 0, lengths=[2, 1]), toy_group(0, 1, key="h")], [0.7, -0.3, 0.1, 2.0]
    plain = PolicyGradient(trust=Unclipped(), average=SequenceSum())
    expected = fitted(plain, groups, [0.0] * 7, targets)[1]
    assert fitted(LogRatioRegression(0.4, coefficient=1 / 0.8), groups, [0.0] * 7, targets)[1] == pytest.approx(expected, abs=1e-12)
    moved = [0.3, -0.2, 0.5, 0.1, 0.1, -0.4, 0.2]
    for beta in (1e-3, 1e-6):
        assert fitted(LogRatioRegression(beta, coefficient=1 / (2 * beta)), groups, moved, targets)[1] == pytest.approx(expected, abs=2 * beta)


@pytest.mark.parametrize("term", [LogRatioRegression(0.2), PairRegression(0.2, source="policy")])
def test_at_the_minimum_there_is_no_gradient(term):
    targets = [0.6, -0.2, 0.1]
    loss, slopes, _ = fitted(term, [toy_group(*targets, lengths=[1] * 3)], [t / 0.2 for t in targets], targets)
    assert loss == pytest.approx(0, abs=1e-15)
    assert slopes == pytest.approx([0, 0, 0], abs=1e-12)


def test_the_target_is_the_mean_over_actions():
    group = toy_group(1, lengths=[2])
    batch = toy_batch(group, signals={REFERENCE: {"g/0": np.zeros(2)}})
    batch.advantages[:] = numbers(1.0, 3.0)
    loss, _ = evaluate({"fit": LogRatioRegression(1.0)}, {LogProb(): numbers(0.25, 0.25).requires_grad_()}, batch)
    assert loss.item() == 1.5**2


def test_groups_without_pairs_have_a_gradient_of_zero():
    loss, slopes, _ = fitted(PairRegression(0.5, coefficient=1.0, source="policy"), [toy_group(1, key="a"), toy_group(0, key="b")], [0.1] * 4, [1.0, 0.0])
    assert (loss, slopes) == (0, [0] * 4)


@pytest.mark.parametrize("term", [LogRatioRegression(0.2), PairRegression(0.2, source="policy")])
def test_the_gradient_passes_a_finite_difference_check(term):
    group = toy_group(1, 0, 0.5, lengths=[2, 1, 3])
    batch = toy_batch(group, advantages=[0.4, -0.9, 0.2], signals={REFERENCE: {f"g/{i}": np.full(n, -0.3) for i, n in enumerate((2, 1, 3))}})
    rows = torch.linspace(-1, 0.5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: evaluate({"fit": term}, {LogProb(): x}, batch)[0], rows)


def test_mini_batches_keep_what_a_unit_needs():
    groups = [toy_group(1, 0, key=name) for name in "abc"]
    batch = toy_batch(*groups, signals={REFERENCE: {t.id: np.zeros(2) for g in groups for t in g.trajectories}})
    for term, sizes in ((LogRatioRegression(0.5), [1] * 6), (PairRegression(0.5, source="policy"), [2] * 3)):
        assert not term.separable
        assert [len(b.trajectories) for b in minibatches(batch, 6, unit_of({"fit": term}), Key(0))] == sizes


def test_beta_is_above_zero():
    with pytest.raises(UserError, match=r"LogRatioRegression.beta is 0"):
        LogRatioRegression(0.0)
    with pytest.raises(UserError, match=r"PairRegression.beta is 0"):
        PairRegression(0.0)


def test_without_a_player_the_log_ratio_is_that_to_the_start_of_the_update():
    group, term = toy_group(1, 0, lengths=[2, 1]), LogRatioRegression(0.5, player=None)
    batch, rows = toy_batch(group, advantages=[1.0, 0.0]), numbers(-0.4, -0.3, -0.9)
    assert term.needs == ()
    assert evaluate({"fit": term}, {LogProb(): rows.clone().requires_grad_()}, batch)[0].item() == 0.5  # log-ratios of 0
    batch.old[LogProb()] = rows - numbers(0.1, 0.2, -0.2)
    assert evaluate({"fit": term}, {LogProb(): rows.clone().requires_grad_()}, batch)[0].item() == pytest.approx(0.36625)
