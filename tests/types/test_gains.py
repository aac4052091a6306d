"""Discounted cumulative gains by hand."""

from __future__ import annotations

import math

import pytest

from gradus.types.gains import dcg, ndcg


def test_dcg_and_ndcg_by_hand() -> None:
    assert dcg([2, 0, 1]) == pytest.approx(2 + 1 / 2)
    assert ndcg([2, 0, 1]) == pytest.approx(2.5 / (2 + 1 / math.log2(3)))
    assert ndcg([2, 0, 1]) == pytest.approx(0.9502, abs=5e-5)
    assert ndcg([2, 1, 0]) == 1.0
    assert (ndcg([0, 0]), ndcg([0, 0], empty=0.0), ndcg([], empty=0.0)) == (1.0, 0.0, 0.0)
