"""Contexts with things that they show: places, forks, cuts, identity, joining."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradus.types import Context, Ended, Frozen, Seen, contexts, prompt_context
from gradus.types.contexts import columns, identity, joined
from gradus.types.media import Media


def pictures(*colours: int, at: tuple[int, ...], length: int = 2, name: str = "image") -> Seen:
    rows = np.stack([np.full((2, 2, 3), c, np.uint8) for c in colours])
    return Seen(name, "image", rows, np.array(at, np.int32), np.full(len(at), length, np.int32))


def picture(colour: int) -> Media:
    return Media("image", np.full((2, 2, 3), colour, np.uint8))


# places and digests


def test_a_seen_thing_has_the_digest_of_its_media() -> None:
    assert pictures(1, 2, at=(0, 3)).digests == (picture(1).digest, picture(2).digest)


def test_what_a_child_shows_counts_from_the_start_of_the_sequence() -> None:
    parent = prompt_context([9, 5, 5, 8], (pictures(1, at=(1,)),))
    child = Context(np.array([7, 5, 5], np.int32), np.zeros(3, bool), parent=(parent, 4), seen=(pictures(2, at=(1,)),))
    (both,) = child.shown
    assert both.at.tolist() == [1, 5]
    assert both.length.tolist() == [2, 2]
    assert both.rows[:, 0, 0, 0].tolist() == [1, 2]
    assert both.digests == (picture(1).digest, picture(2).digest)
    assert child.things == ((1, 2, "image", picture(1).digest), (5, 2, "image", picture(2).digest))


def test_a_fork_before_a_picture_does_not_show_it() -> None:
    parent = prompt_context([9, 5, 5, 8, 5, 5], (pictures(1, 2, at=(1, 4)),))
    fork = Context(np.array([7], np.int32), np.ones(1, bool), parent=(parent, 4))
    assert [s.at.tolist() for s in fork.shown] == [[1]]
    assert fork.shown[0].digests == (picture(1).digest,)
    bare = Context(np.array([7], np.int32), np.ones(1, bool), parent=(parent, 1))
    assert bare.shown == ()
    assert bare.things == ()
    assert bare.beginning(2) == np.array([9, 7], np.int32).tobytes()


def test_things_of_another_shape_or_name_are_entries_of_their_own() -> None:
    wide = Seen("image", "image", np.zeros((1, 2, 4, 3), np.uint8), np.array([2], np.int32), np.array([2], np.int32))
    state = Seen("state", "array", np.zeros((1, 3), np.float32), np.array([4], np.int32), np.array([1], np.int32))
    context = prompt_context([5] * 6, (pictures(1, at=(0,)), wide, state))
    assert [(s.name, s.rows.shape[1:]) for s in context.shown] == [("image", (2, 2, 3)), ("image", (2, 4, 3)), ("state", (3,))]


@pytest.mark.parametrize("cut", [2, 3])
def test_a_cut_within_a_picture_is_refused_with_the_places_that_are_right(cut: int) -> None:
    parent = prompt_context([9, 5, 5, 5, 8], (pictures(1, at=(1,), length=3),))
    for refused in (lambda: Context(np.array([7], np.int32), np.ones(1, bool), parent=(parent, cut)), lambda: parent.until(cut)):
        with pytest.raises(ValueError, match="cut at 1 or at 4"):
            refused()
    assert parent.until(1).things == ()
    assert len(parent.until(4).things) == 1
    assert parent.until(5).tokens.tolist() == [9, 5, 5, 5, 8]


def test_the_first_tokens_as_a_prompt_keep_what_they_show() -> None:
    parent = prompt_context([9, 5, 5, 8, 5, 5], (pictures(1, 2, at=(1, 4)),))
    child = Context(np.array([7], np.int32), np.ones(1, bool), parent=(parent, 6))
    flat = child.until(4)
    assert flat.parent is None
    assert flat.actions == 0
    assert flat.tokens.tolist() == [9, 5, 5, 8]
    assert flat.beginning(4) == child.beginning(4) == parent.beginning(4)


@pytest.mark.parametrize(
    ("at", "length"),
    [((-1,), 1), ((0, 0), 1), ((0, 1), 2), ((3, 0), 2)],  # before the start, one place twice, overlapping, not ascending
)
def test_places_that_do_not_ascend_or_overlap_are_refused(at: tuple[int, ...], length: int) -> None:
    with pytest.raises(ValueError, match="must ascend"):
        pictures(*range(len(at)), at=at, length=length)


def test_places_beyond_the_tokens_and_missing_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="give every item its placeholder tokens"):
        prompt_context([1, 5], (pictures(1, at=(1,)),))
    with pytest.raises(ValueError, match="1 items named image have 2 places"):
        Seen("image", "image", np.zeros((1, 2, 2, 3), np.uint8), np.array([0, 2], np.int32), np.array([2, 2], np.int32))


# identity


def test_equal_placeholders_with_different_pictures_begin_differently() -> None:
    one, two, again = (prompt_context([9, 5, 5, 8], (pictures(c, at=(1,)),)) for c in (1, 2, 1))
    assert one.beginning(4) == again.beginning(4) != two.beginning(4)
    assert one.beginning(1) == two.beginning(1) == np.array([9], np.int32).tobytes()
    assert one.beginning(4) != prompt_context([9, 5, 5, 8]).beginning(4)


def test_two_pictures_in_other_order_begin_differently() -> None:
    one, two = (prompt_context([5, 5, 5, 5], (pictures(*c, at=(0, 2)),)) for c in ((1, 2), (2, 1)))
    assert one.beginning(4) != two.beginning(4)


def test_the_beginning_of_a_text_is_the_bytes_of_its_tokens() -> None:
    context = prompt_context([1, 2, 3])
    assert context.beginning(2) == np.array([1, 2], np.int32).tobytes()
    assert len(identity(np.zeros(3, np.int32), ((0, 1, "image", "ab"),))) % 4 == 1  # never the length of a text


colours = st.lists(st.integers(0, 2), max_size=3)


@given(colours, colours, st.integers(0, 1), st.integers(0, 1), st.booleans())
def test_beginnings_are_equal_exactly_if_tokens_and_media_are(a: list[int], b: list[int], x: int, y: int, split: bool) -> None:
    def made(chosen: list[int], first: int, *, split: bool) -> Context:
        tokens = np.array([first, *[5, 5] * len(chosen)], np.int32)
        if not chosen:
            return prompt_context(tokens)
        seen = pictures(*chosen, at=tuple(1 + 2 * i for i in range(len(chosen))))
        if not split:
            return prompt_context(tokens, (seen,))
        parent = prompt_context(tokens[:3], (seen.first(1),))  # the same sequence in two parts
        rest = (pictures(*chosen[1:], at=tuple(2 * i for i in range(len(chosen) - 1))),) if chosen[1:] else ()
        return replace(prompt_context(tokens[3:], rest), parent=(parent, 3))

    one, two = made(a, x, split=False), made(b, y, split=split)
    count = len(one.sequence)
    same = len(two.sequence) == count and (a, x) == (b, y)
    assert (one.beginning(count) == two.beginning(len(two.sequence))) == same


# joining


def piece(tokens: int, chosen: bool, colour: int | None, heat: float) -> Context:
    actions = tokens if chosen else 0
    own = np.arange(tokens, dtype=np.int32)
    streams = Frozen(turn=np.full(actions, tokens, np.int32)) if chosen else Frozen[np.ndarray]()
    seen = (pictures(colour, at=(0,), length=1),) if colour is not None and tokens else ()
    rows = np.full(actions, heat, np.float32)
    rewards = ((0, "r", heat),) if actions else ()
    none = None if not chosen and heat > 1.5 else rows  # an observation may come without rows
    return Context(
        own, np.full(tokens, chosen), none, np.zeros(actions, np.int32), heat, rewards, streams, None, Ended.STOP if heat < 1 else Ended.LENGTH, seen
    )


pieces = st.builds(piece, st.integers(0, 3), st.booleans(), st.none() | st.integers(0, 3), st.sampled_from([0.5, 1.0, 2.0]))


@settings(max_examples=200)
@given(pieces, pieces, pieces)
def test_joining_is_associative(a: Context, b: Context, c: Context) -> None:
    left, right = a.then(b).then(c), a.then(b.then(c))
    assert left.tokens.tolist() == right.tokens.tolist()
    assert left.chosen.tolist() == right.chosen.tolist()
    for name in ("logprobs", "versions"):
        one, two = getattr(left, name), getattr(right, name)
        assert (one is None) == (two is None)
        assert (one is None or one.tolist() == two.tolist())
    assert (left.temperature, left.rewards, left.ended, left.things) == (right.temperature, right.rewards, right.ended, right.things)
    assert {n: v.tolist() for n, v in left.streams.items()} == {n: v.tolist() for n, v in right.streams.items()}
    assert left.beginning(len(left.tokens)) == right.beginning(len(right.tokens))


def test_a_joined_piece_moves_by_the_tokens_and_actions_before_it() -> None:
    acted = Context(
        np.array([4, 4], np.int32), np.ones(2, bool), np.zeros(2, np.float32), np.zeros(2, np.int32), rewards=((1, "r", 1.0),)
    )
    told = prompt_context([5, 5, 8], (pictures(3, at=(0,)),))
    whole = acted.then(told).then(acted)
    assert whole.tokens.tolist() == [4, 4, 5, 5, 8, 4, 4]
    assert whole.rewards == ((1, "r", 1.0), (3, "r", 1.0))
    assert whole.things == ((2, 2, "image", picture(3).digest),)


def test_an_observation_without_rows_leaves_those_of_the_actions() -> None:
    acted = Context(np.array([4], np.int32), np.ones(1, bool), np.array([-0.5], np.float32), np.array([3], np.int32))
    told = Context(np.array([5], np.int32), np.zeros(1, bool))
    assert acted.then(told).logprobs.tolist() == [-0.5]
    assert told.then(acted).versions.tolist() == [3]
    without = Context(np.array([4], np.int32), np.ones(1, bool))
    assert acted.then(without).logprobs is None


def test_joining_actions_with_other_streams_is_refused() -> None:
    one, two = (
        Context(np.array([4], np.int32), np.ones(1, bool), streams=Frozen({name: np.zeros(1)})) for name in ("turn", "state")
    )
    with pytest.raises(ValueError, match=r"streams \['turn'\], but the piece has \['state'\]"):
        one.then(two)


def test_moving_shares_the_pixels_and_keeps_the_digests() -> None:
    seen = pictures(1, 2, at=(0, 2))
    digests = seen.digests
    moved = seen.moved(4)
    assert moved.rows is seen.rows
    assert moved.at.tolist() == [4, 6]
    assert moved.__dict__["digests"] is digests
    assert seen.first(1).digests == digests[:1]


def thing(name: str, colours: list[int], at: int) -> Seen:
    """Rows of one token each, from token `at` on."""
    rows = np.array(colours, np.float32)[:, None] if name != "image" else np.array(colours, np.uint8)[:, None, None, None].repeat(3, 3)
    places = np.arange(at, at + len(colours), dtype=np.int32)
    return Seen(name, "image" if name == "image" else "array", rows, places, np.ones(len(colours), np.int32))


def plainly(seen: tuple[Seen, ...]) -> list[tuple[object, ...]]:
    return [(s.name, s.kind, s.rows.tobytes(), s.at.tolist(), s.length.tolist(), s.digests) for s in columns(seen)]


@given(st.lists(st.tuples(st.sampled_from(["state", "goal", "image"]), st.lists(st.integers(0, 255), min_size=1, max_size=4)), max_size=30))
def test_what_is_seen_piece_by_piece_is_what_is_seen_at_once(shown: list[tuple[str, list[int]]]) -> None:
    pieces = [thing(name, colours, 10 * i) for i, (name, colours) in enumerate(shown)]
    found: tuple[Seen, ...] = ()
    for one in pieces:
        found = joined(found, [one])
    assert plainly(found) == plainly(tuple(pieces))  # also the order of the names


def test_a_thousand_turns_stand_in_few_entries_and_each_was_copied_ten_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    copied, inner = [0], contexts._merged

    def merged(pieces: list[Seen]) -> Seen:
        copied[0] += sum(len(p.rows) for p in pieces)
        return inner(pieces)

    monkeypatch.setattr(contexts, "_merged", merged)
    context, most = prompt_context([]), 0
    for turn in range(1000):
        context = context.then(prompt_context([0], (thing("state", [turn % 256], 0), thing("goal", [7], 0))))
        most = max(most, len(context.seen))
    assert most == 2 * 9  # 511 = 256 + 128 + ... + 1, of each name
    assert copied[0] <= 2 * 1000 * 10  # twice as often with the length; one entry that grows by one row a turn: 2 * 500,000
    state, goal = context.shown
    assert (state.name, goal.name) == ("state", "goal")
    assert state.rows[:, 0].tolist() == [turn % 256 for turn in range(1000)]
    assert state.at.tolist() == goal.at.tolist() == list(range(1000))


# the first actions


def mixed(**more) -> Context:
    """Two actions, a token of the environment, two actions; a prompt token before."""
    rows = np.arange(4, dtype=np.float32)
    chosen = np.array([False, True, True, False, True, True])
    streams = Frozen({"turn": np.array([0, 0, 1, 1])})
    return Context(np.arange(6, dtype=np.int32), chosen, rows, rows.astype(np.int32), rewards=((1, "r", 0.5), (3, "r", 1.0)), streams=streams, **more)


def test_the_first_actions_by_hand() -> None:
    whole = mixed(seen=(pictures(1, at=(3,), length=1),))
    assert whole.first(4) is whole
    three = whole.first(3)
    assert (three.tokens.tolist(), three.chosen.tolist()) == ([0, 1, 2, 3, 4], [False, True, True, False, True])
    assert (three.logprobs.tolist(), three.versions.tolist(), three.streams["turn"].tolist()) == ([0, 1, 2], [0, 1, 2], [0, 0, 1])
    assert (three.rewards, three.ended, len(three.seen)) == (((1, "r", 0.5),), Ended.LENGTH, 1)
    two = whole.first(2)
    assert (two.tokens.tolist(), two.seen) == ([0, 1, 2], ())
    none = whole.first(0)
    assert (none.tokens.tolist(), none.actions, len(none.logprobs), none.rewards) == ([0], 0, 0, ())


def test_more_actions_than_there_are_and_fewer_than_none_are_refused() -> None:
    for count in (-1, 5):
        with pytest.raises(ValueError, match="4 actions"):
            mixed().first(count)
