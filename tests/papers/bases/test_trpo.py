"""TRPO: every step within its bound and not downhill, by the exact divergence too; limits; no learning rate."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.papers.bases.reinforce import reinforce
from gradus.papers.bases.trpo import trpo
from gradus.testing.methods import check_different_update, check_learns, check_same_update, train_toy, weights_after


def test_every_step_keeps_the_bound_and_improves():
    seen, tables = [], []

    def watch(run, metrics, groups):
        seen.append((metrics, groups))
        tables.append(run.players["policy"].policy.network.logits.detach().log_softmax(-1))

    train_toy(trpo, steps=12, prompts=8, group=8, watch=watch)
    assert all(m["skipped"] or (0 < m["update_kl"] <= 0.01 and m["gain"] > 0) for m, _ in seen)
    assert sum(m["skipped"] == 0 for m, _ in seen) >= 10
    exact = []
    for (_, groups), before, after in zip(seen[1:], tables, tables[1:], strict=False):
        states = np.concatenate([c.sequence[c.action_positions - 1] for g in groups for t in g.trajectories for c in t.contexts])
        kl = (before.exp() * (before - after)).sum(-1)  # of the bigram's rows
        exact.append(float(kl[torch.from_numpy(states.astype(np.int64))].mean()))
    assert max(exact) < 0.015  # the bound is on its estimate from the sampled tokens
    assert np.mean(exact) == pytest.approx(np.mean([m["update_kl"] for m, _ in seen[1:]]), rel=0.3)


def test_no_learning_rate_is_read():
    fast, slow = (train_toy(trpo, learning_rate=rate).players["policy"].policy.network.logits for rate in (1.0, 1e-6))
    assert torch.equal(fast, slow)


def test_without_its_differences_it_is_reinforce():
    back = trpo.but(update=reinforce.update, objective__policy__average=reinforce.objective["policy"].average)
    check_same_update(back, reinforce)
    check_different_update(trpo, reinforce)


@pytest.mark.parametrize("micro", [1, 7])
def test_no_cut_changes_it(micro):
    whole, cut = (weights_after(trpo, steps=2, micro=m)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)


@pytest.mark.nightly
def test_it_learns():
    check_learns(trpo, steps=40)
