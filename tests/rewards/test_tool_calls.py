"""The share of calls that ran, and the text with inserted results."""

from __future__ import annotations

import pytest

from gradus.rewards.tool_calls import ran_share, whole_text
from gradus.testing.methods import TOY, scripted_world, toy_trajectory
from gradus.testing.methods.scripted import character_tokens
from gradus.types import prompt_context


@pytest.mark.parametrize(("oks", "share"), [((True, True, True, False), 0.75), ((False,), 0.0), ((True,), 1.0), ((), 0.25)])
def test_shares_by_hand(oks: tuple[bool, ...], share: float) -> None:
    assert ran_share([(i, "python", ok) for i, ok in enumerate(oks)], 0.25) == share
    assert ran_share(()) == 0.0


def test_the_text_has_what_was_inserted() -> None:
    world, _ = scripted_world(TOY, lambda ask: "")
    context = prompt_context(character_tokens("a<b>c</b>"))
    assert whole_text(toy_trajectory([1]).but(contexts=(context,)), world) == "a<b>c</b>"
