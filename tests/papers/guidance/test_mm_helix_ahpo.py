"""AHPO: the gate, the two losses by hand, the expert's gradient alone, and GRPO as the limit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gradus.credit.groups import group_relative
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.mm_helix_ahpo import Guided, gate, mm_helix_ahpo
from gradus.testing.methods import (
    check_learns,
    check_micro_batches,
    toy_group,
    toy_trajectory,
    train_toy,
    weights_after,
)
from gradus.types import Frozen
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb


def mixed(*own: float, given: int = 2, key: str = "g") -> Any:
    """A group of own answers of one token with these rewards, and a solution of `given` tokens."""
    made = toy_group(*own, lengths=[1] * len(own), key=key)
    return made.but(trajectories=(*made.trajectories, toy_trajectory([2] * given, reward=1.0, name=f"{key}/e", source="expert")))


def loss_of(rows: list[float], *groups: Any, rule: Any = Guided()) -> tuple[float, list[float]]:
    credited = [
        g.but(trajectories=tuple(t.but(advantages=c.advantages, weights=c.weights) for t, c in zip(g.trajectories, row, strict=True)))
        for g, row in zip(groups, rule.assign(groups, {}), strict=True)
    ]
    leaves = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(mm_helix_ahpo.objective, {LogProb(): leaves}, make_batch(credited, dtype=torch.float64))
    loss.backward()
    assert leaves.grad is not None
    return loss.item(), leaves.grad.tolist()


def test_the_gate() -> None:
    """One right answer of 8 opens it, two close it. Points for the form do not count as success."""
    assert gate(mixed(1, *[0] * 7), least=2)
    assert not gate(mixed(1, 1, *[0] * 6), least=2)
    assert gate(mixed(*[0] * 8), least=2)
    assert not gate(mixed(*[0] * 8), least=0)
    formal = toy_group(0.5, 0.5, 0.5)
    polite = formal.but(trajectories=tuple(t.but(components=Frozen(verified=0.0, form=0.5)) for t in formal.trajectories))
    assert gate(polite, least=1)


def test_without_a_success_only_the_expert_acts() -> None:
    """L_off = -(1/2)(log p_1 + log p_2): its gradient is -1/2 at both tokens, and no own token has one."""
    loss, gradient = loss_of([-1.0, -2.0, -0.5, -1.5], mixed(0, 0))
    assert loss == pytest.approx(1.0)
    assert gradient == pytest.approx([0, 0, -0.5, -0.5], abs=1e-7)


def test_with_enough_successes_only_the_own_answers_act() -> None:
    """Rewards 1, 1, 0, 0 have the advantages 1, 1, -1, -1: the gradient is -A/4, and the solution has none."""
    _, gradient = loss_of([-1.0] * 6, mixed(1, 1, 0, 0))
    assert gradient == pytest.approx([-0.25, -0.25, 0.25, 0.25, 0, 0], abs=1e-7)


def test_both_act_with_one_success_and_the_mean_is_over_problems() -> None:
    """Two problems: one with a success of 2 (gate open), one without. Own gradients -A/4 over 4 answers, the solutions' -1/(2 x 2)."""
    first, second = mixed(1, 0), mixed(0, 0, key="h")
    _, gradient = loss_of([-1.0] * 8, first, second)
    a = group_relative(first.rewards[:2])
    assert gradient == pytest.approx([-a[0] / 4, -a[1] / 4, -0.25, -0.25, 0, 0, -0.25, -0.25])


def test_each_solution_counts_once_whatever_its_length_and_a_closed_gate_stays_in_the_mean() -> None:
    """Solutions of 1 and 4 tokens: -1/(2 x 1) and -1/(2 x 4). With one closed gate of two, the other solution still has the divisor 2."""
    _, gradient = loss_of([-1.0] * 7, mixed(0, given=1), mixed(0, given=4, key="h"))
    assert gradient == pytest.approx([0, -0.5, 0, *[-0.125] * 4])
    _, gradient = loss_of([-1.0] * 8, mixed(1, 1), mixed(0, 0, key="h"))
    assert gradient == pytest.approx([0] * 6 + [-0.25] * 2)


def test_edges() -> None:
    (one, given), (lone,) = Guided().assign([mixed(1.0), mixed(0.0).but(trajectories=mixed(0.0).trajectories[1:])], {})
    assert one.advantages.tolist() == [0.0]
    assert given.weights is not None
    assert lone.weights is not None
    assert (given.weights.tolist(), lone.weights.tolist()) == ([1.0, 1.0], [1.0, 1.0])
    equal = Guided().assign([toy_group(0.3, 0.3, 0.3)], {})[0]
    assert all(c.advantages.tolist() == [0.0, 0.0] for c in equal)


def test_a_gate_that_never_opens_is_grpo() -> None:
    plain = grpo.but(objective__kl=None, players__reference=None, setting__group=4)
    closed = mm_helix_ahpo.but(credit=Guided(least=0))
    first, base = (weights_after(r, steps=2, group=n)["policy.logits"] for r, n in ((closed, 5), (plain, 4)))
    torch.testing.assert_close(first, base, rtol=0, atol=1e-12)
    assert not torch.allclose(weights_after(mm_helix_ahpo, steps=2, group=5)["policy.logits"], base)


def test_the_gate_closes_while_the_policy_learns() -> None:
    """The share of open gates falls by half: the method fades by itself."""
    opened: list[float] = []

    def watch(run: Any, row: Any, groups: Any) -> None:
        opened.append(sum(gate(g, least=2) for g in groups) / len(groups))

    train_toy(mm_helix_ahpo, steps=40, learning_rate=0.3, group=5, watch=watch)
    assert sum(opened[:5]) > 0
    assert sum(opened[-5:]) <= sum(opened[:5]) / 2
    check_micro_batches(mm_helix_ahpo)
    check_learns(mm_helix_ahpo)
