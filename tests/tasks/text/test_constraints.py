from __future__ import annotations

import random

import pytest

from gradus.tasks.text.constraints import CONSTRAINTS, TELLING, holds
from gradus.tasks.text.texts import LEXICON, lines, words

BY_HAND = {  # kind -> value, texts that meet it, texts that do not
    "start": ("t", ["tea Tent", "t"], ["tea oak"]),
    "length": (3, ["sun oak", "(sun) oak."], ["sun moon", "su"]),
    "times": ("sun,2", ["sun oak Sun", "sun, sun"], ["sun", "sun sun sun", "sunsun sun"]),
    "sorted": ("", ["ash oak sun", "ash ash"], ["oak ash"]),
    "rising": ("", ["a bb bb ccc"], ["ccc a"]),
    "frame": ("", ["sun oak sun", "Sun. oak sun!"], ["sun oak"]),
    "upper": ("", ["SUN OAK", "A1"], ["SUN oak", "12"]),
    "lower": ("", ["sun oak"], ["Sun", "12"]),
    "title": ("", ["Sun Oak", '"Sun" (Oak)'], ["Sun oak", "SUN Oak"]),
    "number": ("37", ["sun 37", "37."], ["sun 337", "3 7"]),
    "numbers": (2, ["3 sun 44", "1. 3 sun\n2. oak 5"], ["3 sun", "sun a3 4"]),
    "tags": (1, ["#sun oak"], ["sun oak", "#sun #oak", "# sun"]),
    "slots": (1, ["[sun] oak"], ["sun", "[sun] [oak]", "[]"]),
    "stars": (1, ["*sun* oak"], ["*sun oak", "*sun* *oak*"]),
    "asides": (1, ["(sun) oak"], ["sun)", "(sun) (oak)"]),
    "commas": (2, ["sun, oak, ash"], ["sun, oak", "a,b,c,d"]),
    "sentences": (2, ["Sun. Oak!", '"Sun. Oak."', "1. sun.\n2. oak?"], ["Sun. Oak", "Sun.", "3.5 a"]),
    "ends": ("?", ["sun?"], ["sun", "sun? oak"]),
    "quoted": ("", ['"sun oak"'], ["sun", '"sun', '"sun" "oak"']),
    "bullets": (2, ["- sun\n- oak"], ["- sun", "- sun\noak\n- ash", "- sun\n- oak\n- ash", "-sun\n-oak"]),
    "steps": (2, ["1. sun\n2. oak"], ["1. sun\n3. oak", "1. sun", "sun\noak", "1) sun\n2) oak"]),
    "lines": (2, ["sun\noak", "sun\n\noak"], ["sun oak", "a\nb\nc"]),
    "down": ("so", ["sun ash\noak", "- Sun\n- oak"], ["oak\nsun", "sun", "sun\noak\nash"]),
    "words": (3, ["sun oak ash", "1. sun oak\n2. ash"], ["sun oak", "a b c d"]),
    "over": (2, ["a b c"], ["a b"]),
    "under": (3, ["a b"], ["a b c"]),
    "short": (8, ["sun oak"], ["sun oaks"]),  # seven characters, and eight
    "first": ("sun", ["Sun oak", '"sun"'], ["oak sun", "suns"]),
    "last": ("sun", ["oak Sun."], ["sun oak"]),
    "nth": ("2,sun", ["oak sun ash"], ["sun oak", "oak", "oak ash sun"]),
    "has": ("sun", ["oak sun", "SUN"], ["oak", "suns sunny"]),
    "lacks": ("sun", ["oak", "suns"], ["oak sun"]),
    "order": ("sun,oak", ["sun ash oak"], ["oak sun", "sun", "oak", "oak sun oak"]),
    "no": ("e", ["sun oak"], ["tree", "EAR"]),
    "letter": ("e,2", ["tree", "Ear egg"], ["ear", "tree ear"]),
    "initials": ("so", ["sun oak"], ["oak sun", "sun", "sun oak ash"]),
    "finals": ("nk", ["sun oak"], ["oak sun", "sun"]),
    "most": (4, ["sun moon"], ["moons"]),
    "least": (3, ["sun moon"], ["at sun"]),
    "unique": ("", ["sun oak"], ["sun Sun"]),
    "vowels": (1, ["oak sun"], ["sun", "oak ash"]),
}


def test_every_kind_is_under_test() -> None:
    assert set(BY_HAND) == set(CONSTRAINTS)
    assert len(CONSTRAINTS) >= 25
    assert set(TELLING) <= set(CONSTRAINTS)


@pytest.mark.parametrize("kind", list(BY_HAND))
def test_what_meets_a_constraint(kind: str) -> None:
    value, right, wrong = BY_HAND[kind]
    assert [text for text in right if not holds(kind, value, text)] == []
    assert [text for text in wrong if holds(kind, value, text)] == []
    assert not any(holds(kind, value, text) for text in ("", " ", "...", "\n- \n", "(" * 4000))  # without a word, nothing is met
    assert all(holds(kind, value, text) in (True, False) for text in ("１２", "\ud800" * 9, "İ ß ﬁ", "a" * 4000, "1. " * 900))


@pytest.mark.parametrize("kind", list(BY_HAND))
def test_the_value_that_a_text_gives_is_met_by_it_and_not_by_others(kind: str) -> None:
    constraint, found = CONSTRAINTS[kind], []
    for seed in range(200):
        rng = random.Random(seed)
        made = [[rng.choice(LEXICON) for _ in range(rng.randint(2, 3))] for _ in range(rng.randint(1, 3) + constraint.lines)]
        made = constraint.shape(rng, made) if constraint.shape else made
        text = "\n".join(" ".join(line) for line in made)
        value = constraint.value(rng, text)
        if value is not None:
            found.append((value, text))
            assert holds(kind, value, text), (value, text)
            assert constraint.code.format(value).isascii()
            assert constraint.sentence.format(*str(value).split(",")).isascii()
    assert len(found) >= 20
    others = ("sun", "Ash oak, 7 #owl\n*sea* (egg) [oak] sea sea", 'TEA! "OWL"?', "1. eeeeeeeee\n2. ooooooooooooooo", "- zero zero\n- of")
    assert any(not holds(kind, value, other) for value, _ in found for other in others)


def test_codes_are_short_and_tell_the_kinds_apart() -> None:
    codes = [constraint.code.format("") for constraint in CONSTRAINTS.values()]
    assert len(set(codes)) == len(codes)
    assert len({constraint.sentence for constraint in CONSTRAINTS.values()}) == len(codes)
    assert max(map(len, codes)) <= 10
    assert len(words("a b")) == len(lines("a\nb")) == 2
