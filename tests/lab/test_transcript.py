"""A trajectory as turns: which stretches of tokens are the player's, and which it saw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gradus.lab.transcript import Segment, decoder, many_turns, sample, segments
from gradus.types import Context, Frozen, Problem, Trajectory, prompt_context

PROBLEM = Problem("p", "game", text="go")


def letters(tokens: list[int]) -> str:
    return "".join(chr(97 + token) for token in tokens)


def context(tokens: str, chosen: str, parent: tuple[Context, int] | None = None, **more: object) -> Context:
    """Tokens as letters, chosen ones marked with an x."""
    row = np.array([ord(c) - 97 for c in tokens], np.int32)
    return Context(row, np.array([c == "x" for c in chosen]), parent=parent, **more)  # type: ignore[arg-type]


def test_stretches_by_hand() -> None:
    prompt = prompt_context([0, 1])
    grown = context("cdefg", "xx-xx", (prompt, 2))
    t = Trajectory("t", PROBLEM, (grown,))
    assert many_turns(t)
    assert segments(t, letters) == [[Segment(False, "ab"), Segment(True, "cd"), Segment(False, "e"), Segment(True, "fg")]]


def test_tokens_chosen_in_a_parent_are_given() -> None:
    first = context("ab", "xx", (prompt_context([7]), 1))
    second = context("cd", "-x", (first, 2))
    t = Trajectory("t", PROBLEM, (first, second))
    assert many_turns(t)
    assert segments(t, letters) == [[Segment(False, "h"), Segment(True, "ab")], [Segment(False, "hac"), Segment(True, "d")]]


def test_one_answer_is_one_turn() -> None:
    assert not many_turns(Trajectory("t", PROBLEM, (context("ab", "xx", (prompt_context([1]), 1)),)))
    assert not many_turns(Trajectory("t", PROBLEM, ()))
    assert segments(Trajectory("t", PROBLEM, (context("", ""),)), letters) == [[]]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (np.array([[9.0, 9.0], [1.5, -0.25]]), "sample (1.500, -0.250)"),
        (np.zeros((3, 4, 8)), "sample of shape 4 x 8"),
        (np.zeros((0, 2)), ""),
    ],
)
def test_the_sample_of_a_flow(rows: np.ndarray, text: str) -> None:
    assert sample(Trajectory("t", PROBLEM, (context("a", "x", streams=Frozen(sample=rows)),))) == text
    assert sample(Trajectory("t", PROBLEM, (context("a", "x"),))) == ""


def test_a_run_without_a_checkpoint_has_no_decoder(tmp_path: Path) -> None:
    found: Callable | None = decoder(tmp_path)
    assert found is None
