from __future__ import annotations

import re

import pytest

from gradus.tasks.puzzles.keychain import keychain
from gradus.types import Key, UserError
from tests.tasks.contract import check_contract


def walked(question: str) -> str:
    """The answer, by an independent reading of the prompt."""
    text, _, asked = question.rpartition(";")
    links = dict(re.findall(r"(\w+)>(\w+)", text))
    key, hops = asked.split()
    for _ in range(int(hops)):
        key = links[key]
    return key


def test_contract() -> None:
    check_contract(keychain(), draws=20)


def test_the_answer_is_where_the_walk_ends() -> None:
    for level, count in ((1, 200), (2, 200), (3, 100), (5, 20), (8, 2)):
        task = keychain(level)
        for p in task.source.draw(range(count), None, Key(0)):
            assert p.answer == walked(p.question)
            keys = re.findall(r"(\w+)>", p.question)
            assert len(keys) == len(set(keys)) == p.meta["pairs"]
            others = set(re.findall(r">(\w+)", p.question)) - {p.answer}
            assert all(task.verify(p, f"={v}") == 0.0 for v in others)
            assert len(p.meta["solution"]) <= task.sampling.max_tokens


def test_length_and_hops_are_those_asked_for() -> None:
    (p,) = keychain(4, hops=30, length=5000).source.draw([0], None, Key(0))
    assert (p.meta["hops"], p.meta["pairs"]) == (30, 31)
    assert p.answer == walked(p.question)
    assert 4500 < len(p.question) - 31 * 6 < 5500  # 31 links of two letters, ">", two letters and a space
    lengths = [len(keychain(level).source.draw([0], None, Key(0))[0].question) for level in range(1, 9)]
    assert lengths == sorted(lengths)
    assert lengths[-1] > 120_000
    assert keychain(2, hops=30).sampling.max_tokens >= len(keychain(2, hops=30).source.draw([0], None, Key(0))[0].meta["solution"])


def test_the_last_key_is_the_answer_as_often_as_chance_says() -> None:
    # level 2: 7 pairs and 2 hops, so the walk ends at one of 8 - 2 = 6 keys; one of them leads nowhere
    task = keychain()
    assert task.chance == 1 / 6
    problems = task.held_out.draw(range(512), None, Key(0))
    last = sum(f" {p.answer}>" not in f" {p.question}" for p in problems) / 512
    assert abs(last - 1 / 6) < 0.06  # standard error sqrt(1/6 * 5/6 / 512) = 0.016


def test_places_in_the_text_do_not_tell() -> None:
    problems = keychain(4).source.draw(range(300), None, Key(0))
    at = [p.question.index(f">{p.answer}") / len(p.question) for p in problems]
    assert 0.4 < sum(at) / 300 < 0.6  # uniform places: mean 0.5, standard error 0.29 / sqrt(300) = 0.017


def test_options_out_of_range_are_named() -> None:
    with pytest.raises(UserError, match="`hops` is 101; give 1 to 100"):
        keychain(hops=101)
    with pytest.raises(UserError, match="`length` is -1; give at most 4000000"):
        keychain(length=-1)
