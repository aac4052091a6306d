"""Plain text: every token but the first is learned once, whatever the length of a piece; draws, kinds, chats and bad documents."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from gradus.papers.bases.sft import sft
from gradus.rollouts.auto import Auto
from gradus.rollouts.plain_text import PlainText, documents_of, sighted
from gradus.testing.methods import TOY, check_micro_batches, readable, scripted_world, weights_after
from gradus.types import Frozen, Problem, Request, Seen, UserError, prompt_context
from gradus.types.contexts import pieces
from gradus.types.parts import Task

PLAIN = Task("t", TOY.source, TOY.held_out, TOY.verify)
CHAT = ({"role": "user", "content": "q"}, {"role": "assistant", "content": "yes"})
continued = sft.derive("continued", "Continued pre-training.", rollout=PlainText(), requires=frozenset())


def asked(documents=None, count=1, name="p", text="raw"):
    meta = Frozen() if documents is None else Frozen(documents=documents)
    return Request(Problem(name, "t", text=text, meta=meta), count=count)


def given(requests, rollout=None):
    world, policy = scripted_world(PLAIN, lambda ask: "sampled")
    groups = asyncio.run((rollout or PlainText()).run(requests, world))
    assert policy.batches == []  # nothing is sampled
    return groups


def learned(trajectory):
    return [readable(c.sequence[c.action_positions]) for c in trajectory.contexts]


def test_every_token_but_the_first_is_learned():
    (raw,), (column,), (chat,) = (g.trajectories for g in given([asked(), asked("abc", name="q"), asked([CHAT], name="r")]))
    whole = [readable(t.contexts[0].sequence) for t in (raw, column, chat)]
    assert (whole[:2], learned(raw), learned(column)) == (["raw|", "abc|"], ["aw|"], ["bc|"])
    assert whole[2] == "<u>q|<a>yes|"
    assert learned(chat) == [whole[2].removeprefix("<u>")]  # the tokens of the user, too
    assert (raw.source, raw.value, raw.contexts[0].logprobs, dict(raw.components)) == ("expert", 1.0, None, {"document": 1.0})
    assert PlainText().test == Auto()
    assert PlainText().judges(PLAIN) is False


@pytest.mark.parametrize("most", [2, 3, 4, 5, 7, 8, 100])
def test_pieces_lose_no_token_and_repeat_none(most):
    tokens = np.arange(10, 18, dtype=np.int32)
    cut = pieces(tokens, most)
    assert np.concatenate([c.sequence[c.action_positions] for c in cut]).tolist() == tokens[1:].tolist()
    assert all(len(c.sequence) <= most and c.actions for c in cut)
    assert [c.sequence[0] for c in cut] == [10, *(c.sequence[-1] for c in cut[:-1])]


@pytest.mark.parametrize(("at", "learned"), [(3, [1, 2, 5, 6, 7]), (1, [3, 4, 5, 6, 7]), (0, [2, 3, 4, 5, 6, 7]), (6, [1, 2, 3, 4, 5])])
def test_the_tokens_of_a_picture_are_not_learned(at, learned):
    """Eight tokens; a picture takes two of them."""
    seen = Seen("image", "image", np.zeros((1, 2, 2, 3), np.uint8), np.array([at], np.int32), np.array([2], np.int32))
    whole = prompt_context(np.arange(10, 18, dtype=np.int32), (seen,))
    made = sighted(whole, Problem("p", "t", text="x"), 8)
    assert made.sequence.tolist() == list(range(10, 18))
    assert made.action_positions.tolist() == learned
    assert [thing[:2] for thing in made.things] == [(at, 2)]  # the picture is still shown
    with pytest.raises(UserError, match="cannot be cut; shorten it to 7 tokens"):
        sighted(whole, Problem("p", "t", text="x"), 7)


def test_a_long_document_is_cut_at_the_length():
    (whole,), (cut,) = given([asked("-abcdef")])[0].trajectories, given([asked("-abcdef")], PlainText(length=4))[0].trajectories
    assert learned(whole) == ["abcdef|"]
    assert learned(cut) == ["abc", "def", "|"]
    assert cut.completion == whole.completion


def test_a_request_draws_different_documents():
    (group,) = given([asked(["-a", "-b", "-c"], count=2)])
    assert len({t.completion for t in group.trajectories}) == len({t.id for t in group.trajectories}) == 2
    (group,) = given([asked(["-a", "-b", "-c"], count=9)])
    assert sorted(learned(t)[0] for t in group.trajectories) == ["a|", "b|", "c|"]
    drawn = [learned(g.trajectories[0])[0] for g in given([asked(["-a", "-b", "-c"], name=f"p{i}") for i in range(300)])]
    assert all(80 <= drawn.count(text) <= 120 for text in ("a|", "b|", "c|"))


def test_kinds_are_chosen():
    documents = Frozen(proof="-p", state="-s", repair="-r")
    drawn = {learned(g.trajectories[0])[0] for g in given([asked(documents, name=f"p{i}") for i in range(40)], PlainText(kinds=("proof", "state")))}
    assert drawn == {"p|", "s|"}
    assert documents_of(asked(documents).problem) == ["-p", "-s", "-r"]


def test_the_length_of_a_piece_changes_which_tokens_are_seen_not_which_are_learned():
    """The toy policy reads one token back, so pieces change nothing at all."""
    whole, cut = (weights_after(continued.but(rollout=PlainText(length=n)), steps=2)["policy.logits"] for n in (None, 2))
    assert torch.allclose(whole, cut, atol=1e-12)
    check_micro_batches(continued)


@pytest.mark.parametrize(
    ("documents", "kinds", "message"),
    [
        ([], (), "has no document"),
        (3, (), "has no document"),
        ([3], (), "has the document 3"),
        ([(CHAT[0],)], (), "a chat of two messages or more"),
        (Frozen(proof="p"), ("state",), "no document of the kind state; add a document of this kind .kinds of the problem: proof"),
        ("p", ("state",), "documents without kinds"),
    ],
)
def test_documents_that_do_not_fit_are_named(documents, kinds, message):
    with pytest.raises(UserError, match=message):
        given([asked(documents)], PlainText(kinds=kinds))


def test_a_problem_without_text_and_documents_is_named():
    with pytest.raises(UserError, match="has no document"):
        documents_of(Problem("p", "t", messages=({"role": "user", "content": "q"},)))
    with pytest.raises(UserError, match="no token to predict"):
        pieces(np.zeros(1, np.int32), 8)
