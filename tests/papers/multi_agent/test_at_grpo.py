"""AT-GRPO: the tree of candidates, its groups, its choice, and policies of single roles."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np
import pytest

from gradus.credit.groups import group_relative
from gradus.papers.bases.grpo import grpo
from gradus.papers.multi_agent.at_grpo import TurnCandidates, at_grpo, best
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.seats import Seats
from gradus.testing.methods import TOY_EPISODES, check_bound_acts
from gradus.testing.methods.scripted import scripted_world
from gradus.types import Frozen, Key, Request, UserError
from gradus.types.parts import Turn


class Relay:
    """Two agents act three times each. "c" earns the team 1; every word tells whose it is and which turn; copies are independent."""

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        self.words = words
        self.first = self._turn()

    def fork(self, key: Key) -> Relay:
        return Relay(self.words)

    def _turn(self, reward: float = 0.0) -> Turn:
        over = len(self.words) == 6
        return Turn(" ".join(self.words) or "-", reward, terminated=over, player="AB"[len(self.words) % 2])

    async def step(self, action: str) -> Turn:
        self.words = (*self.words, action)
        return self._turn(float("c" in action))


@dataclass(frozen=True)
class Stage:
    play: type[Relay] = Relay
    seats: tuple[str, ...] = ("A", "B")
    forks: bool = True

    def start(self, problem, key, world):
        return self.play()


TASK = replace(TOY_EPISODES, environment=Stage())


def tree(speak, count=4, rollout=TurnCandidates(), task=TASK):
    world, policy = scripted_world(task, speak, reward=EnvironmentReturn())
    problem = TASK.source.draw([0], None, world.seed)[0]
    return asyncio.run(rollout.run([Request(problem, count=count)], world)), policy


def test_candidates_groups_and_played_messages() -> None:
    said = cycle("bcbc")  # candidates 1 and 3 of every group say "c"
    groups, policy = tree(lambda ask: next(said))
    assert [len(g.trajectories) for g in groups] == [4] * 6  # 24 candidates in 6 groups of 4
    assert [g.trajectories[0].links["role"] for g in groups] == list("ABABAB")
    for group in groups:
        prompts = {t.contexts[0].prefix.tobytes() for t in group.trajectories}
        assert len(prompts) == 1  # one identical prompt
        assert group.rewards.tolist() == [0, 1, 0, 1]
        assert [t.completion for t in group.trajectories] == ["b", "c", "b", "c"]
    # what the next agent is shown holds one message per turn so far: six are played, each the first of the best
    shown = policy.text(groups[-1].trajectories[0].contexts[0].prefix)
    assert "c c c c c" in shown
    assert "b" not in shown.replace("begin", "")


class Local(Relay):
    """As `Relay`, and "d" earns agent A alone 3."""

    def fork(self, key: Key) -> Local:
        return Local(self.words)

    async def step(self, action: str) -> Turn:
        seat = "AB"[len(self.words) % 2]
        return replace(await super().step(action), rewards=Frozen(A=3.0) if "d" in action and seat == "A" else Frozen())


def test_the_reward_is_that_of_the_team_and_that_of_the_seat_alone() -> None:
    said = cycle(["b", "c", "d", "b"])
    groups, policy = tree(lambda ask: next(said), task=replace(TASK, environment=Stage(Local)))
    assert [g.rewards.tolist() for g in groups[:2]] == [[0, 1, 3, 0], [0, 1, 0, 0]]
    shown = policy.text(groups[-1].trajectories[0].contexts[0].prefix)
    assert "d c d c d" in shown  # A plays what it earns alone, B what the team earns


def test_the_first_of_the_best_is_played() -> None:
    assert [best(r) for r in ([0, 1, 1], [2, 2], [-1.0, float("-inf")], [0.5, 0.7, 0.6])] == [1, 0, 0, 1]


def test_advantages_of_a_group() -> None:
    # mean 1/2, deviation of the population 1/2
    assert group_relative(np.array([1.0, 0, 0, 1]), scale="population").tolist() == pytest.approx([1, -1, -1, 1])


def test_only_a_candidates_own_tokens_are_actions() -> None:
    groups, _ = tree(lambda ask: "c")
    assert [t.actions for g in groups for t in g.trajectories] == [2] * 24  # the word and the end token, at every turn
    assert len({t.id for g in groups for t in g.trajectories}) == 24


def test_at_test_time_every_seat_answers_once() -> None:
    play = Episodes(max_turns=4, roles=Frozen(B="other"))
    assert TurnCandidates(play).test == Seats(play)


def test_its_changes_to_grpo() -> None:
    assert set(changes(grpo, at_grpo)) == {"rollout", "reward", "objective.kl", "players.reference", "update.count"}


def test_a_batch_is_cut_into_many_and_the_clip_acts() -> None:
    assert at_grpo.update.count == 32
    check_bound_acts(at_grpo, updates=32, task=TASK, learning_rate=0.02)  # 4 episodes of 6 groups of 4 messages: 96 in 32 parts


def test_an_environment_without_copies_is_refused() -> None:
    with pytest.raises(UserError, match=r"or write a method `fork\(key\)` in the episode"):
        TurnCandidates().check_task(replace(TASK, environment=Stage(forks=False)))
