"""Differences of texts and answers, by hand."""

import pytest

from gradus.rewards.diversity import between, box, disagreement, distinct_share, novelty, overlap

SQUARE, HALF, FAR = "[0, 0, 2, 2]", "so [1, 0, 3, 2]", "[5, 5, 6, 6]"


def test_the_text_between_marks():
    assert between("x <desc> a  red\nring </desc> y", "<desc>", "</desc>") == "a red ring"
    assert between("<desc>a</desc><desc>b</desc>", "<desc>", "</desc>") == "b"  # the last one
    assert between("<desc> a", "<desc>", "</desc>") == between("a </desc>", "<desc>", "</desc>") == ""


def test_novelty_by_hand():
    # {a b c} and {a b d}: 2 of 4 words; {e} overlaps with none; no description is not novel
    assert novelty(["a b c", "a b d", "e", ""]) == [0.5, 0.5, 1.0, 0.0]
    assert novelty(["a b", "b a a"]) == [0.0, 0.0]
    assert novelty(["a"]) == [1.0]
    assert novelty([]) == []


def test_overlap_by_hand():
    assert overlap(SQUARE, SQUARE) == 1.0
    assert overlap(SQUARE, HALF) == pytest.approx(2 / 6)
    assert overlap(SQUARE, FAR) == 0.0
    assert overlap("[1, 1, 1, 1]", "[1, 1, 1, 1]") == 1.0  # without an area
    assert overlap("a = row 1", "b = row 1") == 1.0
    assert overlap("= row 1", "= row 2") == 0.0
    assert overlap(SQUARE, "row 1") == 0.0


def test_a_box_is_the_last_one():
    assert box("[0, 0, 1, 1] or [1, 2.5, -3, 4]") == (1.0, 2.5, -3.0, 4.0)
    assert box("[1, 2, 3]") is None


def test_disagreement_by_hand():
    assert disagreement([SQUARE] * 3) == 0.0  # overlaps 1, 1, 1
    assert disagreement([SQUARE, FAR, "[8, 8, 9, 9]"]) == 1.0
    assert disagreement([SQUARE, SQUARE, FAR]) == pytest.approx(2 / 3)
    assert disagreement([SQUARE]) == 0.0


def test_distinct_sequences_of_three_by_hand():
    assert distinct_share([[1, 2, 3, 4], [1, 2, 3, 4]]) == 0.5  # abc bcd abc bcd
    assert distinct_share([[1, 2, 3, 4], [5, 6, 7]]) == 1.0
    assert distinct_share([[1, 1, 1, 1, 1]]) == pytest.approx(1 / 3)
    assert distinct_share([[1, 2], [3]]) == distinct_share([]) == 0.0
    assert distinct_share([[1, 1, 2]], n=1) == pytest.approx(2 / 3)
