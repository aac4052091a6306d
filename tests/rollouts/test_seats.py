"""Several seats in an episode: whose turn it is, what each has seen, which rewards are whose, and both at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.seats import Seats
from gradus.testing.methods import TOY_EPISODES
from gradus.testing.methods.scripted import scripted_world
from gradus.types import Frozen, Request, UserError
from gradus.types.parts import Turn


class Talk:
    """A and B speak in turn, three times in all; the words so far are the observation. A gets 0.5 for each of its words, both get 1 at the end."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.first = Turn("begin", player="A")

    async def step(self, action: str) -> Turn:
        self.words.append(action)
        acted = "AB"[(len(self.words) - 1) % 2]
        own = Frozen(A=0.5) if acted == "A" else Frozen()
        over = len(self.words) == 3
        return Turn(" ".join(self.words), 1.0 if over else 0.0, terminated=over, player="AB"[len(self.words) % 2], rewards=own)


class Guess:
    """Both seats name a letter at the same time; equal letters give both 1, else the seat A loses 1."""

    first = Turn("", player="A")

    def acting(self) -> dict[str, str]:
        return {"A": "you are A", "B": "you are B"}

    async def step(self, action: str) -> Turn:
        raise AssertionError("both act at once")

    async def step_all(self, actions: dict[str, str]) -> Turn:
        same = actions["A"] == actions["B"]
        return Turn("", float(same), terminated=True, rewards=Frozen() if same else Frozen(A=-1.0))


@dataclass(frozen=True)
class World:
    made: type
    seats: tuple[str, ...] = ("A", "B")

    def start(self, problem, key, world):
        return self.made()


def played(made, speak, rollout=Seats(), count=1, **players):
    task = replace(TOY_EPISODES, environment=World(made))
    world, policy = scripted_world(task, speak, reward=EnvironmentReturn())
    for name in players:
        world.players[name] = SimpleNamespace(policy=policy, name=name, updates=0, micro_tokens=1000, most_asks=None)
    problem = task.source.draw([0], None, world.seed)[0]
    return asyncio.run(rollout.run([Request(problem, count=count)], world)), policy


def tags(ask):
    return ask.request.tags


def test_seats_act_in_turn_and_see_what_the_environment_shows_them() -> None:
    (a, b), policy = played(Talk, lambda ask: "xyz"[tags(ask)[-1]])
    assert [t.links["role"] for g in (a, b) for t in g.trajectories] == ["A", "B"]
    assert (a.trajectories[0].completion, b.trajectories[0].completion) == ("x\nz", "y")
    shown = [policy.text(t.contexts[-1].sequence) for t in (*a.trajectories, *b.trajectories)]
    assert "begin" in shown[0]
    assert "x y" in shown[0]  # after its second turn A has seen both words
    assert "begin" not in shown[1]
    assert a.trajectories[0].contexts[-1].streams["turn"].tolist() == [0, 0, 2, 2]  # each word and its end token


def test_rewards_of_all_and_of_one_seat_stand_at_its_last_action() -> None:
    (a, b), _ = played(Talk, lambda ask: "x")
    assert a.trajectories[0].contexts[-1].rewards == ((1, "role", 0.5), (3, "environment", 1.0), (3, "role", 0.5))
    assert b.trajectories[0].contexts[-1].rewards == ((1, "environment", 1.0),)
    assert (a.rewards.tolist(), b.rewards.tolist()) == ([2.0], [1.0])
    assert (dict(a.trajectories[0].components), a.trajectories[0].right) == ({"environment": 1.0, "role": 1.0}, True)


def test_a_group_holds_one_seat_in_all_episodes() -> None:
    groups, _ = played(Talk, lambda ask: "x", count=3)
    assert [(len(g.trajectories), {t.links["role"] for t in g.trajectories}) for g in groups] == [(3, {"A"}), (3, {"B"})]
    assert len({t.id for g in groups for t in g.trajectories}) == 6
    assert len({t.links["episode"] for t in groups[0].trajectories}) == 3


def test_the_other_seats_may_share_a_player() -> None:
    asked = []
    players = [("policy", "actor"), ("policy", "judge")]
    for rollout, wanted in zip((Seats(others="actor"), Seats(Frozen(B="judge"), others="actor")), players, strict=True):
        (a, b), _ = played(Talk, lambda ask: asked.append(ask.request.player) or "x", rollout, actor=None, judge=None)
        assert (a.trajectories[0].player, b.trajectories[0].player) == wanted
    assert asked == ["policy", "actor", "policy", "policy", "judge", "policy"]


def test_a_seat_may_have_a_player_of_its_own() -> None:
    asked = []
    (a, b), _ = played(Talk, lambda ask: asked.append(ask.request.player) or "x", Seats(Frozen(B="other")), other=True)
    assert ([t.player for t in a.trajectories], [t.player for t in b.trajectories]) == (["policy"], ["other"])
    assert asked == ["policy", "other", "policy"]


@pytest.mark.parametrize(("letters", "a", "b"), [("bb", 1.0, 1.0), ("bc", -1.0, 0.0)])
def test_seats_that_act_at_once_are_asked_in_one_batch(letters, a, b) -> None:
    groups, policy = played(Guess, lambda ask: letters["AB".index(tags(ask)[-3])])
    assert [g.rewards.tolist() for g in groups] == [[a], [b]]
    assert policy.batches == [2]


def test_the_limit_of_turns_cuts_the_episode() -> None:
    groups, _ = played(Talk, lambda ask: "x", Seats(play=Episodes(max_turns=1)))
    assert [(t.links["role"], t.ended.value) for g in groups for t in g.trajectories] == [("A", "truncated")]


def test_history_gives_each_turn_a_context_of_its_own() -> None:
    (a, _), policy = played(Talk, lambda ask: "xyz"[tags(ask)[-1]], Seats(play=Episodes(history=1)))
    first, second = a.trajectories[0].contexts
    assert (first.actions, second.actions) == (2, 2)
    assert "begin\n> x\nx y" in policy.text(second.sequence)


def test_a_task_without_seats_is_refused() -> None:
    with pytest.raises(UserError, match='the environment of task "toy" names no seats; take a task of several seats'):
        Seats().check_task(TOY_EPISODES)
    with pytest.raises(UserError, match='unknown seat "C"'):
        Seats(Frozen(C="policy")).check_task(replace(TOY_EPISODES, environment=World(Talk)))


def test_an_environment_that_asks_a_seat_it_does_not_have_is_named() -> None:
    class Odd(Talk):
        async def step(self, action: str) -> Turn:
            return Turn("x", player="C")

    with pytest.raises(UserError, match='asks "C" to act, but only A, B may act in these episodes'):
        played(Odd, lambda ask: "x")
