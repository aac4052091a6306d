"""PRIME: the process model's loss, token rewards and both advantages by hand, who learns when, and its limit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.gae import whiten
from gradus.credit.groups import LeaveOneOut
from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.rloo import rloo
from gradus.papers.rewards.prime import ImplicitProcess, bounded, outcome_losses, prime, process_advantages
from gradus.selection.filters import Everything
from gradus.testing.methods import TOY, advantages_of, toy_group, train_toy, weights_after
from gradus.types import Key, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs

MODEL, REFERENCE = LogProbs(player="prm"), LogProbs(player="reference")


def read(made, ratios):
    """Signals in which log pi_prm - log pi_ref has these rows, one list a trajectory."""
    rows = dict(zip((t.id for t in made.trajectories), ratios, strict=True))
    return {MODEL: {k: np.array(v) - 1.0 for k, v in rows.items()}, REFERENCE: {k: np.full(len(v), -1.0) for k, v in rows.items()}}


def test_the_loss_of_the_process_model_by_hand():
    # .05 * 20 = 1: log(1 + exp(-1)) = .3133; at 0: log 2 = .6931; with the other label 1 + .3133
    losses = outcome_losses(torch.tensor([20.0, 0.0, 20.0]), torch.tensor([1.0, 1.0, 0.0]), beta=0.05)
    assert_close(losses, torch.tensor([0.3133, 0.6931, 1.3133]), atol=1e-4, rtol=0)


def test_outcomes_without_process_rewards():
    # pi_prm = pi_ref: only o_i - mean of the others: 1 - 1/3 and 0 - 2/3
    made = toy_group(1, 0, 0, 1, lengths=[1, 2, 1, 1])
    plain = ImplicitProcess(whitened=False)
    (rows,) = advantages_of(plain, made, signals=read(made, [[0], [0, 0], [0], [0]]))
    assert_close(torch.tensor([r[0] for r in rows]), torch.tensor([2, -2, -2, 2]) / 3)
    assert rows[1] == [rows[1][0]] * 2


def test_process_advantages_by_hand():
    # means 2, 1, 0; baselines of the others: 1/2, 1, 3/2
    # first answer 1 - .5, 3 - .5 summed to the end: 3, 2.5; second: 0; third, -1 and 1 less 1.5: -3, -.5
    rows = process_advantages([np.array([1.0, 3.0]), np.array([1.0]), np.array([-1.0, 1.0])], gamma=1.0)
    assert [r.tolist() for r in rows] == [[3.0, 2.5], [0.0], [-3.0, -0.5]]
    # gamma 1/2: .5 + .5 * 2.5 and -2.5 + .5 * -.5
    rows = process_advantages([np.array([1.0, 3.0]), np.array([1.0]), np.array([-1.0, 1.0])], gamma=0.5)
    assert [r.tolist() for r in rows] == [[1.75, 2.5], [0.0], [-2.75, -0.5]]
    assert process_advantages([np.array([5.0, 1.0])], gamma=1.0)[0].tolist() == [0.0, 0.0]


def test_rewards_are_divided_by_the_largest_return():
    # sums to the end: 1 - 4 = -3, -4 and 2: the largest is 4 in size
    assert [r.tolist() for r in bounded([np.array([1.0, -4.0]), np.array([2.0])])] == [[0.25, -1.0], [0.5]]
    assert [r.tolist() for r in bounded([np.zeros(2)])] == [[0.0, 0.0]]


def test_the_mean_token_of_the_centred_rewards_is_that_of_the_released_form():
    # r K/(K-1) - (sum of means)/(K-1) has mean (K m - S)/(K-1), as has r - (S - m)/(K-1)
    rewards = [np.array([1.0, 3.0, -2.0]), np.array([0.5]), np.array([-1.0, 1.5])]
    means = np.array([r.mean() for r in rewards])
    for i, r in enumerate(rewards):
        released = r * 3 / 2 - means.sum() / 2
        ours = np.diff(process_advantages(rewards, gamma=1.0)[i][::-1], prepend=0)[::-1]  # from sums to the end back to rewards
        assert released.mean() == pytest.approx(ours.mean())


def test_advantages_equal_plain_loops():
    rng = np.random.default_rng(3)
    groups = [toy_group(1, 0, 1, lengths=[2, 1, 3], key="a"), toy_group(0, 1, lengths=[2, 2], key="b")]
    ratios = {t.id: rng.normal(size=t.actions) for g in groups for t in g.trajectories}
    signals = {MODEL: ratios, REFERENCE: {k: np.zeros(len(v)) for k, v in ratios.items()}}
    found = [r for rows in advantages_of(prime.credit, *groups, signals=signals) for r in rows]
    token = {k: [0.05 * x for x in v] for k, v in ratios.items()}
    largest = max(abs(sum(v[i:])) for v in token.values() for i in range(len(v)))
    rows = []
    for g in groups:
        for t in g.trajectories:
            others = [o for o in g.trajectories if o is not t]
            base = sum(sum(token[o.id]) / largest / len(token[o.id]) for o in others) / len(others)
            outcome = t.value - sum(o.value for o in others) / len(others)
            rows.append([sum(x / largest - base for x in token[t.id][i:]) + outcome for i in range(t.actions)])
    flat = [x for row in rows for x in row]
    mean = sum(flat) / len(flat)
    std = math.sqrt(sum((x - mean) ** 2 for x in flat) / len(flat))
    expected = torch.tensor([(x - mean) / std for x in flat], dtype=torch.float64)
    assert_close(torch.tensor([x for row in found for x in row], dtype=torch.float64), expected)


def test_the_process_model_loss_and_gradient_by_hand():
    # answers of 1 and 2 tokens, log-ratios 20 and 0 + 0, outcomes 1 and 0: (.3133 + .6931)/2; slopes beta (sigmoid - o)/2
    made = toy_group(1, 0, lengths=[1, 2])
    credited = made.but(trajectories=tuple(t.but(advantages=np.zeros(t.actions)) for t in made.trajectories))
    batch = make_batch([credited], {REFERENCE: {"g/0": np.array([-20.5]), "g/1": np.array([-1.0, -2.0])}}, dtype=torch.float64)
    logprobs = torch.tensor([-0.5, -1.0, -2.0], dtype=torch.float64, requires_grad=True)
    loss, metrics = evaluate(prime.players["prm"].objective, {LogProb(): logprobs}, batch)
    assert_close(loss.item(), (math.log(1 + math.exp(-1)) + math.log(2)) / 2)
    loss.backward()
    first = 0.05 * (1 / (1 + math.exp(-1)) - 1) / 2
    assert_close(logprobs.grad, torch.tensor([first, 0.0125, 0.0125], dtype=torch.float64))
    assert metrics["outcome_accuracy"].mean == 1.0  # a log-ratio of 0 does not call an answer right


def test_outcomes_outside_0_and_1_are_refused():
    made = toy_group(2.0, 0.0)
    credited = made.but(trajectories=tuple(t.but(advantages=np.zeros(t.actions)) for t in made.trajectories))
    batch = make_batch([credited], {REFERENCE: {t.id: np.zeros(2) for t in made.trajectories}}, dtype=torch.float64)
    with pytest.raises(UserError, match="a reward is 2"):
        evaluate(prime.players["prm"].objective, {LogProb(): torch.zeros(4, dtype=torch.float64)}, batch)


@pytest.mark.parametrize("verdict", [1.0, 0.0])
def test_a_group_that_is_all_right_or_all_wrong_moves_neither_model(verdict):
    run = train_toy(prime, task=replace(TOY, verify=lambda problem, completion: verdict))
    assert [run.players[n].updates for n in ("policy", "prm", "reference")] == [0, 0, 0]
    assert torch.equal(run.players["policy"].policy.network.logits, run.players["prm"].policy.network.logits)


def test_only_accuracies_within_the_bounds_are_kept():
    groups = [toy_group(*rewards) for rewards in ((1, 0, 0, 0, 0), (1, 1, 1, 1, 0), (1, 0, 0, 0, 0, 0), (1, 1, 1, 1, 1, 0))]
    kept, dropped = prime.selection.keep(groups, Key())
    assert kept == groups[:2]
    assert dropped == groups[2:]


@pytest.mark.nightly
def test_both_models_learn():
    seen = []
    run = train_toy(prime, steps=60, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append(metrics))
    assert run.players["reference"].updates == 0
    assert run.players["prm"].updates == run.players["policy"].updates > 0
    told = [m["prm/loss/outcome"] for m in seen if "prm/loss/outcome" in m]
    assert told[0] == pytest.approx(math.log(2))
    assert np.mean(told[10:]) < math.log(2) - 0.005  # less than what an answer costs that says nothing
    assert np.mean([m["reward"] for m in seen[-10:]]) > np.mean([m["reward"] for m in seen[:5]]) + 0.15


def test_token_rewards_are_those_of_the_model_before_the_update():
    # in the first step the process model is the reference: what remains is the leave-one-out outcome, whitened
    seen = []
    train_toy(prime, steps=1, watch=lambda run, metrics, groups: seen.append(groups))
    kept = [g for g in seen[0] if g.trajectories[0].advantages is not None]
    expected = [c.advantages for row in LeaveOneOut().assign(kept, {}) for c in row]
    for t, row in zip([t for g in kept for t in g.trajectories], whiten(expected), strict=True):
        assert_close(torch.tensor(t.advantages), torch.tensor(row))


def test_without_its_differences_it_is_rloo():
    plain = prime.but(
        selection=Everything(),
        credit=ImplicitProcess(process_coef=0.0, whitened=False),
        objective__policy__trust=Unclipped(),
        objective__policy__average=SequenceSum(),
    )
    ours, base = weights_after(plain, steps=2), weights_after(rloo, steps=2)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])


@pytest.mark.parametrize("micro", [1, 7])
def test_gradients_of_both_models_do_not_depend_on_the_micro_batch(micro):
    whole, cut = weights_after(prime, steps=3), weights_after(prime, micro=micro, steps=3)
    for name in ("policy", "prm"):
        assert_close(cut[f"{name}.logits"], whole[f"{name}.logits"], rtol=0, atol=1e-10)
