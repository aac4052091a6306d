"""What token rules make of logits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.rollouts.token_rules import Banned, Delta, GivenRow, GuidedByQ, Less, MixtureOfModels, Rounded, log_mean_exp_of_chance
from gradus.types import Frozen, UserError
from gradus.types.rules import is_rule
from gradus.types.samplers import Drawing

ROWS = {"policy": torch.tensor([[0.0, 1.0, 2.0]]), "big": torch.tensor([[1.0, 1.0, 0.0]]), "small": torch.tensor([[0.0, 2.0, 0.0]])}


def test_delta_by_hand():
    assert Delta("big", "small", 2.0).logits(ROWS, []).tolist() == [[2.0, -1.0, 2.0]]  # 0 + 2 (1 - 0), 1 + 2 (1 - 2), 2 + 2 (0 - 0)
    assert torch.equal(Delta("big", "small", 0.0).logits(ROWS, []), ROWS["policy"])
    assert Delta("big", "policy").players == ("policy", "big")


def test_a_given_row_is_the_distribution_at_each_temperature():
    row = np.log([0.5, 0.3, 0.2])
    for temperature in (0.5, 1.0, 2.0):
        logits = GivenRow(row, temperature).logits({"policy": torch.ones(2, 3, dtype=torch.float64)}, [])
        np.testing.assert_allclose((logits / temperature).softmax(-1), np.exp([row, row]))


def test_the_log_mean_of_exponentials_by_hand():
    """eta 1/2: 1 / eta = 2, e^2 = 7.389056. p 0.5: log(1 + 0.5 * 6.389056) = log 4.194528 = 1.433780; times eta 0.716890. p 0.1: 0.247014."""
    p = torch.tensor([0.5, 0.1], dtype=torch.float64)
    found = 0.5 * log_mean_exp_of_chance(torch.logit(p), eta=0.5)
    assert_close(found, torch.tensor([0.716890, 0.247014], dtype=torch.float64), atol=1e-6, rtol=0)
    assert_close(found, 0.5 * torch.log(1 + p * (math.exp(2) - 1)))
    extreme = log_mean_exp_of_chance(torch.tensor([-200.0, 200.0]), eta=0.01)
    assert_close(extreme, torch.tensor([0.0, 100.0]))  # no overflow of exp(100)


def test_guidance_by_hand():
    """Reference (1/2, 1/2): exp(Q / eta) is 4.194528 and 1.638906, so the guided policy is 4.194528 / 5.833434 = 0.7190."""
    rows = {"policy": torch.zeros(1, 2, dtype=torch.float64), "value": torch.logit(torch.tensor([[0.5, 0.1]], dtype=torch.float64))}
    guided = GuidedByQ(eta=0.5).logits(rows, []).softmax(-1)
    assert_close(guided, torch.tensor([[0.719049, 0.280951]], dtype=torch.float64), atol=1e-6, rtol=0)
    mean = GuidedByQ(eta=0.5, form="mean").logits(rows, [])  # E[z] / eta
    assert_close(mean, torch.tensor([[1.0, 0.2]], dtype=torch.float64))
    value = GuidedByQ(eta=0.5, form="value").logits({**rows, "value": torch.tensor([[3.0, -1.0]])}, [])
    assert value.tolist() == [[6.0, -2.0]]


def test_only_the_top_tokens_of_the_base_are_left():
    rows = {"policy": torch.tensor([[0.0, 1.0, 2.0]]), "value": torch.zeros(1, 3)}
    assert GuidedByQ(top=2).logits(rows, []).isinf().tolist() == [[True, False, False]]
    assert not GuidedByQ(top=3).logits(rows, []).isinf().any()


def test_the_mixture_by_hand():
    rows = {"a": torch.tensor([[0.0, 0.0]]), "b": torch.tensor([[math.log(3.0), 0.0]])}
    found = MixtureOfModels(Frozen(a=1.0, b=3.0)).logits(rows, []).exp()
    assert_close(found, torch.tensor([[0.25 * 0.5 + 0.75 * 0.75, 0.25 * 0.5 + 0.75 * 0.25]]))
    assert_close(MixtureOfModels(Frozen(a=2.0, b=0.0)).logits(rows, []), rows["a"].log_softmax(-1))
    for weights in ({}, {"a": 0.0}, {"a": -1.0}):
        with pytest.raises(UserError, match="the weights are"):
            MixtureOfModels(Frozen(weights))


def test_rounded_log_probabilities_by_hand():
    row = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64).log()  # -0.69, -1.20, -1.61
    assert Rounded(0.5).logits({"policy": row + 3.0}, []).tolist() == [[-0.5, -1.0, -1.5]]
    assert torch.allclose(Rounded(1e-9).logits({"policy": row}, []), row, rtol=0, atol=1e-8)


def test_banned_sequences_end_before_their_last_token():
    rule = Banned(sequences=((0,), (1, 2)))
    rows = {"policy": torch.zeros(3, 3)}
    so_far = [np.array([], np.int32), np.array([2, 1], np.int32), np.array([1, 0], np.int32)]
    assert rule.logits(rows, so_far).isinf().tolist() == [[True, False, False], [True, False, True], [True, False, False]]
    assert rows["policy"].isfinite().all()
    bound = Banned(words=("ab",)).bound(lambda text: [ord(c) for c in text])
    assert bound.sequences == ((97, 98), (32, 97, 98))
    with pytest.raises(UserError, match="Banned"):
        Banned()


def test_what_counts_as_a_rule():
    assert is_rule(Delta("big", "small"))
    assert not is_rule(None)
    assert not is_rule(Drawing())


def less(p, q, new=0, **fields):
    rows = {"policy": torch.tensor([p], dtype=torch.float64).log(), "equivalent": torch.tensor([q], dtype=torch.float64).log()}
    return Less(**{"temperature": 1.0, "eta": 1.0, **fields}).logits(rows, [np.zeros(new, np.int32)]).exp()[0].tolist()


def test_less_by_hand():
    """0.6 - 0.5 = 0.1, 0.3 and 0.1, divided by their sum 0.5."""
    assert less([0.6, 0.3, 0.1], [1.0, 0.0, 0.0], gamma=0.5) == pytest.approx([0.2, 0.6, 0.2])
    assert less([0.6, 0.3, 0.1], [1.0, 0.0, 0.0], gamma=0.0) == pytest.approx([0.6, 0.3, 0.1])
    assert less([0.6, 0.3, 0.1], [0.9, 0.1, 0.0], gamma=0.7) == pytest.approx([0.0, 0.23 / 0.33, 0.1 / 0.33])  # 0.6 - 0.63 becomes 0
    assert less([0.6, 0.4], [0.6, 0.4], gamma=1.0) == pytest.approx([0.6, 0.4])  # nothing is left
    assert less([0.6, 0.4], [1.0, 0.0], gamma=1.0, eta=0.5, new=2) == pytest.approx([0.35 / 0.75, 0.4 / 0.75])  # the share is 1/4 at the third token
    colder = less([0.5, 0.5], [0.8, 0.2], gamma=0.5, temperature=0.5)  # 0.64 and 0.04, divided by 0.68
    assert colder == pytest.approx([(0.5 - 0.32 / 0.68) / 0.5, (0.5 - 0.02 / 0.68) / 0.5])


def test_rules_of_several_sequences_are_the_single_rules():
    rows = {"big": torch.randn(3, 5), "small": torch.randn(3, 5)}
    rules = [MixtureOfModels(Frozen(big=w, small=1 - w)) for w in (0.0, 0.3, 1.0)]
    assert len({rule.alike for rule in rules}) == 1
    assert rules[0].alike != MixtureOfModels(Frozen(small=0.5, big=0.5)).alike
    found = rules[0].joined(rules).logits(rows, [])
    for i, rule in enumerate(rules):
        assert_close(found[i], rule.logits(rows, [])[i])
    assert Less(prompt=(1, 2)).alike == Less(prompt=(1, 5)).alike != Less().alike
    assert Less().prefixes(2) == {}
