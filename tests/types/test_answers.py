"""Classes of equal answers. The form of a single final answer is tested with the verifier, in tests/tasks/data/test_final_answer.py."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.types.answers import answer_classes, answered, semantic_entropy


def test_equal_answers_are_one_class_however_they_are_reached():
    told = ["12+30=42", "#### 42.0", r"so \boxed{42}", "answer: 84/2", "42 apples", "Answer: Rome", "answer: rome."]
    assert answer_classes(told) == [0, 0, 0, 0, 1, 2, 2]


def test_completions_without_an_answer_are_each_a_class():
    assert answer_classes(["", "=", "1", "answer:"]) == [0, 1, 2, 3]
    assert answer_classes([]) == []


@given(st.lists(st.sampled_from(["1", "=1", "2/2", "2", "", "= ", "x", "X."]), max_size=9))
def test_classes_are_the_pairs_of_equal_answers(told):
    found = answer_classes(told)
    for i, a in enumerate(told):
        for j, b in enumerate(told):
            assert (found[i] == found[j]) == (i == j or (answered(a) is not None and answered(a) == answered(b)))
    assert sorted(set(found)) == list(range(len(set(found))))


def test_entropies_by_hand():
    # of 8: -ln .5 = .6931, -ln .25 = 1.3863; over three classes 3.4657 / 3, over eight answers .5 * .6931 + .5 * 1.3863
    assert semantic_entropy([4, 2, 2]) == pytest.approx(1.15525, abs=1e-5)
    assert semantic_entropy([4, 2, 2], form="shannon") == pytest.approx(1.03972, abs=1e-5)
    for form in ("clusters", "shannon"):
        assert semantic_entropy([8], form=form) == 0.0
        assert semantic_entropy([1] * 8, form=form) == pytest.approx(math.log(8))
    assert semantic_entropy([2, 2, 0, 0]) == semantic_entropy([2, 2, 0, 0], form="shannon") == pytest.approx(math.log(2))  # classes without an answer
    assert semantic_entropy([4, 0, 0, 0]) == semantic_entropy([], form="shannon") == 0
