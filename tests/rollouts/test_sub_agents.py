"""Sub-agents: an errand is played in a context of its own, its finding alone comes back, and its trajectory stands aside."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.asks import check_asks
from gradus.rollouts.branches import Branches
from gradus.rollouts.episodes import Episodes
from gradus.testing.methods import TOY, readable, scripted_world, train_toy
from gradus.types import Ended, Frozen, Problem, Request, UserError
from gradus.types.parts import Errand, Task, Turn


@dataclass(frozen=True)
class Office:
    """`ask` sends a helper, who is told "what?" and ends with "done: ..."; any other action ends the episode, right if it is "b"."""

    raises: bool = False
    forks: ClassVar[bool] = True

    def start(self, problem: Any, key: Any, world: Any) -> Desk:
        return Desk(self.raises)


class Desk:
    def __init__(self, raises: bool) -> None:
        self.raises, self.first = raises, Turn("go")

    def fork(self, key: Any) -> Desk:
        return self

    async def step(self, action: str) -> Turn:
        if action.startswith("a"):
            return Turn("raw pages", errand=Errand("helper", "help with", Helping(self.raises), "cut off"))
        return Turn("end", float(action == "b"), terminated=True)


class Helping:
    closed = 0

    def __init__(self, raises: bool) -> None:
        self.raises, self.first = raises, Turn("what?")

    async def step(self, action: str) -> Turn:
        if self.raises:
            raise ValueError("no library")
        return Turn(action.removeprefix("done: "), 0.5, terminated=True) if action.startswith("done") else Turn("more?")

    async def close(self) -> None:
        Helping.closed += 1


PROBLEM = Problem("p", "office", messages=({"role": "user", "content": "question"},), answer="b")
OFFICE = Task("office", TOY.source, TOY.held_out, environment=Office())


def words(main=("a", "b"), helper=("look", "done: 42")):
    """The main agent's actions and the helper's, by turn."""

    def speak(ask):
        tags = ask.request.tags
        said = helper if "errand" in tags else main
        return said[min(int(tags[-1]), len(said) - 1)]

    return speak


def played(rollout=Episodes(), task=OFFICE, speak=None, count=2, purpose="train", **options):
    """(the step's groups, the groups aside, the world)."""
    world, _ = scripted_world(task, speak or words(), **options)
    world.purpose = purpose

    async def run():
        return await rollout.run([Request(PROBLEM, count=count)], world), await world.aside()

    return (*asyncio.run(run()), world)


def text(trajectory):
    return [readable(c.sequence) for c in trajectory.contexts]


def test_only_the_finding_comes_back() -> None:
    (group,), (aside,), _ = played()
    assert text(group.trajectories[0]) == ["<u>question\ngo|<a>a|<u>42|<a>b|"]
    assert text(aside.trajectories[0]) == ["<u>help with\nwhat?|<a>look|<u>more?|<a>done: 42|"]
    (context,) = group.trajectories[0].contexts
    assert readable(context.tokens[context.chosen]) == "a|b|"  # the finding is no action
    assert group.trajectories[0].links["errands"] == 1
    assert dict(group.trajectories[0].links)["turns"] == 2


def test_names_links_and_judgement_of_what_is_aside() -> None:
    closed = Helping.closed
    (group,), (aside,), world = played()
    assert (aside.key, aside.aside, group.aside) == ("p/errand/helper", True, False)
    assert [t.id for t in aside.trajectories] == ["3/p/errand/helper/0/0", "3/p/errand/helper/0/1"]
    first = aside.trajectories[0]
    assert {k: first.links[k] for k in ("parent", "role", "turn", "turns")} == {"parent": "3/p/0", "role": "helper", "turn": 0, "turns": 2}
    assert (first.trained, first.value, first.ended) == (False, 0.5, Ended.ENVIRONMENT)
    assert Helping.closed == closed + 2
    assert world.spent == {"rollout": 8, "probe": 2 * (len("look|") + len("done: 42|"))}  # "a|b|" twice
    assert played(Episodes(roles=Frozen(helper="policy")))[1][0].trajectories[0].trained


def test_an_errand_of_every_turn_and_episode_has_draws_of_its_own() -> None:
    seen = []

    def speak(ask):
        seen.append(ask.key)
        return words(("a", "a", "b"))(ask)

    (_,), (aside,), _ = played(speak=speak)
    assert len(aside.trajectories) == 4
    assert len({t.id for t in aside.trajectories}) == 4
    assert len(set(seen)) == len(seen) == 2 * 3 + 4 * 2


def test_evaluation_keeps_nothing_aside_but_plays_the_same() -> None:
    (group,), aside, _ = played(purpose="held_out")
    assert aside == []
    assert text(group.trajectories[0]) == ["<u>question\ngo|<a>a|<u>42|<a>b|"]


def test_a_helper_that_does_not_come_to_an_end() -> None:
    (group,), (aside,), _ = played(Episodes(errand_turns=3), speak=words(helper=("look",)))
    assert text(group.trajectories[0]) == ["<u>question\ngo|<a>a|<u>cut off|<a>b|"]
    assert (aside.trajectories[0].ended, aside.trajectories[0].links["turns"]) == (Ended.TRUNCATED, 3)
    (group,), (aside,), _ = played(context_length=18)  # "<u>help with\nwhat?|<a>" has 18 tokens, so no action fits; the run goes on
    assert (aside.trajectories[0].ended, aside.trajectories[0].actions, aside.trajectories[0].value) == (Ended.CONTEXT, 0, 0.0)
    assert text(group.trajectories[0]) == ["<u>question\ngo|<a>a|"]


def test_a_helper_whose_world_fails_fails_the_episode() -> None:
    (group,), (aside,), _ = played(task=replace(OFFICE, environment=Office(raises=True)))
    assert "no library" in str(group.trajectories[0].failed)
    assert "no library" in str(aside.trajectories[0].failed)


def test_branches_do_errands_too() -> None:
    world, _ = scripted_world(OFFICE, words())

    async def score(contexts, want, player="policy"):
        import numpy as np

        return [np.full(c.actions, 0.5, np.float32) for c in contexts]

    world.score = score

    async def run():
        return await Branches(base=1.0).run([Request(PROBLEM, count=4)], world), await world.aside()

    (group,), (aside,) = asyncio.run(run())
    assert len(group.trajectories) == 4
    assert len(aside.trajectories) == 2  # copies share the errand of their root
    assert all("42" in text(t)[0] for t in group.trajectories)


@dataclass(frozen=True)
class Letters:
    """`b` sends a helper whose finding is its own letter; the second action ends the episode, right if it begins with b."""

    def start(self, problem: Any, key: Any, world: Any) -> Letter:
        return Letter()


class Letter:
    def __init__(self) -> None:
        self.turns, self.first = 0, Turn("a")

    async def step(self, action: str) -> Turn:
        self.turns += 1
        if self.turns == 1:
            return Turn("a", errand=Errand("helper", "c", Once()))
        return Turn("d", float(action.startswith("b")), terminated=True)


class Once:
    def __init__(self) -> None:
        self.first = Turn("e")

    async def step(self, action: str) -> Turn:
        return Turn("a", 1.0, terminated=True)


LETTERS = Task("letters", TOY.source, TOY.held_out, environment=Letters())


def trained(roles, **changes):
    run = train_toy(grpo.but(rollout=Episodes(roles=roles), reward=_return(), **changes), task=LETTERS, steps=2)
    return run, [p.detach().clone() for p in run.players["policy"].policy.network.parameters()]


def _return():
    from gradus.rewards.environment import EnvironmentReturn

    return EnvironmentReturn()


def test_what_is_aside_is_out_of_the_headline_numbers_and_trained_or_not() -> None:
    run, _ = trained(Frozen())
    row = run.metrics[0]
    assert row["aside/groups"] == 4  # one per problem
    assert row["aside/reward"] == 1.0 > row["reward"]  # every helper earns 1, the main agent does not
    assert row["aside/accuracy"] == 1.0 > row["accuracy"]
    assert row["tokens/probe"] > 0
    # a constant advantage moves the policy on every context that is trained on
    other, moved = trained(Frozen(helper="policy"), credit=_constant())
    still, same = trained(Frozen(), credit=_constant())
    assert other.metrics[0]["reward"] == still.metrics[0]["reward"] == row["reward"]
    assert any(not bool((a == b).all()) for a, b in zip(moved, same, strict=True))  # trained: they do
    assert "tokens/probe" not in other.metrics[0]


def _constant():
    from gradus.credit.groups import Constant

    return Constant()


def test_helpers_may_be_another_player() -> None:
    asked = []
    world, _ = scripted_world(OFFICE, words())
    other, _ = scripted_world(OFFICE, lambda ask: asked.append(ask.request.player) or words()(ask))
    world.players["aide"] = other.players["policy"]

    async def run():
        rollout = Episodes(roles=Frozen(helper="aide"))
        return await rollout.run([Request(PROBLEM)], world), await world.aside()

    _, (aside,) = asyncio.run(run())
    assert asked == ["aide", "aide"]
    assert aside.trajectories[0].player == "aide"
    assert aside.trajectories[0].id == "3/p/aide/errand/helper/0/0"


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"Episodes.errand_turns is 0"):
        Episodes(errand_turns=0)
    with pytest.raises(UserError, match='unknown player "aide"'):
        check_asks(grpo.but(rollout=Episodes(roles=Frozen(helper="aide"))))


def test_demonstrations_bring_their_errands_aside() -> None:
    task = replace(LETTERS, provides=frozenset({"solution", "demonstration"}), source=_Shown(), held_out=_Shown())
    run = train_toy(sft, task=task, steps=1)
    assert run.metrics[0]["aside/groups"] > 0
    assert run.metrics[0]["aside/length"] > 0


class _Shown:
    size = None

    def draw(self, indices, level, key):
        errand = Frozen(role="helper", turn=0, prompt="c", demonstration=(("e", "b"),))
        meta = Frozen(demonstration=(("a", "b"), ("a", "b")), errands=(errand,))
        return [Problem(f"l/{i}", "letters", messages=({"role": "user", "content": "a"},), answer="b", meta=meta) for i in indices]
