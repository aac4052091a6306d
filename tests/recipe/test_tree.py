"""Values and parts as text: words that a user can type, one line per field, no repr."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gradus.recipe.core import Setting
from gradus.recipe.registry import recipe
from gradus.recipe.tree import Node, brief, lines, node, plain
from gradus.types import Frozen


@dataclass(frozen=True)
class Leaf:
    size: int = 3
    name: str = "a"


@dataclass(frozen=True)
class Branch:
    first: Leaf = Leaf()
    more: Any = ()
    rate: float = 0.5
    tag: str | None = None


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (0.28, "0.28"),
        ("two words", "two words"),
        ((0.9, 0.999), "0.9, 0.999"),
        (frozenset({"b", "a"}), "a, b"),
        ((), "none"),
        (Frozen({}), "none"),
        (Leaf, "Leaf"),
        (plain, "plain"),
        (Odd(), "Odd"),
    ],
)
def test_plain_values(value: Any, text: str) -> None:
    assert plain(value) == text


def test_a_tree_by_hand() -> None:
    branch = Branch(first=Leaf(size=4), more=(Leaf(), Leaf(name="b")), tag="x")
    assert lines([node("top", branch)], column=10) == [
        "top        Branch",
        "  first    Leaf",
        "    size   4",
        "    name   a",
        "  more",
        "    0      Leaf",
        "      size 3",
        "      name a",
        "    1      Leaf",
        "      size 3",
        "      name b",
        "  rate     0.5",
        "  tag      x",
    ]


def test_a_short_tree_keeps_numbers_and_changes() -> None:
    assert node("top", Branch(tag="x"), short=True) == Node("top", "Branch", (Node("rate", "0.5"), Node("tag", "x")))
    assert node("top", {"one": Leaf()}, short=True) == Node("top", "", (Node("one", "Leaf", (Node("size", "3"),)),))


def test_parts_in_brief() -> None:
    assert brief(recipe("grpo").objective["policy"].trust) == "Clip (low 0.2, high 0.2)"
    assert brief(Setting(steps=3)).startswith("Setting (warmup 5, steps 3,")
    assert brief(Branch(first=Leaf(4))) == "Branch (first Leaf (size 4), rate 0.5)"
    assert brief({"one": Leaf(), "two": None}) == "one Leaf (size 3), two none"
    assert brief("a") == "a"
