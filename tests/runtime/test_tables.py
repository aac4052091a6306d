"""Tables that fit the terminal."""

from __future__ import annotations

import pytest

from gradus.runtime.tables import table

PROSE = "a sentence of ten words that is longer than forty characters"


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")


def test_a_table_that_fits() -> None:
    assert table([("a", "1.5", "x"), ("bb", "-12", "y z")], ("name", "number", "word")).splitlines() == [
        "name  number  word",
        "a        1.5  x",
        "bb       -12  y z",
    ]
    assert table([], ("name", "what")) == "name  what"


def test_prose_is_wrapped_next_to_the_other_columns() -> None:
    assert table([("a", PROSE)], ("name", "what")).splitlines() == [
        "name  what",
        "a     a sentence of ten words that is longer than forty",
        "      characters",
    ]


def test_prose_stands_below_its_row_if_little_room_is_left() -> None:
    assert table([("a" * 20, "1", PROSE), ("b", "2", "")], ("name", "n", "what")).splitlines() == [
        "name                  n",
        "    what",
        "aaaaaaaaaaaaaaaaaaaa  1",
        "    a sentence of ten words that is longer than forty",
        "    characters",
        "b                     2",
    ]


def test_after_a_name_that_is_too_long_the_row_goes_on_below() -> None:
    rows = [("a", "x", PROSE), ("n" * 20, "x", "y"), ("b", "w" * 19, "y"), *((f"n{i}", "word", "y") for i in range(6))]
    lines = table(rows, ("name", "base", "what")).splitlines()
    assert lines[:8] == [
        "name          base  what",
        "a             x     a sentence of ten words that is longer",
        "                    than forty characters",
        "n" * 20,
        "              x     y",
        f"b             {'w' * 19}",
        "                    y",
        "n0            word  y",
    ]
    assert "    y" in table(rows[:4], ("name", "base", "what")).splitlines()  # half of the names: the prose stands below its row


def test_columns_of_words_are_wrapped_and_numbers_are_not() -> None:
    rows = [("a", "one two three four five six seven", "1.234 [0.123, 2.345]"), ("b", "x", "0")]
    assert table(rows, ("name", "words", "number")).splitlines() == [
        "name  words                                           number",
        "a     one two three four five six       1.234 [0.123, 2.345]",
        "      seven",
        "b     x                                                    0",
    ]


def test_a_table_of_many_numbers_is_cut_and_keeps_its_first_column() -> None:
    head = ["name", *(f"number{i}" for i in range(9))]
    cut = table([("a", *(f"{i}" for i in range(9)))], head).split("\n\n")
    assert [part.splitlines()[0].split() for part in cut] == [["name", *head[1:7]], ["name", *head[7:]]]
    assert [part.splitlines()[1].split() for part in cut] == [["a", *"012345"], ["a", *"678"]]


def test_colours_change_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, head = [("a", "seen", PROSE), ("bb", "wrong", "x")], ("name", "verdict", "what")
    plain = table(rows, head)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    found = table(rows, head, {1: lambda cell: "good" if cell == "seen" else "bad"})
    assert "\x1b[32mseen\x1b[0m" in found
    assert "\x1b[31mwrong\x1b[0m" in found
    for code in (0, 1, 31, 32, 36):
        found = found.replace(f"\x1b[{code}m", "")
    assert found == plain
