"""A*-PO: the optimal value, the regression on one answer per problem, its minimum in a table, and the two stages."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

import gradus
from gradus.credit.groups import BatchBaseline
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.objectives.regression import LogRatioRegression
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.objectives.a_star_po import OptimalAdvantage, a_star_po, value_of
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.harvests import optimal_value
from gradus.tasks.games.bandit import regularised, total_variation
from gradus.testing.methods import REFERENCE, advantages_of, loss_and_gradient, steps_of, toy_group, toy_trajectory, weights_after
from gradus.training.course import recipe_of
from gradus.types import Frozen, Group, Problem, UserError
from gradus.types.moments import Steps


def fit(log_ratios, lengths, advantages, **changes):
    groups = [toy_group(1, lengths=[n], key=f"g{i}") for i, n in enumerate(lengths)]
    signals = {REFERENCE: {f"g{i}/0": [0.0] * n for i, n in enumerate(lengths)}}
    return loss_and_gradient(a_star_po.but(**changes).objective, groups, log_ratios, advantages=advantages, signals=signals)


def test_the_loss_by_hand():
    # log-ratio 50 of two tokens: .001 * 50 - (1 - .4772) = -.4728
    loss, slopes, metrics = fit([20.0, 30.0], [2], [1 - 0.4772])
    assert loss == pytest.approx(0.2235, abs=5e-5)
    assert slopes == pytest.approx([2 * 0.001 * -0.4728] * 2)
    assert metrics["fit_error"] == pytest.approx(0.4728)
    assert metrics["fit_log_ratio"] == 50


def test_at_the_start_the_gradient_is_proportional_to_the_advantage():
    # one answer per problem: -2 beta_2 (r - V) / 3 for each of its tokens
    _, slopes, _ = fit([0.0] * 4, [1, 2, 1], [0.5228, -0.4772, 0.0])
    assert slopes == pytest.approx([-2e-3 * 0.5228 / 3, 2e-3 * 0.4772 / 3, 2e-3 * 0.4772 / 3, 0.0])


def test_rewards_minus_values_by_hand():
    def valued(value, reward, name):
        t = toy_trajectory([2, 3], reward=reward, name=name)
        return Group(name, (t.but(problem=Problem(name, "toy", text="a", meta=Frozen(optimal_value=value))),))

    assert advantages_of(OptimalAdvantage(), valued(0.4772, 1.0, "a"), valued(0, 0.5, "b")) == [[[1 - 0.4772] * 2], [[0.5] * 2]]


@pytest.mark.parametrize("value", [None, "0.5", True])
def test_a_value_that_is_no_number_is_refused(value):
    with pytest.raises(UserError, match='"optimal_value" is'):
        value_of(Problem("p", "toy", text="a", meta=Frozen(optimal_value=value) if value is not None else Frozen()))


def test_in_a_table_the_minimum_is_the_optimal_policy():
    beta, rewards = 0.5, np.array([1.0, 0.2, 0.0, 0.6])
    counts = [1, 1, 2, 4]  # of 8 answers of the reference
    prior = np.array(counts) / 8
    value = optimal_value(np.repeat(rewards, counts), beta=beta)
    term = LogRatioRegression(beta)
    groups = [toy_group(r, lengths=[1], key=f"g{i}") for i, r in enumerate(rewards)]
    signals = {REFERENCE: {f"g{i}/0": [math.log(p)] for i, p in enumerate(prior)}}
    logits = torch.tensor(np.log(prior), requires_grad=True)
    for _ in range(400):
        logprobs = logits.log_softmax(0)
        _, slopes, _ = loss_and_gradient({"fit": term}, groups, logprobs.tolist(), advantages=(rewards - value).tolist(), signals=signals)
        (gradient,) = torch.autograd.grad(logprobs, logits, torch.tensor(slopes))
        logits.data -= 2.0 * gradient
    found, best = logits.softmax(0).detach().numpy(), regularised(prior, rewards, beta=beta)
    assert total_variation(found, best) < 0.02 < total_variation(prior, best)
    assert np.log(found / prior) * beta == pytest.approx(rewards - value, abs=0.02)  # the log-ratio is the advantage


def test_the_two_stages(tmp_path):
    quick = {"schedule__stages__values__until": Steps(2), "schedule__stages__fit__until": Steps(6), "setting__prompts": 2, "setting__group": 4}
    run = gradus.train(
        a_star_po, task="arithmetic", task_options={"level": "1"}, run=tmp_path / "run", **quick, study=None, setting__learning_rate=1e-3
    )
    rows = [json.loads(line) for line in (tmp_path / "run" / "made" / "values.jsonl").read_text().splitlines()]
    assert len(rows) == 4
    allowed = [optimal_value([1] * right + [0] * (8 - right), beta=0.5) for right in range(9)]  # eight answers, whatever the group
    assert all(min(abs(row["optimal_value"] - value) for value in allowed) < 1e-12 for row in rows)
    seen = [row for row in run.metrics if "reward" in row]
    first, fitted = seen[:2], seen[2:]
    assert [row["stage"] for row in seen] == ["values"] * 2 + ["fit"] * 6
    assert not any("fit_error" in row or "grad_norm" in row for row in first)
    assert fitted[0]["fit_log_ratio"] != 0  # the second mini-batch sees a policy that has moved
    assert abs(fitted[0]["fit_log_ratio"]) < abs(fitted[-1]["fit_log_ratio"])
    assert all(row["fit_error"] > 0 for row in fitted)


def test_in_the_second_stage_each_problem_has_one_answer():
    seen = steps_of(a_star_po, steps=1, prompts=2, group=4)
    assert [len(g.trajectories) for g in seen[0][1]] == [1] * 8
    assert recipe_of(a_star_po, "values").objective is None
    assert recipe_of(a_star_po, "values").curriculum == ShuffledEpochs(group=8)
    assert a_star_po.schedule.stages["fit"].task == "made:values"
    assert 32 * 25 == 100 * 8  # prompts of 32 steps, 25 times, are the answers of 100 steps of 8 per prompt


def test_a_task_without_values_is_refused_before_anything_runs():
    with pytest.raises(UserError, match="needs problems with optimal_value"):
        gradus.train(grpo, task="arithmetic", credit=OptimalAdvantage(), setting__steps=1)


def test_without_its_differences_it_is_reinforce():
    plain = a_star_po.but(
        curriculum=reinforce.curriculum,
        credit=BatchBaseline(),
        objective=reinforce.objective,
        players__reference=None,
        update__count=1,
        schedule=ConstantSchedule(),
    )
    assert torch.equal(*(weights_after(r, steps=2)["policy.logits"] for r in (plain, reinforce)))


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    recipe = a_star_po.but(objective__policy__beta=0.3)
    whole, cut = (weights_after(recipe, micro=m, steps=2)["policy.logits"] for m in (None, micro))
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-10)
