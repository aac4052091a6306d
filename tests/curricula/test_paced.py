"""Fewer and shorter episodes for solved problems: the rule by hand, the memory, and the limit that the episodes obey."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from gradus.curricula.paced import Paced, longest_success, next_count
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.serialise import kept_request, request_of
from gradus.testing.methods import TOY_EPISODES, ToySource, scripted_context, scripted_world, stored_state
from gradus.types import Ended, Frozen, Group, Key, Problem, Request, Trajectory, UserError


class Finite(ToySource):
    size = 2


def world(notes=None):
    notes = {} if notes is None else notes
    return SimpleNamespace(seed=Key(1), task=SimpleNamespace(level=None), group=4, note=lambda name, value: notes.setdefault(name, []).append(value))


def group(name, *episodes, **options):
    """Episodes of a problem: (reward, turns)."""
    problem = Problem(name, "toy", text="a")
    made = (
        Trajectory(f"{name}/{i}", problem, (scripted_context("b"),), reward=float(r), links=Frozen(turns=n), **options)
        for i, (r, n) in enumerate(episodes)
    )
    return Group(name, tuple(made))


def visit(part, state, *groups, dropped=()):
    return part.learn(list(groups), list(dropped), world(), stored_state(state))


def test_a_rate_above_the_bound_lowers_the_number_step_by_step():
    rule = {"easy_above": 0.6, "step": 1, "least": 2, "most": 8}
    assert [next_count(8, rate, **rule) for rate in (0.3, 0.6, 0.7)] == [8, 8, 7]  # the bound itself is not easy
    counts = [8]
    for _ in range(8):
        counts.append(next_count(counts[-1], 0.9, **rule))
    assert counts == [8, 7, 6, 5, 4, 3, 2, 2, 2]
    assert next_count(2, 0.5, **rule) == 8


def test_a_task_with_rate_07_gets_fewer_episodes_and_one_with_03_gets_all():
    part = Paced()
    state = visit(part, part.start(), group("toy/0", *[(1, 4)] * 7, *[(0, 30)] * 3), group("toy/1", *[(1, 5)] * 3, *[(0, 30)] * 7))
    notes: dict = {}
    requests, _ = part.choose(Finite(), 2, world(notes), state)
    found = {r.problem.id: (r.count, r.turns) for r in requests}
    assert found == {"toy/0": (7, 4), "toy/1": (8, 5)}
    assert (sum(notes["rollouts"]), sorted(notes["turn_limit"])) == (15, [4, 5])


def test_the_limit_is_the_longest_success_and_never_falls():
    part = Paced()
    state = visit(part, part.start(), group("p", (1, 4), (1, 9), (0, 30)))
    assert state["problems"]["p"]["longest"] == 9
    state = visit(part, state, group("p", (1, 3)))
    assert state["problems"]["p"]["longest"] == 9
    assert visit(part, part.start(), group("p", (0, 30)))["problems"]["p"]["longest"] is None
    assert longest_success([group("p", (0.5, 7), (1, 6))]) == {"p": 6}


def test_the_rate_covers_all_visits_or_only_the_last():
    all_, half, last = Paced(keep=1.0), Paced(), Paced(keep=0.0)
    groups = group("p", *[(0, 5)] * 8), group("p", *[(1, 5)] * 8)
    states = []
    for part in (all_, half, last):
        state = part.start()
        for g in groups:
            state = visit(part, state, g)
        states.append(state["problems"]["p"])
    assert [(s["right"], s["wrong"], s["count"]) for s in states] == [(8, 8, 8), (8, 4, 7), (8, 0, 7)]  # 8 of 12 is above 0.6


def test_replayed_and_failed_episodes_do_not_count_and_dropped_ones_do():
    part = Paced()
    assert visit(part, part.start(), group("p", (1, 4), source="replay"))["problems"] == {}
    mixed = group("p", (0, 30))
    mixed = mixed.but(trajectories=(*mixed.trajectories, *group("p", (1, 4), source="replay").trajectories))
    assert visit(part, part.start(), mixed)["problems"] == {"p": {"right": 0, "wrong": 1, "count": 8, "longest": None}}
    assert visit(part, part.start(), dropped=[group("p", (0, 4))])["problems"]["p"]["wrong"] == 1
    empty = Trajectory("t", Problem("p", "toy"), (), reward=None, ended=Ended.FAILED)
    assert visit(part, part.start(), Group("g", (empty,)))["problems"] == {}


def test_problems_come_again_in_passes():
    part, state = Paced(pool=3), Paced().start()
    seen = []
    for _ in range(2):
        requests, state = part.choose(ToySource(), 3, world(), state)
        seen.append(sorted(r.problem.id for r in requests))
    assert seen == [["toy/0", "toy/1", "toy/2"]] * 2
    assert {r.count for r in requests} == {8}


def test_episodes_obey_the_limit_of_their_request():
    scripted, _ = scripted_world(TOY_EPISODES, lambda ask: "a")  # a wrong action: the episode goes on
    (problem,) = TOY_EPISODES.source.draw([0], None, Key())

    def turns(limit, most=5):
        (made,) = asyncio.run(Episodes(most).run([Request(problem, turns=limit)], scripted))
        return made.trajectories[0].links["turns"]

    assert [turns(None), turns(2), turns(9), turns(2, most=1)] == [5, 2, 5, 1]
    request = Request(problem, count=3, turns=7)
    assert request_of(stored_state(kept_request(request))) == request
    old = stored_state(kept_request(Request(problem)))
    del old["turns"]  # a state of a version without the field
    assert request_of(old).turns is None


def test_refusals():
    with pytest.raises(UserError, match=r"Paced.least is 9, which is above Paced.most \(8\)"):
        Paced(least=9)
    with pytest.raises(UserError, match="easy_above"):
        Paced(easy_above=1.5)
