"""The task physics: the contract, and that every problem follows from its sentence."""

from __future__ import annotations

import re

import pytest

from gradus.tasks.maths.physics import CHAINS, PRODUCTS, QUOTIENTS, Exact, physics, worked
from gradus.types import Frozen, Key, Problem
from tests.tasks.contract import check_contract, check_read_back

FORCE = Problem("p", "physics", text="", answer="12 N", meta=Frozen(law="F=m*a", put="3*4", unit="N"))


def test_the_contract() -> None:
    check_contract(physics())
    check_read_back(physics())


def test_a_law_by_hand() -> None:
    assert worked(QUOTIENTS[0], 72, 9) == ("v=s/t 72/9=8 m/s", 8)
    assert worked(PRODUCTS[3], 3, 6) == ("U=R*I 3*6=18 V", 18)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_the_answer_follows_from_the_numbers_of_the_sentence(level: int) -> None:
    for p in physics().source.draw(range(80), level, Key(0)):
        numbers = [int(n) for n in re.findall(r"\b\d+", p.question.replace("m/s2", ""))]
        assert len(numbers) == 2 + (level == 4)
        value, *others = numbers
        for n in others:
            value = value // n if "/" in p.meta["law"] else value * n
        assert p.answer == f"{value} {p.meta['unit']}"
        law, put = p.meta["law"], p.meta["put"]
        assert p.meta["solution"].endswith(f"{law} {put}={p.answer}")
        assert p.question.endswith(f"; {law.partition('=')[0]}?")


def test_the_levels() -> None:
    def laws(level: int) -> set[str]:
        return {p.meta["law"] for p in physics().source.draw(range(200), level, Key(1))}

    products, quotients = {law.text for law in PRODUCTS}, {law.text for law in QUOTIENTS}
    assert laws(1) == products
    assert laws(2) == laws(3) == products | quotients
    assert laws(4) == {second.text for _, second in CHAINS}
    assert max(int(p.answer.split()[0]) for p in physics().source.draw(range(100), 3, Key(0))) > 81


@pytest.mark.parametrize(
    ("said", "quality"),
    [
        ("F=m*a 3*4=12 N", 1.0),
        ("F=m*a 3*4=13 N", 0.75),
        ("F=m*a 3*4=12 J", 0.75),
        ("F=m*a 3*5=15 N", 0.5),
        ("U=R*I 3*4=12 N", 0.75),
        ("12 N", 0.0),  # nothing after a "="
        ("F=m*a 3*4 N", 0.5),  # law and numbers; no result
        ("", 0.0),
    ],
)
def test_the_quality_by_hand(said: str, quality: float) -> None:
    assert Exact().truth(FORCE, said) == quality
