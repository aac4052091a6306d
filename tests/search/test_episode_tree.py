"""The tree of episodes: what is merged, what goes on, and who wins the vote."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.rollouts.episodes import Episodes, Played
from gradus.search.episode_tree import EpisodeTree, Twig, elected, merged
from gradus.tasks.text.search_environment import Inquiry
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods.scripted import scripted_context, scripted_world
from gradus.types import Key, Problem, Request, Trajectory, UserError


def twig(told: str, logprob: float) -> Twig:
    return Twig(None, Played(contexts=(scripted_context("ab", (logprob, logprob)),)), (told,))


def leaf(name: str, said: str, logprob: float) -> Trajectory:
    return Trajectory(name, Problem("p", "t"), (scripted_context("ab", (logprob, logprob)),), completion=said)


def test_equal_observations_leave_the_more_probable_branch() -> None:
    kept = merged([twig("1", -0.5), twig("1", -0.2), twig("2", -0.9)], 8)
    assert [(one.told, round(one.likely, 6)) for one in kept] == [(("1",), -0.2), (("2",), -0.9)]
    assert [one.told for one in merged([twig("1", -0.5), twig("2", -0.2), twig("3", -0.9)], 2)] == [("2",), ("1",)]


def test_the_vote_by_hand() -> None:
    leaves = [leaf("a", "x", -0.1), leaf("b", "y", -0.5), leaf("c", "y", -0.4), leaf("d", "", -0.01), leaf("e", "", -0.01), leaf("f", "", -0.01)]
    vote = lambda t: t.completion or None  # noqa: E731
    assert elected(leaves, vote).id == "c"  # three leaves without a vote do not count
    assert elected([leaves[0], leaves[1]], vote).id == "a"  # a tie goes to the more probable one
    assert elected(leaves[3:], vote).id == "d"


def test_a_tree_solves_by_its_branches() -> None:
    task = search_qa(1, people=40)
    (problem,) = task.source.draw([0], 1, Key(0))
    search, right = (action for _, action in problem.meta["demonstration"])
    asked: list[tuple[int, int]] = []

    def speak(ask: object) -> str:
        tags = ask.request.tags  # type: ignore[attr-defined]
        turn, number = tags[-1], tags[tags.index("tree") + 1]
        asked.append((turn, number))
        return search if turn == 0 else ["answer: nobody", right, right][number % 3]

    world, _ = scripted_world(task, speak)
    search_part = EpisodeTree(vote=lambda t: t.completion.rpartition("\n")[2], play=Episodes(max_turns=4))
    search_part.check_task(task)
    (group,) = asyncio.run(search_part.run([Request(problem, 2)], world))
    assert [t.value for t in group.trajectories] == [1.0, 1.0]
    assert len(asked) == 2 * (3 + 3)  # three equal searches are merged into one branch, which gets three answers
    assert all(t.links["turns"] == 2 for t in group.trajectories)


def test_each_copy_has_its_own_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    task, keys = search_qa(1, people=40), []
    (problem,) = task.source.draw([0], 1, Key(0))
    plain = Inquiry.fork
    monkeypatch.setattr(Inquiry, "fork", lambda episode, key: keys.append(key) or plain(episode, key))
    world, _ = scripted_world(task, lambda ask: "search: x")
    asyncio.run(EpisodeTree(play=Episodes(max_turns=2)).run([Request(problem, 2)], world))
    assert (len(keys), len(set(keys))) == (12, 12)  # three copies at each of two turns, for two answers


def test_episodes_that_cannot_be_copied_are_refused() -> None:
    task = search_qa(1, people=40)
    with pytest.raises(UserError, match="cannot be copied"):
        EpisodeTree().check_task(replace(task, environment=None))
    with pytest.raises(UserError, match="copies"):
        EpisodeTree(copies=0)
