"""GVM-RAFT: weights and division by hand, the norms of the probes, the equal weight of problems, the variance of the estimate, its limit."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.papers.bases.best_of_n import best_of_n
from gradus.papers.data.gvm_raft import gvm_raft
from gradus.rollouts.allot import UntilSignal
from gradus.rollouts.auto import Auto
from gradus.selection.filters import Accepted
from gradus.testing.methods import steps_of, toy_batch, toy_group, train_toy, weights_after
from gradus.types import Key
from gradus.types.signals import LogProb


def test_every_problem_has_the_same_weight():
    one, two, none = toy_group(1, 0, 1, 1, key="a"), toy_group(0, 1, key="b"), toy_group(0, 0, key="c")
    kept, dropped = Accepted().keep([one, two, none], Key())
    # 4 accepted answers of 2 problems: 4 / (2 x 3) and 4 / (2 x 1)
    assert [[t.weight for t in g.trajectories] for g in kept] == [[pytest.approx(2 / 3)] * 3, [2.0]]
    assert [g.key for g in dropped] == ["c"]
    batch = toy_batch(*kept)
    rows = torch.linspace(-2, -1, 8, dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(gvm_raft.objective, {LogProb(): rows}, batch)
    loss.backward()
    means = [sum(rows[:6].tolist()) / 3, sum(rows[6:].tolist())]  # answers have two tokens
    assert loss.item() == pytest.approx(-sum(means) / 2)
    assert rows.grad.tolist() == pytest.approx([-1 / 6] * 6 + [-1 / 2] * 2)


def test_the_rollout_divides_the_budget_after_the_probes():
    sizes, acted = set(), 0
    for metrics, groups in steps_of(gvm_raft, steps=4, prompts=5, group=6):
        probes = [sum(not t.trained for t in g.trajectories) for g in groups]
        more = [len(g.trajectories) - n for g, n in zip(groups, probes, strict=True)]
        assert probes == [8] * 5
        assert sum(more) == 30
        assert metrics["allotted"] == 14
        for g, n in zip(groups, more, strict=True):
            assert n == 0 or any(t.right for t in g.trajectories[:8])
            learned = [t for t in g.trajectories if t.advantages is not None]
            assert all(t.right and t.trained for t in learned)
            acted += len(learned)
        sizes |= set(more)
    assert len(sizes) > 2
    assert acted > 0


def test_a_step_without_further_answers_changes_nothing():
    seen = []
    silent = gvm_raft.but(rollout__rule=UntilSignal(right=0, wrong=0), rollout__probe=True)  # it asks for nothing, so only probes are left
    run = train_toy(silent, steps=1, watch=lambda run, metrics, groups: seen.append(groups))
    assert all(len(g.trajectories) == 8 for g in seen[0])
    assert run.players["policy"].updates == 0


def test_without_its_differences_it_is_best_of_n():
    plain = gvm_raft.but(rollout=Auto(), selection=best_of_n.selection, objective=best_of_n.objective)
    ours, base = weights_after(plain, steps=2), weights_after(best_of_n, steps=2)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])
    assert not torch.equal(weights_after(gvm_raft, steps=2)["policy.logits"], base["policy.logits"])


def test_one_trained_round_is_uniform_rejection_sampling():
    once = gvm_raft.but(rollout__rounds=1, rollout__first=4, rollout__probe=False)
    uniform = weights_after(gvm_raft.but(rollout=Auto()), steps=3)["policy.logits"]
    assert torch.equal(weights_after(once, steps=3)["policy.logits"], uniform)


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(gvm_raft, steps=2, micro=m)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)
