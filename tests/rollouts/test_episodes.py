"""Episodes: the tokens of every turn by hand, how episodes end, and that company changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gradus.rollouts.episodes import Episodes
from gradus.rollouts.turns import state_hash
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.testing.methods import OTHER_A, TOY, readable, scripted_world, turn_of
from gradus.types import Ended, Failed, FailureKind, Group, Key, Problem, Request, Trajectory, UserError
from gradus.types.parts import Task, Turn

PROBLEM = Problem("p", "line", ({"role": "user", "content": "go"},))


@dataclass(frozen=True)
class Line:
    """Answers turn t with the t-th of `turns`; an exception among them is raised."""

    turns: Sequence[Turn | Exception]
    first: Turn = Turn("s0", state="0")

    def start(self, problem: Problem, key: Key, world: Any) -> LineEpisode:
        return LineEpisode(self)


class LineEpisode:
    def __init__(self, line: Line) -> None:
        self.first, self.line, self.heard = line.first, line, []

    async def step(self, action: str) -> Turn:
        self.heard.append(action)
        turn = self.line.turns[len(self.heard) - 1]
        if isinstance(turn, Exception):
            raise turn
        return replace(turn, info={"heard": action})


@dataclass(frozen=True)
class Unstartable:
    """Raises at the start."""

    def start(self, problem: Problem, key: Key, world: Any) -> LineEpisode:
        raise KeyError("map")


def play(environment: Any, rollout: Episodes = Episodes(), say: str | Callable[[Any], str] = "a", **world: Any) -> Trajectory:
    """One episode of PROBLEM in which the policy says `say`, or its t-th letter in turn t."""
    return play_all(environment, rollout, [Request(PROBLEM)], say, **world)[0].trajectories[0]


def play_all(environment: Any, rollout: Episodes, requests: Sequence[Request], say: Any, **options: Any) -> list[Group]:
    speak = say if callable(say) else (lambda ask: say[turn_of(ask)] if len(say) > 1 else say)
    world, _ = scripted_world(Task("line", TOY.source, TOY.held_out, environment=environment), speak, **options)
    return asyncio.run(rollout.run(requests, world))


THREE = Line([Turn("s1", 0.5, state="1"), Turn("s2", state="0", valid=False), Turn("end", 1.0, terminated=True)])


def test_one_growing_context_by_hand() -> None:
    trajectory = play(THREE, say="a@b")
    (context,) = trajectory.contexts
    assert readable(context.prefix) == "<u>go\ns0|<a>"
    assert readable(context.tokens) == "a|<u>s1|<a>@|<u>s2|<a>b|"  # the end token once, and nothing after the last action
    assert readable(context.tokens[context.chosen]) == "a|@|b|"
    assert OTHER_A in context.tokens  # as sampled, though its text reads the same as another token's
    assert trajectory.completion == "a\na\nb"
    assert context.streams["turn"].tolist() == [0, 0, 1, 1, 2, 2]
    zero, one = state_hash(Turn("", state="0")), state_hash(Turn("", state="1"))
    assert context.streams["state"].tolist() == [zero, zero, one, one, zero, zero]
    assert context.streams["valid"].tolist() == [True, True, False, False, True, True]
    assert context.rewards == ((1, "environment", 0.5), (5, "environment", 1.0))
    assert context.logprobs is not None
    assert context.logprobs.tolist() == [-0.125, -0.25] * 3
    assert context.versions is not None
    assert context.versions.tolist() == [7] * 6
    assert trajectory.ended is Ended.ENVIRONMENT
    assert trajectory.value == 1.5
    assert dict(trajectory.links) == {"episode": "3/p/0", "turns": 3, "invalid": 1, "return": 1.5}


def test_the_growing_context_is_the_chat_as_its_template_writes_it() -> None:
    world, policy = scripted_world(Task("line", TOY.source, TOY.held_out, environment=THREE), lambda ask: "ab")
    (group,) = asyncio.run(Episodes().run([Request(PROBLEM)], world))
    said = [("user", "go\ns0"), ("assistant", "ab"), ("user", "s1"), ("assistant", "ab"), ("user", "s2"), ("assistant", "ab")]
    chat = policy.opening([{"role": role, "content": content} for role, content in said]).tokens
    assert group.trajectories[0].contexts[0].sequence.tolist() == chat[:-1].tolist()  # less the opening of another answer


def test_every_turn_its_own_context_by_hand() -> None:
    trajectory = play(THREE, Episodes(history=1), say="abc")
    assert [readable(c.prefix) for c in trajectory.contexts] == [
        "<u>go\ns0|<a>",
        "<u>go\ns0\n> a\ns1|<a>",
        "<u>go\ns1\n> b\ns2|<a>",
    ]
    assert [readable(c.tokens) for c in trajectory.contexts] == ["a|", "b|", "c|"]
    assert [c.rewards for c in trajectory.contexts] == [((1, "environment", 0.5),), (), ((1, "environment", 1.0),)]
    assert trajectory.stream("turn").tolist() == [0, 0, 1, 1, 2, 2]
    assert trajectory.stream("state").tolist() == play(THREE, say="abc").stream("state").tolist()
    assert trajectory.value == 1.5


def test_equal_prompts_are_one_context() -> None:
    for rollout in (Episodes(), Episodes(history=0)):
        (group,) = play_all(THREE, rollout, [Request(PROBLEM, count=3)], "abc")
        starts = [t.contexts[0].parent for t in group.trajectories]
        assert all(start is not None and start[0] is starts[0][0] for start in starts)  # type: ignore[index]


def test_the_system_message_stands_in_front() -> None:
    task = Task("line", TOY.source, TOY.held_out, environment=THREE, system="hi")
    world, _ = scripted_world(task, lambda ask: "a")
    (group,) = asyncio.run(Episodes(max_turns=1).run([Request(PROBLEM)], world))
    assert readable(group.trajectories[0].contexts[0].prefix) == "<s>hi|<u>go\ns0|<a>"


def test_max_turns_truncates() -> None:
    trajectory = play(THREE, Episodes(max_turns=2))
    assert trajectory.ended is Ended.TRUNCATED
    assert trajectory.links["turns"] == 2
    assert trajectory.value == 0.5


def test_the_environment_truncates() -> None:
    assert play(Line([Turn("s1", truncated=True)])).ended is Ended.TRUNCATED


def test_an_action_cut_by_its_limit_is_played_and_the_turn_is_closed() -> None:
    (context,) = play(THREE, say=lambda ask: "abcd", max_tokens=2).contexts
    assert readable(context.tokens) == "ab|<u>s1|<a>ab|<u>s2|<a>ab"  # here the closing token is the template's, not the policy's
    assert readable(context.tokens[context.chosen]) == "ababab"
    assert context.ended is Ended.LENGTH


@pytest.mark.parametrize(
    ("length", "turns", "own"),
    [
        (9, 1, "a"),  # the prompt has 8 tokens (<u> g o \n s 0 | <a>); 1 is left for "a" and the end does not fit
        (15, 1, "a|"),  # after the observation (8 + 2 + 5 = 15 tokens) nothing is left
        (16, 2, "a|<u>s1|<a>a"),  # one token is left: the action is cut, and the context is full
        (17, 2, "a|<u>s1|<a>a|"),
    ],
)
def test_a_full_context_ends_the_episode(length: int, turns: int, own: str) -> None:
    trajectory = play(THREE, context_length=length)
    assert trajectory.ended is Ended.CONTEXT
    assert trajectory.links["turns"] == turns
    assert readable(trajectory.contexts[0].tokens) == own
    assert trajectory.value == 0.5


def test_a_first_prompt_that_does_not_fit_is_told() -> None:
    with pytest.raises(UserError, match="problem p has 8 tokens and leaves no room for the action in the model's context of 8"):
        play(THREE, context_length=8)


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (RuntimeError("lost"), "the environment raised RuntimeError: lost"),
        (Turn("x", float("nan")), "the environment gave the reward nan"),
        (Turn("x", terminated=True, truncated=True), "the environment gave a turn that is both terminated and truncated"),
    ],
)
def test_a_broken_environment_is_a_failure_of_its_episode(last: Turn | Exception, reason: str) -> None:
    trajectory = play(Line([Turn("s1", 0.5), last]), say="ab")
    assert trajectory.ended is Ended.FAILED
    assert isinstance(trajectory.reward, Failed)
    assert trajectory.reward.kind is (FailureKind.RAISED if "raised" in reason else FailureKind.INVALID)
    assert trajectory.reward.reason.startswith(reason)
    assert "(test_episodes.py, line " in trajectory.reward.reason
    assert readable(trajectory.contexts[0].tokens) == "a|<u>s1|<a>b|"  # what was sampled is kept and counted


def test_an_environment_that_cannot_start_is_a_failure() -> None:
    trajectory = play(Unstartable())
    assert isinstance(trajectory.reward, Failed)
    assert trajectory.reward.kind is FailureKind.RAISED
    assert trajectory.reward.reason.startswith("the environment could not start: KeyError: 'map' (test_episodes.py, line ")
    assert trajectory.actions == 0
    assert trajectory.stream("turn").tolist() == []
    over = play(replace(THREE, first=Turn("s0", terminated=True)))
    assert over.reward == Failed("the environment ended before the first action")


def test_an_environment_that_does_not_answer_in_time_fails_its_episode_and_does_so_again() -> None:
    class Slow(LineEpisode):
        async def step(self, action: str) -> Turn:
            if self.heard:
                await asyncio.sleep(wait)
            return await super().step(action)

    class Slowly(Line):
        def start(self, problem: Problem, key: Key, world: Any) -> LineEpisode:
            return Slow(self)

    wait = 60.0
    task = Task("line", TOY.source, TOY.held_out, environment=Slowly(THREE.turns))
    late = Failed("the environment did not answer within 0.05 seconds", FailureKind.TIMEOUT)
    world, _ = scripted_world(task, lambda ask: "a")
    facts: dict[str, str] = {}
    world._decided = facts.__setitem__
    (first,) = asyncio.run(Episodes(timeout=0.05).run([Request(PROBLEM)], world))[0].trajectories
    assert (first.reward, first.ended, first.links["turns"]) == (late, Ended.FAILED, 2)
    assert facts == {f"environment/{first.id}/1": "timed out: the environment did not answer within 0.05 seconds"}
    wait = 0.0
    world, _ = scripted_world(task, lambda ask: "a")
    world._facts = facts
    (again,) = asyncio.run(Episodes(timeout=0.05).run([Request(PROBLEM)], world))[0].trajectories
    assert again.reward == late
    assert [c.tokens.tolist() for c in again.contexts] == [c.tokens.tolist() for c in first.contexts]


def test_an_environment_that_computes_for_ever_fails_its_episode_and_the_others_are_played() -> None:
    class Spinning(LineEpisode):
        async def step(self, action: str) -> Turn:
            while len(stuck) < 1 and self.heard:
                stuck.append(1)
                while True:
                    pass
            return await super().step(action)

    class Spins(Line):
        def start(self, problem: Problem, key: Key, world: Any) -> LineEpisode:
            if len(started) == 1:
                started.append(2)
                while True:
                    pass
            started.append(1)
            return Spinning(self)

    stuck: list[int] = []
    started: list[int] = []
    task = Task("line", TOY.source, TOY.held_out, environment=Spins(THREE.turns))
    world, _ = scripted_world(task, lambda ask: "a")
    facts: dict[str, str] = {}
    world._decided = facts.__setitem__
    played = asyncio.run(Episodes(timeout=1.0).run([Request(PROBLEM, 3)], world))[0].trajectories
    turn = Failed("the environment did not answer within 1 seconds", FailureKind.TIMEOUT)
    start = Failed("the environment did not start within 1 seconds", FailureKind.TIMEOUT)
    assert [t.reward if isinstance(t.reward, Failed) else "played" for t in played] == [turn, start, "played"]
    assert facts == {f"environment/{played[1].id}/start": start.told, f"environment/{played[0].id}/1": turn.told}
    world, _ = scripted_world(task, lambda ask: "a")
    world._facts = facts
    again = asyncio.run(Episodes(timeout=60.0).run([Request(PROBLEM, 3)], world))[0].trajectories
    assert [t.reward for t in again] == [t.reward for t in played]


def test_users_errors_and_other_players_stop_the_run() -> None:
    with pytest.raises(UserError, match="install it"):
        play(Line([UserError("install it")]))
    with pytest.raises(UserError, match='asks "judge" to act'):
        play(Line([Turn("s1", player="judge")]))
    with pytest.raises(UserError, match='task "line" has no environment'):
        play(None)


def test_settings_are_checked() -> None:
    with pytest.raises(UserError, match="`max_turns` is 0"):
        Episodes(max_turns=0)
    with pytest.raises(UserError, match="`history` is -1"):
        Episodes(history=-1)


def test_groups_and_flags_follow_the_requests() -> None:
    requests = [Request(PROBLEM, count=2), Request(replace(PROBLEM, id="q"), count=1, sample=4, tags=("x",), trained=False)]
    first, second = play_all(THREE, Episodes(), requests, "abc")
    assert (first.key, second.key) == ("p", "q/x")
    assert [t.id for t in (*first.trajectories, *second.trajectories)] == ["3/p/0", "3/p/1", "3/q/x/4"]
    assert [t.trained for t in (*first.trajectories, *second.trajectories)] == [True, True, False]
    assert first.pool == (1.5, 1.5)


def test_all_episodes_advance_in_one_batch_a_turn() -> None:
    world, policy = scripted_world(Task("line", TOY.source, TOY.held_out, environment=THREE), lambda ask: "a")
    asyncio.run(Episodes().run([Request(replace(PROBLEM, id=f"p{i}"), count=4) for i in range(5)], world))
    assert policy.batches == [20, 20, 20]
    assert world.spent == {"rollout": 120}  # 20 episodes x 3 turns x 2 tokens


def wander(ask: Any) -> str:
    """A direction that depends on the draw of this turn."""
    return ask.key.fold("move").choice(["up", "down", "left", "right", "jump"])


def record(trajectory: Trajectory) -> tuple[Any, ...]:
    return trajectory.id, trajectory.reward, [(c.sequence.tobytes(), c.streams["state"].tobytes(), c.rewards) for c in trajectory.contexts]


@pytest.mark.parametrize("history", [None, 2])
def test_company_and_order_change_nothing(history: int | None) -> None:
    task = frozen_lake(level=1, slip=0.5)
    requests = [Request(p, count=3) for p in task.source.draw(range(4), None, Key(0))]

    def run(requests: Sequence[Request]) -> dict[str, list[Any]]:
        world, _ = scripted_world(task, wander)
        return {g.key: [record(t) for t in g.trajectories] for g in asyncio.run(Episodes(8, history).run(requests, world))}

    together = run(requests)
    alone: dict[str, list[Any]] = {}
    for request in reversed(requests):
        alone |= run([request])
    assert together == alone
    assert len({tuple(map(str, r)) for rows in together.values() for r in rows}) == 12  # the samples of a problem differ


def test_a_part_of_a_request_is_the_same_episodes() -> None:
    task = frozen_lake(level=1, slip=0.5)
    (problem,) = task.source.draw([0], None, Key(0))
    world, _ = scripted_world(task, wander)
    whole, part = asyncio.run(Episodes(8).run([Request(problem, count=4), Request(problem, count=2, sample=2)], world))
    assert [record(t) for t in whole.trajectories[2:]] == [record(t) for t in part.trajectories]


def test_links_are_plain() -> None:
    assert {type(v) for v in play(THREE).links.values()} == {str, int, float}
    assert isinstance(np.float64(play(THREE).value), float)
