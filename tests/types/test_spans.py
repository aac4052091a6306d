"""Regions of texts and their actions: characters of tokens, phrases, steps, turns."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.testing.methods import ScriptedPolicy, scripted_context
from gradus.types import UserError
from gradus.types.contexts import Context
from gradus.types.spans import CutPoints, Phrases, Separated, ends, marked, numbered, runs

READ = ScriptedPolicy(lambda ask: "").text


def context(text):
    """A context whose tokens are characters; the last one is an end token without text."""
    made = scripted_context(text)
    return replace(
        made,
        tokens=np.append(made.tokens, 0).astype(np.int32),
        chosen=np.ones(len(text) + 1, bool),
        logprobs=np.zeros(len(text) + 1, np.float32),
        versions=np.zeros(len(text) + 1, np.int32),
    )


def rows(marking, text):
    return marking.of(context(text), READ).tolist()


def test_ends_of_characters_and_of_special_tokens():
    assert ends(context("ab").tokens, READ).tolist() == [1, 2, 2]


def test_a_character_of_two_tokens_ends_with_the_second():
    def text(tokens):  # tokens 1 and 2 together are one character; alone each shows a sign of its own
        word = {(1,): "?", (2,): "?", (1, 2): "é", (3,): "x"}
        tokens = tuple(int(t) for t in tokens)
        out, i = "", 0
        while i < len(tokens):
            size = 2 if tokens[i : i + 2] == (1, 2) else 1
            out += word[tokens[i : i + size]]
            i += size
        return out

    assert ends(np.array([3, 1, 2, 3]), text).tolist() == [1, 2, 2, 3]


def test_a_token_belongs_to_the_region_with_most_of_its_characters():
    # tokens of 2, 3 and 1 characters: [0, 2), [2, 5), [5, 6)
    assert numbered(np.array([2, 5, 6]), [(1, 3), (3, 6)]).tolist() == [0, 1, 1]
    assert numbered(np.array([2, 5, 6]), [(4, 5)]).tolist() == [-1, 0, -1]
    assert numbered(np.array([4]), [(0, 2), (2, 4)]).tolist() == [0]  # equal shares
    assert numbered(np.array([2, 2, 4]), [(0, 4)]).tolist() == [0, 0, 0]  # a token without text, with the region on both sides
    assert numbered(np.array([2, 2, 4]), [(0, 2), (2, 4)]).tolist() == [0, -1, 1]
    assert numbered(np.array([]), [(0, 2)]).tolist() == []


def test_phrases_by_hand():
    assert rows(Phrases("bc|e"), "abcde") == [-1, 0, 0, -1, 1, -1]
    assert rows(Phrases("z"), "abc") == [-1] * 4
    assert rows(Phrases("b*"), "abba") == [-1, 0, 0, -1, -1]  # empty matches are no regions


def test_steps_by_hand():
    assert rows(Separated(" "), "ab c d") == [0, 0, 0, 1, 1, 2, 2]  # a blank ends its step; the end token is of the last one
    assert rows(Separated(" "), "ab ") == [0, 0, 0, 0]
    assert rows(Separated(" "), " ab") == [0, 0, 0, 0]
    assert rows(Separated(" ", most=2), "a b c d") == [0, 0, 1, 1, 1, 1, 1, 1]
    assert rows(Separated(" "), "") == [0]
    assert rows(Separated(" ", most=1), "a b") == [0, 0, 0, 0]


@given(st.text("ab \n", max_size=12))
def test_steps_cover_every_action_and_never_go_back(text):
    found = rows(Separated(r"\s+"), text)
    assert found[0] == 0
    assert all(b - a in (0, 1) for a, b in pairwise(found))
    assert max(found) + 1 == max(1, len(text.split()))


def test_numbers_go_on_from_turn_to_turn():
    made = scripted_context("abXcd")
    chosen = np.array([True, True, False, True, True])
    two: Context = replace(made, chosen=chosen, logprobs=np.zeros(4, np.float32), versions=np.zeros(4, np.int32))
    assert runs(two) == [(0, 2), (2, 4)]
    assert Separated("b").of(two, READ).tolist() == [0, 0, 1, 1]
    assert Phrases("bc").of(two, READ).tolist() == [-1] * 4  # no region spans two turns
    assert Phrases("[bc]").of(two, READ).tolist() == [-1, 0, 1, -1]
    assert runs(made.until(1)) == []
    assert marked(made.until(1), READ, Separated().regions).tolist() == []


def test_wrong_expressions_are_refused():
    with pytest.raises(UserError, match="not a regular expression"):
        Phrases("(")
    with pytest.raises(UserError, match="is empty"):
        Separated("")
    with pytest.raises(UserError, match="most"):
        Separated(most=0)


def cut(*probabilities, **fields):
    made = scripted_context("a" * len(probabilities), [math.log(p) for p in probabilities])
    return CutPoints(**fields).of(made, READ).tolist()


def test_cut_points_by_hand():
    assert cut(0.99, 0.5, 0.95, 0.3, every=1) == [-1, 0, 0, 1]
    assert cut(0.5, 0.5, 0.95, 0.3, 0.2, 0.99, every=2) == [0, 0, 0, 1, 1, 1]
    assert cut(0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.95) == [0, 0, 0, 0, 0, 1, 1]  # five in a segment
    assert cut(0.99, 0.95) == [-1, -1]
    assert cut(0.8, rho=0.7) == [-1]
    assert cut() == []
    with pytest.raises(UserError, match="the policy gives no probabilities of sampled tokens"):
        CutPoints().of(replace(scripted_context("a"), logprobs=None), READ)
    with pytest.raises(UserError, match="every"):
        CutPoints(every=0)
