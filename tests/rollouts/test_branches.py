"""Branches: how many episodes there are, where they part, what they share, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import numpy as np
import pytest

from gradus.rollouts.branches import Branches, chance, level
from gradus.rollouts.episodes import Episodes
from gradus.testing.methods import TOY_EPISODES
from gradus.testing.methods.scripted import scripted_world, turn_of
from gradus.types import Ended, Key, Request, UserError
from gradus.types.parts import Turn

CLOSED = []


class Count:
    """Four turns; the observation is the way so far. "x" ends the episode at once."""

    def __init__(self, words: tuple[str, ...] = (), drawn: int = 0) -> None:
        self.words, self.drawn = words, drawn
        self.first = Turn("-", state="")

    def fork(self, key: Key) -> Count:
        return Count(self.words, key.value)

    async def step(self, action: str) -> Turn:
        self.words = (*self.words, action)
        over = "x" in action or len(self.words) == 4
        return Turn(" ".join(self.words), float("c" in action), terminated=over, state=" ".join(self.words))

    async def close(self) -> None:
        CLOSED.append(self.words)


@dataclass(frozen=True)
class Counting:
    forks: bool = True
    together: int | None = None

    def start(self, problem, key, world):
        return Count()


TASK = replace(TOY_EPISODES, environment=Counting())


def played(rollout, speak=lambda ask: "b", rise=0.0, count=16, requests=1):
    """The groups, the policy and the notes; the entropy of every token is 0.5 at the first turn, and 0.5 + `rise` after it."""
    world, policy = scripted_world(TASK, speak)
    notes, read = {}, []

    async def score(contexts, want, player="policy"):
        read.append(len(contexts))
        first = [not np.any(c.prefix == 3 + 0) or int((c.prefix == 3).sum()) == 1 for c in contexts]
        return [np.full(c.actions, 0.5 if at else 0.5 + rise, np.float32) for c, at in zip(contexts, first, strict=True)]

    world.score = score
    world.note = lambda name, value: notes.setdefault(name, []).append(value)
    problems = TASK.source.draw(range(requests), None, world.seed)
    groups = asyncio.run(rollout.run([Request(p, count=count) for p in problems], world))
    return groups, policy, notes, read


def test_the_probability() -> None:
    # 0.5 + 0.2 * 0.5 = 0.6;  0.5;  0.5 - 0.2 = 0.3;  and both ends of the clip
    assert [chance(r, base=0.5, weight=0.2) for r in (0.5, 0.0, -1.0, 9.0, -9.0)] == pytest.approx([0.6, 0.5, 0.3, 1.0, 0.0])


def test_the_entropy_of_a_segment_is_that_of_its_first_tokens() -> None:
    row = np.array([0.5, 0.25, 0.25, 9.0], np.float32)
    assert [level(row, 3, "sum"), level(row, 3, "mean"), level(row, 9, "sum"), level(row[:0], 3, "mean")] == pytest.approx([1, 1 / 3, 10, 0])


@pytest.mark.parametrize("rise", [-100.0, 0.0, 100.0])
def test_there_are_exactly_m_trajectories(rise: float) -> None:
    (group, other), _, notes, _ = played(Branches(), rise=rise, requests=2)
    assert len(group.trajectories) == len(other.trajectories) == 16
    assert len({t.id for g in (group, other) for t in g.trajectories}) == 32
    copies = [sum("parent" in t.links for t in g.trajectories) for g in (group, other)]
    if rise < 0:
        assert copies == [0, 0]  # probability 0: the other eight start from the question
    elif rise > 0:
        assert copies == [8, 8]  # probability 1: each of the eight branches at its first answer
        # 8 roots play four turns, each copy the last three: 32 + 24 against 64 of independent episodes
        assert notes["saved_turns"] == [8 / 64] * 2
    else:
        assert min(copies) > 0
    assert notes["branched"] == [c / 16 for c in copies]
    assert all(t.links["turns"] == 4 for t in group.trajectories)


def test_a_copy_goes_on_from_the_shared_context() -> None:
    words = iter("abcdefgh" * 9)
    (group,), _, _, _ = played(Branches(share=0.5), lambda ask: next(words), rise=100.0, count=2)
    root, copy = group.trajectories
    assert copy.links["parent"] == root.id
    assert copy.links["shared"] == 1
    assert root.completion.split("\n")[0] == copy.completion.split("\n")[0]
    assert root.completion.split("\n")[1] != copy.completion.split("\n")[1]
    assert root.stream("branch").tolist() == [0] * 8
    assert copy.stream("branch").tolist() == [0] * 2 + [1] * 6  # a word and the end token a turn
    assert copy.contexts[0].parent == root.contexts[0].parent  # one prompt
    shared = int(copy.contexts[0].action_positions[2])
    assert copy.contexts[0].beginning(shared) == root.contexts[0].beginning(shared)
    assert np.array_equal(copy.contexts[0].logprobs[:2], root.contexts[0].logprobs[:2])


def test_z_copies_and_a_budget() -> None:
    (group,), _, _, _ = played(Branches(share=0.2, copies=4), rise=100.0, count=5)
    assert [t.links.get("shared") for t in group.trajectories] == [None, 1, 1, 1, 2]  # three at the first answer, the last slot at the second


def test_episodes_that_end_at_once_leave_the_rest_to_the_question() -> None:
    (group,), _, notes, read = played(Branches(), lambda ask: "x", rise=100.0, count=6)
    assert [t.ended for t in group.trajectories] == [Ended.ENVIRONMENT] * 6
    assert notes["saved_turns"] == [0]
    assert read == [3]  # the missing three make the group whole: nothing is left to decide


def test_all_from_the_start_is_episodes() -> None:
    speak = lambda ask: "bcx"[turn_of(ask) % 3]  # noqa: E731
    (branches,), _, _, read = played(Branches(share=1.0), speak, count=4)
    (episodes,), _, _, _ = played(Episodes(), speak, count=4)
    assert read == []
    for one, other in zip(branches.trajectories, episodes.trajectories, strict=True):
        assert (one.id, one.completion, one.links, one.reward) == (other.id, other.completion, other.links, other.reward)
        assert np.array_equal(one.contexts[0].sequence, other.contexts[0].sequence)


def test_every_episode_is_closed_once() -> None:
    CLOSED.clear()
    played(Branches(), rise=100.0, count=8)
    assert len(CLOSED) == 8


def test_the_same_step_again_is_the_same() -> None:
    one, other = [[(t.id, t.links, t.completion) for t in played(Branches())[0][0].trajectories] for _ in range(2)]
    assert one == other


def test_what_cannot_branch_is_refused() -> None:
    with pytest.raises(UserError, match=r"or write a method `fork\(key\)` in the episode"):
        Branches().check_task(replace(TASK, environment=Counting(forks=False)))
    with pytest.raises(UserError, match="runs at most 2 episodes at a time; set --rollout Episodes"):
        Branches().check_task(replace(TASK, environment=Counting(together=2)))
    Branches().check_task(TASK)
    with pytest.raises(UserError, match="share"):
        Branches(share=0.0)
    with pytest.raises(UserError, match="copies"):
        Branches(copies=1)
    assert Branches(play=Episodes(max_turns=3)).test == Episodes(max_turns=3)


def test_an_episode_that_does_not_start_has_failed_alone() -> None:
    @dataclass(frozen=True)
    class Broken(Counting):
        def start(self, problem, key, world):
            raise RuntimeError("no board")

    world, _ = scripted_world(replace(TASK, environment=Broken()), lambda ask: "b")
    (problem,) = TASK.source.draw([0], None, world.seed)
    (group,) = asyncio.run(Branches().run([Request(problem, count=4)], world))
    assert [t.ended for t in group.trajectories] == [Ended.FAILED] * 4
