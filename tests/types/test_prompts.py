"""Text added to prompts: where it stands, and what it leaves alone."""

from __future__ import annotations

import pytest

from gradus.types import Problem, Request, UserError, prompt_context
from gradus.types.prompts import after, before, prompt_of

USER, ASSISTANT, SYSTEM = (
    {"role": "user", "content": "ask"},
    {"role": "assistant", "content": "said"},
    {"role": "system", "content": "be brief"},
)


def test_raw_text():
    assert before("ask", "note") == "note\nask"
    assert after("ask", "note") == "ask\nnote"


def test_messages_keep_their_order_and_roles():
    talk = (SYSTEM, USER, ASSISTANT, {"role": "user", "content": "again"})
    assert before(talk, "note") == (SYSTEM, {"role": "user", "content": "note\nask"}, ASSISTANT, talk[3])
    assert after(talk, "note") == (SYSTEM, USER, ASSISTANT, {"role": "user", "content": "again\nnote"})
    assert talk[1] == {"role": "user", "content": "ask"}


def test_without_a_user_there_is_one():
    for put in (before, after):
        assert put((SYSTEM,), "note") == (SYSTEM, {"role": "user", "content": "note"})


def test_the_prompt_is_what_the_world_would_take():
    chat, raw = Problem("c", "t", (USER,)), Problem("r", "t", text="ask")
    assert prompt_of(Request(chat), "be brief") == (SYSTEM, USER)
    assert prompt_of(Request(chat), None) == (USER,)
    assert prompt_of(Request(raw), "be brief") == "ask"
    assert prompt_of(Request(chat, prompt="own"), "be brief") == "own"


def test_tokens_are_refused():
    with pytest.raises(UserError, match="problem c continues from a context"):
        prompt_of(Request(Problem("c", "t", (USER,)), prompt=prompt_context([1])), None)
