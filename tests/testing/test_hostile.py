"""Hostile texts: known by their number, of every sort, and not too long to be tried by the thousand."""

from __future__ import annotations

import statistics

from gradus.testing.hostile import FIXED, changed, hostile_text

LIKE = ("347+285: 7+5=12 =632", "so \\boxed{\\frac{1}{2}}")


def test_a_text_is_a_function_of_seed_and_number():
    first = [hostile_text(i, LIKE, 1) for i in range(300)]
    assert first == [hostile_text(i, LIKE, 1) for i in reversed(range(300))][::-1]
    others = [hostile_text(i, LIKE, 2) for i in range(300)]
    assert first[: len(FIXED)] == others[: len(FIXED)] == list(FIXED.values())
    assert sum(a == b for a, b in zip(first[len(FIXED) :], others[len(FIXED) :], strict=True)) < 30


def test_texts_are_of_every_sort():
    texts = [hostile_text(i, LIKE) for i in range(len(FIXED), 3000)]
    for sign in (
        "\x00",
        "\ud800",
        "\u202e",
        "١",
        "\\boxed{",
        "__import__",
        "{0.__class__}",
        "9**9**9",
        "####",
        "answer:",
        "((((",
        "{{{{",
        "    ",
    ):
        assert any(sign in text for text in texts) or any(sign in text for text in FIXED.values()), sign
    assert any(0xD800 <= ord(c) < 0xE000 for text in texts for c in text)
    assert sum("632" in text or "frac{1}{2}" in text for text in texts) > 300  # changed right answers
    assert max(map(len, texts)) > 20_000
    assert len(set(texts)) > 0.75 * len(texts)


def test_most_texts_are_short():
    lengths = [len(hostile_text(i, LIKE)) for i in range(len(FIXED), 3000)]
    assert statistics.median(lengths) < 200
    assert statistics.mean(lengths) < 5000
    assert max(lengths) <= 410_000


def test_without_right_answers_there_are_texts_too():
    assert len({hostile_text(i) for i in range(200)}) > 150


def test_changes_keep_something_of_the_answer():
    import random

    rng = random.Random(0)
    made = [changed(rng, LIKE) for _ in range(200)]
    assert sum(any(text[i : i + 3] in m for text in LIKE for i in range(len(text) - 3)) for m in made) > 150
