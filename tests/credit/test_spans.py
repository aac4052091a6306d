"""The numbers of marked regions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradus.credit.spans import spans_of, sums_to_go
from gradus.testing.methods import toy_group, toy_trajectory
from gradus.types import Frozen, UserError, prompt_context


def test_all_contexts_in_order():
    made = toy_trajectory([2, 3])
    first = replace(made.contexts[0], streams=Frozen(span=np.array([0, -1], np.int32)))
    assert spans_of(made.but(contexts=(first, prompt_context([1]), first))).tolist() == [0, -1, 0, -1]
    assert spans_of(made.but(contexts=(prompt_context([1]),))).tolist() == []


def test_answers_without_spans_are_refused():
    with pytest.raises(UserError, match="set --rollout WithSpans"):
        spans_of(toy_group(1).trajectories[0])


def test_every_action_gets_the_values_of_the_spans_that_end_at_it_or_later():
    values = np.array([1.0, 10.0, 100.0])
    assert sums_to_go(values, np.array([0, 0, 1, 2, 2])).tolist() == [111, 111, 110, 100, 100]
    assert sums_to_go(values, np.array([-1, 0, -1, 1, 2, -1])).tolist() == [111, 111, 110, 110, 100, 0]  # 0 after the end of the last span
    assert sums_to_go(np.zeros(0), np.array([-1, -1])).tolist() == [0, 0]
