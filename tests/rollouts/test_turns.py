"""How a context grows, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.rollouts.turns import acted, begun, closed, instruction, observed, opening, plain, recalled, state_hash
from gradus.types import Context, Ended, Problem, Request, UserError, prompt_context
from gradus.types.parts import Turn

USER = {"role": "user", "content": "find it"}
SYSTEM = {"role": "system", "content": "be brief"}


def sampled(parent: Context, tokens: list[int], logprobs: list[float] | None, ended: Ended = Ended.STOP) -> Context:
    own = np.array(tokens, np.int32)
    rows = None if logprobs is None else np.array(logprobs, np.float32)
    return Context(
        own, np.ones(len(own), bool), rows, np.full(len(own), 2, np.int32), 0.5, parent=(parent, len(parent.sequence)), ended=ended
    )


def test_two_turns_by_hand() -> None:
    prompt = prompt_context([10, 11])
    start = begun(prompt)
    assert start.sequence.tolist() == [10, 11]
    assert start.actions == 0
    one = acted(start, sampled(start, [20, 21], [-1.0, -2.0]), 0, Turn("here", state="s0"), Turn("", 0.25, state="s1", valid=False))
    seen = observed(one, np.array([30]))
    two = acted(seen, sampled(seen, [22], [-4.0], Ended.LENGTH), 1, Turn("", state="s1"), Turn("", 1.0, terminated=True))
    assert two.sequence.tolist() == [10, 11, 20, 21, 30, 22]
    assert two.tokens.tolist() == [20, 21, 30, 22]
    assert two.chosen.tolist() == [True, True, False, True]
    assert two.parent == (prompt, 2)
    assert two.logprobs is not None
    assert two.versions is not None
    assert two.logprobs.tolist() == [-1.0, -2.0, -4.0]
    assert two.versions.tolist() == [2, 2, 2]
    assert two.temperature == 0.5
    assert two.rewards == ((1, "environment", 0.25), (2, "environment", 1.0))  # at the last action of each turn, counted in actions
    assert two.streams["turn"].tolist() == [0, 0, 1]
    assert two.streams["turn"].dtype == np.int32
    assert two.streams["valid"].tolist() == [False, False, True]
    s0, s1 = state_hash(Turn("", state="s0")), state_hash(Turn("", state="s1"))
    assert two.streams["state"].tolist() == [s0, s0, s1]  # the state in which the action was chosen
    assert two.streams["state"].dtype == np.int64
    assert two.ended is Ended.LENGTH
    assert one.tokens.tolist() == [20, 21]  # what came later left the earlier record alone


def test_a_policy_without_logprobs_keeps_none() -> None:
    start = begun(prompt_context([1]))
    assert acted(start, sampled(start, [5], None), 0, Turn(""), Turn("")).logprobs is None


def test_an_action_without_tokens_is_refused() -> None:
    start = begun(prompt_context([1]))
    with pytest.raises(ValueError, match="no token"):
        acted(start, sampled(start, [], []), 0, Turn(""), Turn(""))


def test_the_sampled_end_token_is_not_repeated() -> None:
    follow = np.array([9, 2, 30, 9, 3])
    start = begun(prompt_context([1]))
    assert closed(acted(start, sampled(start, [20, 9], [0.0, 0.0]), 0, Turn(""), Turn("")), follow).tolist() == [2, 30, 9, 3]
    assert closed(acted(start, sampled(start, [20], [0.0]), 0, Turn(""), Turn("")), follow).tolist() == [9, 2, 30, 9, 3]


def test_state_hash_tells_states_apart_and_knows_them_again() -> None:
    assert state_hash(Turn("a", state="s")) == state_hash(Turn("b", state="s"))
    assert state_hash(Turn("a")) == state_hash(Turn("a", reward=1.0))  # no state: the observation
    hashes = [state_hash(t) for t in (Turn("a"), Turn("b"), Turn("x", state="a"), Turn("x", state="b"), Turn("", state=""))]
    assert len(set(hashes)) == 5
    assert state_hash(Turn("\ud800")) != 0  # a lone surrogate is no error
    assert all(-(2**63) <= h < 2**63 for h in hashes)


def test_instruction_and_opening() -> None:
    problem = Problem("p", "t", (USER,))
    assert instruction(Request(problem), None) == (USER,)
    assert instruction(Request(problem), "be brief") == (SYSTEM, USER)
    assert instruction(Request(problem, prompt=(SYSTEM, USER)), "another") == (SYSTEM, USER)  # never two system messages
    assert instruction(Request(problem, prompt="look"), None) == ({"role": "user", "content": "look"},)
    assert instruction(Request(Problem("p", "t", text="raw")), None) == ({"role": "user", "content": "raw"},)
    assert opening((SYSTEM, USER), "P.G") == (SYSTEM, {"role": "user", "content": "find it\nP.G"})
    assert opening((SYSTEM,), "P.G") == (SYSTEM, {"role": "user", "content": "P.G"})
    assert opening((USER,), (SYSTEM,)) == (USER, SYSTEM)
    assert opening((USER,), "") == (USER,)  # nothing is added, no empty line either
    assert opening((), "") == ({"role": "user", "content": ""},)
    with pytest.raises(UserError, match="middle of a context"):
        instruction(Request(problem, prompt=prompt_context([1])), None)


def test_recalled_shows_the_last_turns_only() -> None:
    turns, actions = (Turn("o0"), Turn("o1"), Turn(({"role": "user", "content": "o2"},))), ("up ", "down")
    assert recalled(turns, actions, 0) == "o2"
    assert recalled(turns, actions, 1) == "o1\n> down\no2"
    assert recalled(turns, actions, 2) == recalled(turns, actions, 9) == "o0\n> up\no1\n> down\no2"
    assert recalled(turns[:1], (), 3) == "o0"
    assert recalled((Turn(""), Turn("o1")), ("up",), 1) == "> up\no1"  # an empty observation takes no line
    assert plain(turns[2].observation) == "o2"
