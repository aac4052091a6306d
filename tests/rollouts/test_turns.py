"""How a context grows, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradus.rollouts.turns import acted, begun, beyond, instruction, opening, plain, recalled, state_hash
from gradus.types import Context, Ended, Frozen, Media, Problem, Request, Seen, UserError, following, prompt_context
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
    seen = one.then(prompt_context([30]))
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
    start = begun(prompt_context([1]))
    ended, cut = (acted(start, sampled(start, tokens, [0.0] * len(tokens)), 0, Turn(""), Turn("")) for tokens in ([20, 9], [20]))
    assert following([9, 2, 30, 9, 3], ended).tokens.tolist() == [2, 30, 9, 3]
    assert following([9, 2, 30, 9, 3], cut).tokens.tolist() == [9, 2, 30, 9, 3]
    assert following([9, 2], start).tokens.tolist() == [9, 2]  # the prompt's last token is not the player's
    assert following([], ended).tokens.tolist() == []


def test_a_sample_that_begins_earlier_gives_its_rest() -> None:
    """A world may give a sample that repeats tokens of the context: [1] + [20, 21, | 30, 22], of which 21, 30 and 22 are chosen."""
    prompt = prompt_context([1])
    pixel = np.zeros((1, 1), np.uint8)
    whole = Context(
        np.array([20, 21, 30, 22], np.int32),
        np.array([False, True, True, True]),
        np.array([-1.0, -2.0, -3.0], np.float32),
        np.array([5, 6, 7], np.int32),
        rewards=((0, "a", 1.0), (2, "b", 2.0)),
        streams={"x": np.array([1.0, 2.0, 3.0])},
        parent=(prompt, 1),
        seen=(Seen("image", "image", np.stack([pixel, pixel + 1]), np.array([0, 3], np.int32), np.array([1, 1], np.int32)),),
    )
    rest = beyond(whole, 3)
    assert rest.tokens.tolist() == [30, 22]
    assert rest.chosen.tolist() == [True, True]
    assert rest.logprobs is not None
    assert rest.logprobs.tolist() == [-2.0, -3.0]
    assert rest.streams["x"].tolist() == [2.0, 3.0]
    assert rest.rewards == ((1, "b", 2.0),)
    assert rest.seen[0].at.tolist() == [1]
    assert rest.seen[0].rows.tolist() == [[[1]]]
    assert beyond(whole, 1) is whole
    with pytest.raises(ValueError, match="a gap of 1 tokens"):
        beyond(whole, 0)


def test_streams_of_a_sample_stay_beside_those_of_its_turn() -> None:
    start = begun(prompt_context([1]))
    one = replace(sampled(start, [0], [-1.0]), streams={"action": np.array([[0.5, -0.5]], np.float32)})
    grown = acted(start, one, 0, Turn("", state="s"), Turn("", 1.0))
    assert sorted(grown.streams) == ["action", "state", "turn", "valid"]
    assert grown.streams["action"].tolist() == [[0.5, -0.5]]


def test_state_hash_tells_states_apart_and_knows_them_again() -> None:
    assert state_hash(Turn("a", state="s")) == state_hash(Turn("b", state="s"))
    assert state_hash(Turn("a")) == state_hash(Turn("a", reward=1.0))  # no state: the observation
    hashes = [state_hash(t) for t in (Turn("a"), Turn("b"), Turn("x", state="a"), Turn("x", state="b"), Turn("", state=""))]
    assert len(set(hashes)) == 5
    shows = [{"x": np.array([0.0, 1.0])}, {"x": np.array([0.0, 2.0])}, {"y": np.array([0.0, 1.0])}, ({"role": "user", "content": "a"},)]
    assert len({state_hash(Turn(o)) for o in shows}) == 4
    assert state_hash(Turn(shows[0])) == state_hash(Turn({"x": np.array([0.0, 1.0])}))
    red, blue = (Media("image", np.full((1, 1, 3), value, np.uint8)) for value in (1, 2))
    pictures = [({"role": "user", "content": ({"type": "image", "media": media},)},) for media in (red, blue)]
    assert state_hash(Turn(pictures[0])) != state_hash(Turn(pictures[1]))
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
    parts = ({"type": "text", "text": "look"},)
    assert opening(({"role": "user", "content": parts},), "P.G")[0]["content"] == (*parts, {"type": "text", "text": "\nP.G"})
    arrays = {"grid": np.zeros(2)}
    assert opening((USER,), arrays) is arrays  # a controller reads no instruction
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
    assert recalled((Turn("o0"), Turn("o1")), (2,), 1) == "o0\n> 2\no1"


def test_recalled_pictures_stay_in_their_places() -> None:
    red, blue = ({"type": "image", "media": Media("image", np.full((1, 1, 3), value, np.uint8))} for value in (1, 2))
    turns = (Turn(({"role": "user", "content": (red,)},)), Turn(({"role": "user", "content": ({"type": "text", "text": "now"}, blue)},)))
    (message,) = recalled(turns, ("up",), 1)
    assert message["content"] == (red, {"type": "text", "text": "> up\n"}, {"type": "text", "text": "now\n"}, blue)
    assert recalled(turns, ("up",), 0)[0]["content"] == ({"type": "text", "text": "now\n"}, blue)


def test_rewards_of_a_chunk_are_at_the_last_tokens_of_their_steps() -> None:
    start = begun(prompt_context([10]))
    piece = replace(sampled(start, [1, 2, 3, 4, 5, 6], None), streams=Frozen(step=np.array([0, 0, 1, 1, 2, 2], np.int32)))
    whole = acted(start, piece, 0, Turn("a"), Turn("b", 1.5, steps=(0.5, 0.0, 1.0)))
    assert whole.rewards == ((1, "environment", 0.5), (5, "environment", 1.0))
    assert whole.streams["step"].tolist() == [0, 0, 1, 1, 2, 2]
    cut = acted(start, piece, 0, Turn("a"), Turn("b", 1.0, terminated=True, steps=(0.0, 1.0)))
    assert cut.rewards == ((3, "environment", 1.0),)
    assert cut.streams["step"].tolist() == [0, 0, 1, 1, -1, -1]  # the last action was not executed
    together = acted(start, sampled(start, [1], None), 0, Turn("a"), Turn("b", 1.0, steps=(0.0, 1.0)))
    assert together.rewards == ((0, "environment", 1.0),)  # one token for the whole chunk
