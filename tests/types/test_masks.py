"""Laws of masks: nodes and weights, complements, factors, and estimates that are exact where they must be."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from gradus.types import Key, UserError
from gradus.types.masks import Coupled, OneStep, Quadrature, RandomLevels, Unmask, gauss, of_move


def test_gauss_nodes_and_weights():
    two, three = gauss(2), gauss(3)
    assert two[0].round(5).tolist() == [0.21132, 0.78868]
    assert two[1] == pytest.approx([0.5, 0.5])
    assert three[0].round(5).tolist() == [0.1127, 0.5, 0.8873]
    assert three[1] == pytest.approx([5 / 18, 8 / 18, 5 / 18])


def test_two_nodes_integrate_a_cubic_exactly_and_one_node_does_not():
    # integral of 4 t^3 - t over (0, 1): 1 - 1/2
    for nodes, exact in ((1, False), (2, True), (3, True)):
        at, weights = gauss(nodes)
        assert (float((weights * (4 * at**3 - at)).sum()) == pytest.approx(0.5, abs=1e-12)) is exact


def test_a_mask_and_its_complement_cover_each_token_once():
    for seed in range(20):
        hidden, factors = Coupled().draw(16, Key(1), Key(seed))
        assert hidden[0].all()
        assert (hidden[1] ^ hidden[2]).all()
        share = 0.5 / factors[1, 0]
        assert 0.2 <= share <= 0.8
        assert factors[2, 0] == pytest.approx(0.5 / (1 - share))


def test_the_coupled_estimate_by_hand():
    # m = 0.4, log p_0 = -2, log p_1 = -0.8 in the mask: (-2 + -0.8 / 0.4) / 2 = -2
    law = Coupled(0.4, 0.4)
    hidden, factors = law.draw(64, Key(0), Key(0))
    estimate = (hidden * factors * np.array([[-2.0], [-0.8], [-0.8]])).sum(0)
    assert estimate[hidden[1]] == pytest.approx(-2.0)
    # outside the mask: (-2 + -0.8 / 0.6) / 2
    assert estimate[hidden[2]] == pytest.approx((-2 - 0.8 / 0.6) / 2)


def test_the_coupled_estimate_of_a_model_without_context_is_one_and_a_half_times_too_large():
    law, log_p, found = Coupled(), -1.0, []
    for seed in range(2000):
        hidden, factors = law.draw(8, Key(seed).fold("shared"), Key(seed))
        found.append((hidden * factors * log_p).sum(0).mean())
    assert np.mean(found) == pytest.approx(1.5 * log_p, abs=0.02)


def test_one_share_for_all_answers_of_an_update():
    first, second = (Coupled().draw(16, Key(1), Key(i)) for i in (2, 3))
    assert first[1][1, 0] == second[1][1, 0]
    assert (first[0] != second[0]).any()


def test_the_quadrature_is_exact_in_expectation_up_to_six_tokens():
    # log p of a hidden token with k hidden ones: -0.1 k^1.5. The ELBO is the sum over k of the mean with exactly k hidden, sum_k f(k)
    def elbo(length):
        return sum(-0.1 * k**1.5 for k in range(1, length + 1))

    def expected(length, nodes):
        total = 0.0
        for t, weight in zip(*gauss(nodes), strict=True):
            for mask in product((0, 1), repeat=length):
                k = sum(mask)
                total += weight / t * t**k * (1 - t) ** (length - k) * k * (-0.1 * k**1.5)
        return total

    assert expected(4, 2) == pytest.approx(elbo(4), abs=1e-12)
    assert expected(6, 3) == pytest.approx(elbo(6), abs=1e-12)
    assert expected(8, 2) != pytest.approx(elbo(8), abs=1e-4)


def test_the_quadrature_of_a_model_without_context_has_the_exact_mean():
    # log p = -1 for each of 6 tokens whatever is hidden: the mean of the estimates is -6
    found = [-float((hidden * factors).sum()) for hidden, factors in (Quadrature(3).draw(6, Key(0), Key(i)) for i in range(4000))]
    assert np.mean(found) == pytest.approx(-6, abs=0.15)
    _, factors = Quadrature(3).draw(6, Key(0), Key(1))
    at, weights = gauss(3)
    assert factors[:, 0] == pytest.approx(weights / at)


def test_random_levels_and_one_step():
    hidden, factors = RandomLevels(4).draw(5, Key(0), Key(1))
    assert hidden.shape == factors.shape == (4, 5)
    hidden, factors = OneStep().draw(5, Key(0), Key(1))
    assert hidden.all()
    assert factors.tolist() == [[1.0] * 5]


def test_equal_keys_draw_alike_and_moves_do_not():
    for law in (Coupled(), Quadrature(3), RandomLevels(3)):
        assert (law.draw(32, Key(1), Key(2))[0] == law.draw(32, Key(1), Key(2))[0]).all()
        other = of_move(Key(2), 1)
        assert (law.draw(32, Key(1), Key(2))[0] != law.draw(32, Key(1), other)[0]).any()


def test_wrong_laws_are_refused():
    with pytest.raises(UserError, match=r"set `low` to .* or less"):
        Coupled(0.8, 0.2)
    with pytest.raises(UserError, match=r"Coupled\.high is 1"):
        Coupled(0.2, 1.0)
    with pytest.raises(UserError, match=r"Quadrature\.nodes is 0"):
        Quadrature(0)
    with pytest.raises(UserError, match="entropy"):
        Unmask("entropie")  # type: ignore[arg-type]
