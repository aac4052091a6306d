"""Claims: each wrong combination is refused when the claim is made, and the stored form is the claim."""

from __future__ import annotations

from typing import Any

import pytest

from gradus.recipe.claim import Claim, reached, same_weights
from gradus.types import Frozen, UserError

TERMS: dict[str, Any] = {"says": "It learns faster.", "source": "ours", "against": "grpo", "task": "arithmetic"}


def test_a_claim_is_frozen_and_its_mappings_too():
    fields = {"group": "4"}
    claim = Claim(**TERMS, better_by=0.1, fields=fields)
    fields["group"] = "8"
    assert claim.fields == Frozen(group="4")
    assert isinstance(claim.options, Frozen)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"says": " "}, r"Claim\.says is empty; write the sentence"),
        ({"source": ""}, r"Claim\.source is empty; write the paper and the place in it"),
        ({"better_by": None}, r"has no bound; give exactly one of better_by"),
        ({"at_most": 2.0}, r"has better_by and at_most; give exactly one"),
        ({"better_by": float("nan")}, r"Claim\.better_by is nan"),
        ({"better_by": None, "at_most": 0.0}, r"Claim\.at_most is 0\.0; it must be above 0"),
        ({"better_by": None, "within": -1.0}, r"Claim\.within is -1\.0"),
        ({"better_by": None, "within": 0.0, "against": None}, r"has the bound `within`, which compares with another arm; name this arm"),
        ({"better_by": None, "at_least": 2.0, "against": None}, r"has the bound `at_least`, which compares with another arm"),
        ({"better_by": None, "within": 0.0, "measure": "accuracy"}, r"which compares weights, so the measure accuracy has no effect"),
        ({"seeds": 1}, r"has only one seed, which gives no interval; set `seeds` to 2"),
        ({"seeds": 0}, r"Claim\.seeds is 0"),
        ({"ground": "stale"}, r"names the ground stale and also a task"),
        ({"fields": {"group": 4}}, r"has group=4 in fields; write the value as text"),
        ({"fields": {"group": "4"}, "own": {"group": "8"}}, r"sets group both in `fields` and in `own`; set group in only"),
        ({"against": " "}, r"has an empty `against`; name an arm"),
    ],
)
def test_refused(changes, said):
    with pytest.raises(UserError, match=said):
        Claim(**{**TERMS, "better_by": 0.1, **changes})


def test_the_stored_form_is_the_claim():
    claim = Claim(**TERMS, better_by=0.0, own={"credit.scale": "none"}, seeds=4)
    assert claim.stored() == {**TERMS, "better_by": 0.0, "own": {"credit.scale": "none"}, "seeds": 4}
    assert Claim.read(claim.stored()) == claim
    assert Claim.read(claim.stored()).digest == claim.digest
    with pytest.raises(UserError, match='unknown field "better"'):
        Claim.read({**claim.stored(), "better": 1})


@pytest.mark.parametrize("changes", [{"says": "It learns."}, {"better_by": 0.2}, {"seeds": 4}, {"options": {"level": "2"}}])
def test_the_hash_holds_sentence_and_terms(changes):
    assert Claim(**{**TERMS, "better_by": 0.1, **changes}).digest != Claim(**TERMS, better_by=0.1).digest


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        ({"better_by": 0.02}, "at least +0.02"),
        ({"better_by": -4.0}, "at most -4"),
        ({"at_most": 0.5}, "at most x 0.5"),
        ({"at_least": 2.0}, "at least x 2"),
        ({"within": 0.0}, "weights within 0"),
    ],
)
def test_the_bound_as_text(bound, text):
    assert reached(Claim(**TERMS, **bound)) == text


def test_a_claim_of_equal_weights_has_small_usual_terms():
    usual = same_weights("Equal.", "section 1", "grpo", own={"credit.alpha": "0"})
    fields = {"prompts": "4", "group": "4", "study": "none"}
    due = Claim("Equal.", "section 1", "grpo", within=0.0, task="arithmetic", fields=fields, own={"credit.alpha": "0"}, budget="steps=3", seeds=1)
    assert usual == due
    other = same_weights("Equal.", "section 1", "grpo", within=1e-5, fields={"prompts": "8"})
    assert (other.within, dict(other.fields), other.budget) == (1e-5, {"prompts": "8"}, "steps=3")
