"""Edits by comparison, and edits in words: what is asked of whom, and how an answer is read."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.rollouts.experience_extractors import Contrast, Written, parsed, telling
from gradus.rollouts.experience_library import Add, Delete, Modify
from gradus.testing.methods import TOY, readable, scripted_world, toy_group
from gradus.types import UserError

PATTERN = Contrast().pattern


def told(*pairs, key="g"):
    """A group of (completion, reward)."""
    made = toy_group(*(r for _, r in pairs), key=key)
    return made.but(trajectories=tuple(t.but(completion=text) for t, (text, _) in zip(made.trajectories, pairs, strict=True)))


def replays(values, default=0.5):
    """A replay that earns these means, and keeps what it was asked."""
    asked = []

    async def replay(library):
        asked.append(tuple(library))
        return values.get(tuple(library), default)

    return asked, replay


def run(extractor, groups, library, replay, world=None):
    return asyncio.run(extractor.edits(groups, library, replay, world))


def test_what_all_winners_wrote_and_no_loser_did():
    # winners share * , and = ; the loser has = too; 6 and 5 are no features, nor is a single letter
    made = told(("6*5=30,x rotate", 1), ("2*3=6,rotate up", 1), ("9-4=5 up", 0))
    assert telling(made, PATTERN) == ["*", ",", "rotate"]
    assert telling(told(("a+b", 1), ("a+b", 0)), PATTERN) == []


def test_additions_come_from_every_group():
    asked, replay = replays({})
    groups = [told(("2*3", 1), ("2+3", 0)), told(("7-3", 1), ("7/3", 0), key="h")]
    assert run(Contrast(), groups, [], replay) == [Add("use *"), Add("use -")]
    assert asked == [(), ("use *",), ("use *", "use -")]  # neither makes the batch earn less
    assert run(Contrast(), [told(("2+3", 1), ("2+1", 0))], [], replay) == []


def test_what_tells_in_the_most_groups_is_tried_first():
    groups = [told((text, 1), ("5", 0), key=str(i)) for i, text in enumerate(("a-b", "up a-b", "up", "up +"))]
    assert run(Contrast(tries=2), groups, [], replays({})[1]) == [Add("use up"), Add("use -")]
    assert run(Contrast(tries=2), groups, ["use up"], replays({})[1]) == [Add("use -"), Add("use +")]
    assert run(Contrast(tries=0), groups, ["use up"], replays({})[1]) == []


def test_what_the_batch_does_better_without_is_deleted():
    asked, replay = replays({("b", "c"): 0.75, ("b",): 0.75, ("c",): 0.25, ("b", "c", "use *"): 0.5})
    assert run(Contrast(), [told(("2*3", 1), ("2+3", 0))], ["a", "b", "c"], replay) == [Delete(0)]
    # without a: .75 > .5, it goes; without b: .25; without c: .75, no gain; the new text would lose
    assert asked == [("a", "b", "c"), ("b", "c"), ("c",), ("b",), ("b", "c", "use *")]


@pytest.mark.parametrize("fields", [{"pattern": "("}, {"form": "use it"}, {"tries": -1}])
def test_fields_that_make_no_sense(fields):
    with pytest.raises(UserError, match="contrast: "):
        Contrast(**fields)


def test_lines_that_are_edits():
    lines = ["Here you go:", "Add: check the last step", "- modify [1]: start with the largest", "  DELETE 0", "Keep", "1. Add: be brief"]
    text = "\n".join([*lines, "add nothing", "Delete 7", "Modify 7: x", "Add:"])
    assert parsed(text, 2) == [Add("check the last step"), Modify(1, "start with the largest"), Delete(0), Add("be brief")]
    assert parsed("", 3) == []


def test_numbers_beyond_reason_name_no_text():
    """Python refuses to read more than 4,300 digits as a number."""
    for number in ("9" * 5000, "9" * 10, "١"):
        assert parsed(f"Delete {number}\nModify {number}: shorter", 3) == []


@given(st.text(max_size=60), st.integers(0, 3))
def test_no_answer_names_a_text_that_is_not_there(text, count):
    for prefix in ("", "Delete ", "Modify ", "Add: "):
        assert all(isinstance(e, Add) or 0 <= e.index < count for e in parsed(prefix + text, count))


def test_a_player_tells_reasons_and_edits():
    heard = []

    def speak(ask):
        heard.append((ask.request.tags[1:], readable(ask.parent.sequence), ask.request.trained, ask.request.player))
        return {"summary": f"told {ask.request.tags[-1]}", "reason": f"because {ask.request.tags[-1]}", "edits": "Add: be right\nDelete 0"}[
            ask.request.tags[1]
        ]

    world, policy = scripted_world(TOY, speak)
    groups = [told(("six", 1), ("seven", 0)), told(("two", 0), ("one", 1), key="h")]
    asked, replay = replays({})
    assert run(Written(), groups, ["old"], replay, world) == [Add("be right"), Delete(0)]
    assert policy.batches == [4, 2, 1]  # all summaries at once, then all reasons, then the edits
    assert [tags for tags, *_ in heard] == [
        ("summary", "g/0"),
        ("summary", "g/1"),
        ("summary", "h/0"),
        ("summary", "h/1"),
        ("reason", "g"),
        ("reason", "h"),
        ("edits",),
    ]
    assert "six" in heard[0][1]
    assert "reward 1" in heard[0][1]
    assert "reward 1: told g/0" in heard[4][1]
    assert "reward 0: told g/1" in heard[4][1]
    assert "[0] old" in heard[4][1]
    assert "- because g\n- because h" in heard[6][1]
    assert not any(trained for _, _, trained, _ in heard)
    assert asked == []


def test_another_player_may_write():
    world, policy = scripted_world(TOY, lambda ask: "Add: x")
    world.players["writer"] = world.players.pop("policy")
    edits = run(Written(player="writer", max_tokens=3), [told(("six", 1), ("seven", 0))], [], None, world)
    assert edits == []  # "Add" is all that fits into 3 tokens
    assert policy.batches == [2, 1, 1]
    assert world.spent == {"probe": 12, "probe/writer": 12}


def test_the_right_answer_is_told_where_there_is_one():
    heard = []
    world, _ = scripted_world(TOY, lambda ask: heard.append(readable(ask.parent.sequence)) or "x")
    made = told(("six", 1), ("seven", 0))
    known = made.but(trajectories=tuple(t.but(problem=replace(t.problem, answer=6)) for t in made.trajectories))
    for each in (made, known):
        run(Written(), [each], [], None, world)
    assert ["Right answer: 6" in text for text in heard] == [False] * 4 + [True, True, False, False]
