from __future__ import annotations

import math

import pytest
import torch

from gradus.objectives.corrections import MaskedImportance, corrected, masked_importance
from gradus.objectives.ratios import Probability, SequenceRatio, TokenRatio
from gradus.objectives.terms import EntropyBonus, PolicyGradient, TruncatedImportance
from gradus.recipe.compatibility import check_correction
from gradus.recipe.registry import recipe
from gradus.types import UserError


def test_the_band_of_icepop_is_closed() -> None:
    old = torch.tensor([0.3, 0.5, 1.2, 5.0, 7.0], dtype=torch.float64).log()
    found = masked_importance(old, torch.zeros(5, dtype=torch.float64), floor=0.5, cap=5.0)
    assert found.tolist() == pytest.approx([0, 0.5, 1.2, 5.0, 0])
    assert found[[0, 4]].tolist() == [0, 0]
    assert not found.requires_grad


def test_masked_importance_by_hand() -> None:
    old = torch.log(torch.tensor([0.4, 0.4, 0.4, 0.4, 0.4]))
    behaviour = torch.log(torch.tensor([0.4, 0.25, 0.1, 0.8, 0.9]))
    # r = 1, 1.6, 4, 0.5, 0.44; within [1/2, 2]: all but the third and the last
    found = masked_importance(old, behaviour, floor=0.5 - 1e-6, cap=2.0 + 1e-6)
    assert torch.allclose(found, torch.tensor([1.0, 1.6, 0.0, 0.5, 0.0]))
    assert masked_importance(old, torch.full((5,), math.nan), floor=0.5, cap=2.0).tolist() == [0.0] * 5  # not known: not learned from


def test_only_what_compares_with_the_start_of_the_update_is_weighted() -> None:
    weight = MaskedImportance()
    terms = {
        "token": PolicyGradient(),
        "sequence": PolicyGradient(ratio=SequenceRatio()),
        "behaviour": PolicyGradient(ratio=TokenRatio(against="behaviour")),
        "probability": PolicyGradient(ratio=Probability()),
        "own": PolicyGradient(weight=TruncatedImportance(3.0)),
        "given": PolicyGradient(source="expert"),
        "entropy": EntropyBonus(),
    }
    found = corrected(terms, weight)
    assert {n for n in terms if found[n] != terms[n]} == {"token", "sequence"}
    assert found["token"].weight == found["sequence"].weight == weight
    assert list(found) == list(terms)


def test_a_recipe_that_cannot_be_corrected_says_so() -> None:
    check_correction(recipe("grpo").but(setting__agreement__above="truncate"))
    with pytest.raises(UserError, match=r"agreement.above is mask, which corrects policy-gradient terms, but the objective of recipe dpo has no such term"):
        check_correction(recipe("dpo").but(setting__agreement__above="mask"))
    check_correction(recipe("dpo").but(setting__agreement__above="stop"))
