"""Rounds and their notes: what a round reads, what it does not read, and that prompts do not grow."""

from __future__ import annotations

import asyncio

import pytest

from gradus.rewards.verified import Verified
from gradus.rollouts.notes import Notes, Rounds, later_rounds
from gradus.testing.methods import TOY, readable, scripted_world
from gradus.types import Key, Request, UserError

TEXTS = Notes(first="one", later="later {}", last="last {}")


def say(ask):
    tags = ask.request.tags
    number = tags[tags.index("round") + 1] if "round" in tags else 1
    return f"<reasoning>secret{number}</reasoning><answer> n{number} </answer>"


def prompts_of(t):
    return [readable(c.prefix) for c in t.contexts]


def run(part, count=2):
    world, _ = scripted_world(TOY, say, reward=Verified())
    requests = [Request(p, count=count) for p in TOY.source.draw([0], None, Key(0))]
    return asyncio.run(part.run(requests, world))[0], world, requests


def test_notes() -> None:
    assert Notes().of("<reasoning>a</reasoning><answer>b</answer>") == "b"
    assert Notes().of("<answer>a</answer> then <answer>b</answer> x") == "b"
    assert [Notes().of(text) for text in (" all of it ", "<reasoning>a</reasoning><answer>open", "close</answer> x")] == ["all of it", "open", "close"]


def test_in_training_only_the_first_round_is_sampled() -> None:
    group, _, _ = run(Rounds(3, TEXTS))
    assert [prompts_of(t) for t in group.trajectories] == [["a\none"]] * 2
    assert all(len(t.contexts) == 1 and t.trained for t in group.trajectories)


def test_a_round_reads_the_note_and_none_of_the_reasoning() -> None:
    group, _, _ = run(Rounds(4, TEXTS).test)
    for t in group.trajectories:
        assert prompts_of(t) == ["a\none", "a\nlater n1", "a\nlater n2", "a\nlast n3"]
        assert not any("secret" in prompt for prompt in prompts_of(t))
        assert t.completion == "<reasoning>secret4</reasoning><answer> n4 </answer>"
    longest = max(len(p) for p in prompts_of(group.trajectories[0]))
    assert longest <= len("a\n") + len("later ") + len("n9")  # question, note and a constant


def test_continuations_have_their_own_draws() -> None:
    group, world, requests = run(Rounds(3, TEXTS))
    seen = []
    world.players["policy"].policy.speak = lambda ask: seen.append((ask.request.tags, ask.request.sample, ask.request.trained)) or say(ask)
    ends = asyncio.run(later_rounds([(requests[0], t) for t in group.trajectories], 3, 4, TEXTS, world))
    assert [len(row) for row in ends] == [4, 4]
    assert len(set(seen)) == len(seen) == 16
    assert not any(trained for _, _, trained in seen)


def test_one_round_is_the_answer() -> None:
    group, _, _ = run(Rounds(1, TEXTS).test)
    assert len(group.trajectories[0].contexts) == 1
    with pytest.raises(UserError, match="count"):
        Rounds(0)
