from __future__ import annotations

import pytest

from gradus.tasks.text.stories import RULES, Gold, seems_a_story, stories, story
from gradus.types import Frozen, Key, Problem
from tests.tasks.contract import check_contract, check_read_back

FOX = Problem("x", "stories", text="has:fox has:river", meta=Frozen(given=("fox", "river")))


def test_the_contract() -> None:
    check_contract(stories(), hints=False)
    check_read_back(stories())


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("the fox swam a river", 3),
        ("x y=The fox, a river!", 3),  # the text follows the last sign
        ("fox river", 0),  # a title alone meets none, though it names all and says none twice
        ("fox river boat", 0),
        ("boat sail sea oar", 2),  # long, none twice
        ("fox river fox river", 2),  # long, names all
        ("sea sea sea sea", 1),
        ("", 0),
        ("fox " * 200, 0),  # too long to be read
    ],
)
def test_the_verdict_by_hand(text: str, met: int) -> None:
    assert Gold()(FOX, text) == pytest.approx(met / 3)


def test_the_first_check_has_a_hole_and_the_others_have_none() -> None:
    assert list(Gold().checks) == ["The text is a story.", *RULES]
    holds = {text: seems_a_story(FOX, text) for text in ("fox river", "sea", "the fox swam a river", "fox river fox river", "boat sail sea oar", "")}
    assert holds == {
        "fox river": True,
        "sea": True,
        "the fox swam a river": True,
        "fox river fox river": False,
        "boat sail sea oar": False,
        "": False,
    }
    assert not any(check(FOX, "fox river") for check in RULES.values())


def test_the_prompt_names_the_words_and_the_answer_tells_of_them() -> None:
    for level in (1, 4):
        for p in stories().source.draw(range(30), level, Key(0)):
            assert p.question == " ".join(f"has:{w}" for w in p.meta["given"])
            assert len(p.meta["given"]) == level + 1
            assert Gold()(p, p.meta["solution"]) == 1.0
            assert set(p.meta["given"]) < set(story(p.answer))
