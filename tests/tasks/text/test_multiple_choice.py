from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from gradus.tasks.text.multiple_choice import KINDS, OPTIONS, multiple_choice, near
from gradus.types import Key, UserError
from tests.tasks.contract import check_contract


def result(term: str) -> int:
    a, sign, b = re.fullmatch(r"(\d+)([-+*])(\d+)", term).groups()
    return {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[sign]


def answer(kind: str, stem: str, options: dict[str, str]) -> str:
    """The text of the right option, by an independent reading of the stem."""
    if kind == "arithmetic":
        return str(result(stem))
    if kind == "largest":
        return max(options.values(), key=result)
    if kind == "count":
        letter, word = stem.split(" in ")
        return str(len(word) - len(word.replace(letter, "")))
    if kind == "rule":
        x, factor, plus, times = map(int, re.fullmatch(r"(\d+) \*(\d+)([-+]\d+) (\d+)x", stem).groups())
        for _ in range(times):
            x = factor * x + plus
        return str(x)
    told, _, asked = stem.partition(";")
    if kind == "order":
        above = dict(reversed(fact.split("<")) for fact in told.split())
        first = next(name for name in above.values() if name not in above)
        after = {a: b for b, a in above.items()}
        for _ in range(int(asked) - 1):
            first = after[first]
        return first
    links = [fact.split(":") for fact in told.split()]
    walked = {asked}
    while grown := {x for pair in links for x in pair if walked & set(pair)} - walked:
        walked |= grown
    return next(text for text in options.values() if text in walked and text != asked)


def test_contract() -> None:
    check_contract(multiple_choice(), draws=100)


@pytest.mark.parametrize("kind", list(KINDS))
def test_one_option_is_right_and_it_is_the_letter(kind: str) -> None:
    task = multiple_choice(kinds=kind)
    for level in range(1, 7):
        for p in task.source.draw(range(80 if level < 4 else 20), level, Key(0)):
            stem, _, shown = p.question.partition("? ")
            options = dict(zip(OPTIONS, (text[1:] for text in shown.split()), strict=True))
            assert shown == " ".join(letter + text for letter, text in options.items())
            assert len(set(options.values())) == 5
            assert options[p.answer] == answer(kind, stem, options), p
            assert p.meta["category"] == kind
            assert [letter for letter in OPTIONS if task.verify(p, f"={letter}") == 1.0] == [p.answer]
            assert task.verify(p, f"={p.answer.lower()}") == task.verify(p, f"={p.answer})") == task.verify(p, p.answer) == 0.0


def test_places_are_balanced() -> None:
    found = Counter(p.answer for p in multiple_choice().source.draw(range(1000), None, Key(0)))
    assert set(found) == set(OPTIONS)
    assert all(abs(count - 200) < 60 for count in found.values())  # standard deviation sqrt(1000 * 0.2 * 0.8) = 12.6


def test_the_right_number_is_not_known_by_its_rank() -> None:
    ranks = Counter(sum(int(x) < 500 for x in near(random.Random(seed), 500, 100)) for seed in range(1000))
    assert set(ranks) == {0, 1, 2, 3, 4}
    assert all(abs(count - 200) < 60 for count in ranks.values())
    for right in (0, 1, 2, 5):
        wrong = near(random.Random(right), right, 10)
        assert len(set(wrong)) == 4
        assert str(right) not in wrong
        assert all(int(x) >= 0 for x in wrong)


def test_a_kind_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match=r'unknown kind of multiple_choice "fact" \(did you mean facts'):
        multiple_choice(kinds="fact")
