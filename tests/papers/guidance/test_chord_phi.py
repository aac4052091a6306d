"""CHORD-phi: the weight of every expert token by hand, no gradient through it, and its limits."""

from __future__ import annotations

import math

import pytest
import torch

from gradus.papers.guidance.chord import chord
from gradus.papers.guidance.chord_phi import Likelihood, Undecided, chord_phi
from gradus.recipe.core import changes
from gradus.testing.methods import loss_and_gradient, toy_group, train_toy
from gradus.types.moments import Moment

CHANCES = [0.5, 0.9, 0.01]
ROWS = [math.log(p) for p in CHANCES]
GROUP = toy_group(1, lengths=[3])
EXPERT = [GROUP.but(trajectories=tuple(t.but(source="expert") for t in GROUP.trajectories))]


def test_phi_by_hand() -> None:
    old = torch.tensor(ROWS, dtype=torch.float64)
    assert Undecided().factors(old, None).tolist() == pytest.approx([0.25, 0.09, 0.0099])  # type: ignore[arg-type]
    assert Likelihood().factors(old, None).tolist() == pytest.approx(CHANCES)  # type: ignore[arg-type]


@pytest.mark.parametrize(("weight", "factors"), [(Undecided(), [0.25, 0.09, 0.0099]), (Likelihood(), CHANCES)])
def test_no_gradient_flows_through_the_weight(weight, factors) -> None:
    """mu = 0.1: the loss is 0.1 / 3 sum of -w log p, its slope by log p_t -0.1 w_t / 3; through phi it would gain (p - 2 p^2) log p."""
    recipe, events = chord_phi.schedule.at(Moment(7, 9), chord_phi.but(objective__imitation__weight=weight))
    assert events == ()
    loss, gradient, _ = loss_and_gradient(recipe.objective, EXPERT, ROWS)
    assert loss == pytest.approx(0.1 / 3 * sum(-w * r for w, r in zip(factors, ROWS, strict=True)))
    assert gradient == pytest.approx([-0.1 * w / 3 for w in factors])


def test_sure_and_hopeless_tokens_are_spared() -> None:
    """phi is largest at 1/2 and falls to 0 at both ends, so that a token of chance 0.999 or 0.001 moves 250 times less."""
    p = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    phi = Undecided().factors(p.log(), None)  # type: ignore[arg-type]
    assert float(p[phi.argmax()]) == pytest.approx(0.5)
    assert float(phi[0]) == pytest.approx(float(phi[-1])) == pytest.approx(0.000999)


def test_mu_is_constant_and_without_the_weight_it_is_chord() -> None:
    for step in (0, 5, 10**6):
        recipe, _ = chord_phi.schedule.at(Moment(step, 9), chord_phi)
        assert (recipe.objective["imitation"].coefficient, recipe.objective["policy"].coefficient) == (0.1, 0.9)
    assert changes(chord_phi.but(objective__imitation__weight=None, schedule=chord.schedule), chord) == {}


def test_it_trains() -> None:
    """The toy policy is undecided about most letters, so the weighted loss is neither 0 nor the plain one."""
    weighted, plain = (train_toy(r, steps=1).metrics[0] for r in (chord_phi, chord_phi.but(objective__imitation__weight=None)))
    assert 0 < weighted["imitation"] < plain["imitation"]
