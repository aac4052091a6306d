from __future__ import annotations

import random

import pytest

from gradus.tasks.text import texts
from gradus.tasks.text.texts import LEXICON, lines, words, written


def test_words_and_lines_by_hand() -> None:
    assert words('1. Sun, (moon)\n2. "Star!" - *ash*') == ["sun", "moon", "star", "ash"]
    assert words("3 owls 1. x") == ["3", "owls", "1", "x"]  # only a number that opens a line counts the lines
    assert words(" -- \n ") == []
    assert lines("a\n\n b \n") == ["a", " b "]
    assert written([["a", "b"], ["c"]]) == "a b\nc"


def test_the_words_are_plain_and_enough_for_most_letters() -> None:
    assert len(set(LEXICON)) == len(LEXICON) > 200
    assert all(word.isascii() and word.islower() and word.isalpha() for word in LEXICON)


@pytest.mark.parametrize("name", ["framed", "twice", "sentenced", "quoted"])
def test_shapes_keep_the_number_of_words(name: str) -> None:
    for seed in range(50):
        rng = random.Random(seed)
        made = [[rng.choice(LEXICON) for _ in range(rng.randint(2, 6))] for _ in range(rng.randint(1, 4))]
        shaped = getattr(texts, name)(rng, made)
        assert [len(line) for line in shaped] == [len(line) for line in made]
        assert len(words(written(shaped))) == sum(map(len, made))


def test_shapes_by_hand() -> None:
    rng = random.Random(0)
    assert texts.framed(rng, [["a", "b"], ["c", "d"]]) == [["a", "b"], ["c", "a"]]
    assert texts.quoted(rng, [["a", "b"], ["c", "d"]]) == [['"a', "b"], ["c", 'd"']]
    assert texts.ordered(len)(rng, [["ccc", "a"], ["bb"]]) == [["a", "bb"], ["ccc"]]
    assert texts.sentenced(rng, [["a"]]) == [["a."]]
    assert texts.each(str.upper)(rng, [["a", "b"]]) == [["A", "B"]]
