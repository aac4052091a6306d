"""The dictionary: exact and similar words, their order and number, and where the entries come from."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.environments.tools import Tools
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.text.phrasebook import phrasebook
from gradus.testing.methods import scripted_world
from gradus.tools.dictionary import Dictionary, looked_up
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.edits import edit_distance
from gradus.types.spaces import text_inserted

ENTRIES = ("house: mula", "horse: kabi", "mouse: tiri", "bank: seat", "bank: shore", "sun: ka")


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("house", ["house: mula"]),  # exact: no similar words
        (" HOUSE ", ["house: mula"]),
        ("hause", ["house: mula", "horse: kabi", "mouse: tiri"]),  # 1, 2, 2 edits
        ("bank", ["bank: seat", "bank: shore"]),
        ("bonk", ["bank: seat", "bank: shore"]),
        ("elephant", []),
        ("", []),
    ],
)
def test_entries_by_hand(word: str, found: list[str]) -> None:
    assert [ENTRIES[i] for i in looked_up(ENTRIES, word)] == found


def test_number_and_distance() -> None:
    assert [ENTRIES[i] for i in looked_up(ENTRIES, "hause", top=1)] == ["house: mula"]
    assert [ENTRIES[i] for i in looked_up(ENTRIES, "hause", farthest=1)] == ["house: mula"]
    assert looked_up(ENTRIES, "hause", farthest=0) == []
    assert looked_up(ENTRIES, "bank", top=1) == [3]


@given(st.sampled_from([entry.partition(":")[0] for entry in ENTRIES]), st.integers(0, 3), st.sampled_from("xyz"))
def test_a_word_with_one_wrong_letter_finds_the_right_entry_first(word: str, at: int, letter: str) -> None:
    at = min(at, len(word) - 1)
    said = word[:at] + letter + word[at + 1 :]
    words = [entry.partition(":")[0] for entry in ENTRIES]
    near = list(dict.fromkeys(w for w in words if edit_distance(said, w) == 1))  # "xouse" is as near to house as to mouse
    found = list(dict.fromkeys(words[i] for i in looked_up(ENTRIES, said)))
    assert found[: len(near)] == near
    assert word in near


def test_entries_of_the_tool_and_of_the_task() -> None:
    own = Dictionary(ENTRIES).open(Problem("p", "t"), Key(0), None)
    assert (own.call("sun"), own.call("moon"), own.fork(Key(1))) == ("sun: ka", "no entry", own)
    task = phrasebook(1)
    world, _ = scripted_world(task, lambda ask: "")
    line = task.passages()[0]
    environment = Tools((Dictionary(),))
    episode = environment.start(Problem("p", "t"), Key(0), world)
    turn = asyncio.run(episode.step(f"<lookup>{line.partition(':')[0]}</lookup>"))
    assert text_inserted(turn.observation) == f"<result>{line}</result>"
    environment.check_task(task)
    with pytest.raises(UserError, match="Dictionary has no entries"):
        environment.check_task(arithmetic())


def test_bad_entries_and_numbers() -> None:
    with pytest.raises(UserError, match="no colon"):
        Dictionary(("house",))
    with pytest.raises(UserError, match=r"Dictionary\.top"):
        Dictionary(top=0)
    assert Tools(Frozen(lookup=Dictionary())).forks
