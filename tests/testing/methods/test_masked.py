"""The toy masked model writes letters and keeps the interface."""

from __future__ import annotations

from gradus.testing.methods import masked_ask, toy_masked
from gradus.types.policy import Policy


def test_it_is_a_policy_and_its_answers_depend_on_the_key_alone():
    model = toy_masked()
    assert isinstance(model, Policy)
    some = model.act([masked_ask("p", i) for i in range(3)])
    again = toy_masked().act([masked_ask("p", 2)])
    assert some[2].tokens.tolist() == again[0].tokens.tolist()
    assert model.text(model.told("bcd").tokens) == "bcd"
    assert model.text([1, 2, 0, 3]) == "bc"  # what stands after the end is not said


def test_micro_counts_contexts():
    model = toy_masked()
    contexts = model.act([masked_ask("p", i) for i in range(5)])
    model.micro = 2
    assert model.micro_batches(contexts, 1000) == [[0, 1], [2, 3], [4]]
