"""CoPG: weights of two and three answers by hand, its limits, the optimum from skewed data, and the two stages."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import gradus
from gradus.credit.groups import LeaveOneOut
from gradus.credit.reward_to_go import RewardToGo
from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.regression import LogRatioRegression
from gradus.objectives.terms import PolicyGradient, evaluate
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.ipo import ipo
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.bases.rloo import rloo
from gradus.papers.objectives.copg import PairRegression, copg
from gradus.rollouts.auto import Auto
from gradus.schedules.constant import ConstantSchedule
from gradus.selection.filters import BestAndWorst
from gradus.tasks.games.bandit import regularised, total_variation
from gradus.testing.methods import REFERENCE, advantages_of, loss_and_gradient, toy_batch, toy_group, weights_after
from gradus.types import UserError
from gradus.types.moments import Steps
from gradus.types.signals import LogProb

HALF = {"objective__policy__beta": 0.5, "objective__policy__coefficient": 1.0, "objective__policy__source": "policy"}  # 1 / (2 * .5)


def fit(log_ratios, rewards, lengths, **changes):
    group = toy_group(*rewards, lengths=lengths)
    signals = {REFERENCE: {f"g/{i}": [0.0] * n for i, n in enumerate(lengths)}}
    return loss_and_gradient(copg.but(**HALF, **changes).objective, [group], log_ratios, advantages=rewards, signals=signals)


def test_the_weights_of_a_pair_by_hand():
    # R_beta = 1 - .5 * .2 = .9 and 0 + .5 * .1 = .05; ascent .85 for every token of the first answer, -.85 for the second
    loss, slopes, metrics = fit([0.05, 0.15, -0.1], [1.0, 0.0], [2, 1])
    assert loss == pytest.approx(0.85**2)  # 1 / (2 beta) = 1
    assert slopes == pytest.approx([-0.85, -0.85, 0.85], abs=1e-12)
    assert metrics["fit_error"] == pytest.approx(0.85)


def test_the_weights_of_three_answers_by_hand():
    # R_beta = .9, .05 and .5: 2/3 (R_beta - mean of the others)
    _, slopes, _ = fit([0.2, -0.1, 0.0], [1.0, 0.0, 0.5], [1, 1, 1])
    expected = [2 / 3 * (0.9 - 0.275), 2 / 3 * (0.05 - 0.7), 2 / 3 * (0.5 - 0.475)]
    assert slopes == pytest.approx([-w for w in expected], abs=1e-12)


def test_the_recipe_takes_the_reward_as_target_and_one_over_two_beta_as_factor():
    assert advantages_of(copg.credit, toy_group(0.7, -0.2, lengths=[2, 1])) == [[[0.7, 0.7], [-0.2]]]
    term = copg.objective["policy"]
    assert term.coefficient == 1 / (2 * term.beta)


def test_rewards_of_a_quarter_are_ipo():
    rewards, ratios = [0.25, -0.25], [0.7, -0.4]
    loss, slopes, _ = fit(ratios, rewards, [1, 1], objective__policy=PairRegression(0.1, coefficient=1 / 0.1**2, source="policy"))
    signals = {REFERENCE: {"g/0": [0.0], "g/1": [0.0]}}
    sampled = {"pair": ipo.objective["sampled"]}
    due, slope, _ = loss_and_gradient(sampled, [toy_group(*rewards, lengths=[1, 1])], ratios, advantages=rewards, signals=signals)
    assert loss == pytest.approx(due)
    assert slopes == pytest.approx(slope)


def test_at_the_start_of_an_update_on_its_own_answers_the_gradient_is_that_of_rloo():
    rewards = [1.0, 0.2, 0.0, 0.6]
    _, slopes, _ = fit([0.0] * 4, rewards, [1] * 4)
    advantages = np.concatenate([np.concatenate(row) for row in advantages_of(LeaveOneOut(), toy_group(*rewards, lengths=[1] * 4))])
    _, due, _ = loss_and_gradient(rloo.objective, [toy_group(*rewards, lengths=[1] * 4)], [0.0] * 4, advantages=advantages.tolist())
    assert slopes == pytest.approx([2 * x for x in due], abs=1e-12)  # RLOO's loss is the mean over k answers, this one has 2/k per answer


def learned(term, prior, arms, rewards):
    """The distribution that gradient descent on fixed pairs reaches from `prior`."""
    groups = [toy_group(*rewards[pair], lengths=[1, 1], key=f"g{i}") for i, pair in enumerate(arms)]
    signals = {REFERENCE: {f"g{i}/{j}": np.log(prior[pair[j : j + 1]]) for i, pair in enumerate(arms) for j in (0, 1)}}
    batch = toy_batch(*groups, advantages=rewards[arms].ravel().tolist(), signals=signals)
    logits = torch.tensor(np.log(prior), requires_grad=True)
    for _ in range(800):
        loss, _ = evaluate({"fit": term}, {LogProb(): logits.log_softmax(0)[arms.ravel()]}, batch)
        (gradient,) = torch.autograd.grad(loss, logits)
        logits.data -= 0.5 * gradient
    return logits.softmax(0).detach().numpy()


def test_from_skewed_data_it_finds_the_optimum_and_without_the_baseline_it_does_not():
    prior, behaviour, rewards, beta = np.array([0.2, 0.3, 0.5]), np.array([0.75, 0.2, 0.05]), np.array([1.0, 0.6, 0.0]), 0.5
    arms = np.random.default_rng(0).choice(3, size=(60, 2), p=behaviour)
    best = regularised(prior, rewards, beta=beta)
    assert total_variation(prior, best) > 0.1
    assert total_variation(learned(PairRegression(beta, coefficient=1 / (2 * beta), source="policy"), prior, arms, rewards), best) < 0.02
    alone = LogRatioRegression(beta, coefficient=1 / (2 * beta))  # (R - beta log-ratio) grad log pi: no baseline
    plain = PolicyGradient(trust=Unclipped(), average=SequenceSum())
    for other in (alone, plain):
        assert total_variation(learned(other, prior, arms, rewards), best) > 0.1


def test_the_two_stages(tmp_path):
    quick = {"schedule__stages__collect__until": Steps(3), "schedule__stages__fit__until": Steps(6), "setting__prompts": 2, "setting__group": 4}
    run = gradus.train(copg, task="arithmetic", task_options={"level": "1"}, run=tmp_path / "run", **quick, study=None, setting__learning_rate=1e-3)
    rows = [json.loads(line) for line in (tmp_path / "run" / "made" / "collect.jsonl").read_text().splitlines()]
    assert 0 < len(rows) <= 6
    assert all(len(row["answers"]) == len(row["rewards"]) == 2 for row in rows)
    seen = [row for row in run.metrics if "grad_norm" in row]
    assert [row["stage"] for row in seen] == ["fit"] * 6
    assert seen[0]["fit_log_ratio"] == 0
    assert any(abs(row["fit_log_ratio"]) > 0 for row in seen[1:])
    assert any(row["fit_error"] > 0 for row in seen)
    collect, fitted = (copg.schedule.stages[name] for name in ("collect", "fit"))
    assert 10 * collect.until.count == fitted.until.count  # ten passes: a step of either stage has equally many problems


def test_a_task_without_recorded_answers_is_refused_before_anything_runs():
    with pytest.raises(UserError, match="needs problems with answers, rewards"):
        gradus.train(copg, task="arithmetic", schedule=ConstantSchedule(), setting__steps=1)


def test_without_its_differences_it_is_reinforce():
    plain = copg.but(
        rollout=reinforce.rollout, credit=reinforce.credit, objective=reinforce.objective, players__reference=None, schedule=ConstantSchedule()
    )
    assert torch.equal(*(weights_after(r, steps=2)["policy.logits"] for r in (plain, reinforce)))


def test_on_best_and_worst_answers_it_trains_to_the_weights_of_ipo():
    online = copg.but(
        rollout=Auto(),
        selection=BestAndWorst(),
        credit=RewardToGo(whitened=False),
        schedule=ConstantSchedule(),
        objective__policy=PairRegression(0.1, coefficient=100.0, source="policy"),
    )
    other = ipo.but(rollout=Auto(), objective__given=None, objective__sampled__beta=0.05)
    first, found, due = (weights_after(r, steps=3, rate=rate)["policy.logits"] for r, rate in ((online, 0.0), (online, 0.01), (other, 0.01)))
    assert_close(found, due, rtol=0, atol=1e-10)
    assert not torch.allclose(first, found, atol=1e-3)


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(copg, micro=m, steps=2)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)
