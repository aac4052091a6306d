"""The task orders: wishes, reference actions, the expert's dialogues, and the contract of tasks."""

from __future__ import annotations

import asyncio

import pytest

from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.tasks.text.orders import orders, served
from gradus.testing import Effort, check_task
from gradus.testing.methods.scripted import follow_demonstration, scripted_world
from gradus.types import Key, Request

TABLE = {
    "k4": {"owner": "ann", "item": "cap", "colour": "red", "state": "new"},
    "m7": {"owner": "ann", "item": "cup", "colour": "blue", "state": "sent"},
    "b2": {"owner": "bob", "item": "cap", "colour": "red", "state": "sent"},
}


def test_the_reference_actions_by_hand() -> None:
    wishes = [("swap", "cap", "pink"), ("drop", "cup", ""), ("price", "cap", "")]
    calls, goal, outputs = served(TABLE, {"cap": 12, "cup": 30}, "ann", wishes)
    assert calls == [["swap: k4 pink"], ["return: m7"], ["price: cap", "say: 12"]]
    assert goal == {**TABLE, "k4": {**TABLE["k4"], "colour": "pink"}, "m7": {**TABLE["m7"], "state": "returned"}}
    assert outputs == ("12",)
    assert served(TABLE, {}, "ann", [("drop", "cap", "")])[0] == [["cancel: k4"]]
    assert TABLE["k4"]["colour"] == "red"


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_problems_of_a_level(level: int) -> None:
    kinds = set()
    for p in orders().source.draw(range(60), level, Key(level)):
        said = [action for _, action in p.meta["demonstration"]]
        assert said[0] == "say: name?"
        assert said[-1] == "say: done"
        assert said.count(f"find: {p.meta['customer']}") == 1
        writes = [action for action in said if action.startswith(("cancel", "return", "swap"))]
        assert len(writes) + len(p.meta["outputs"]) == level
        assert sum(one != two for one, two in zip(p.meta["orders"], p.meta["goal"], strict=True)) == len(writes)
        assert len(p.meta["slots"]) == level
        assert p.meta["practice"]
        kinds |= {action.partition(":")[0] for action in said}
        told = " ".join(str(seen) for seen, _ in p.meta["demonstration"])
        assert p.meta["customer"] in told
    assert kinds == {"say", "find", "cancel", "return", "swap", "price"}
    assert not any("practice" in p.meta for p in orders().held_out.draw(range(5), level, Key(0)))


def test_the_expert_earns_the_reward_with_every_customer() -> None:
    task = orders(2, varied=True)
    problems = task.source.draw(range(6), 2, Key(1))
    world, _ = scripted_world(task, follow_demonstration, reward=EnvironmentReturn())
    groups = asyncio.run(Episodes(max_turns=30).run([Request(p, 2) for p in problems], world))
    assert [t.value for g in groups for t in g.trajectories] == [1.0] * 12
    firsts = [{str(t.contexts[0].prefix.tolist()) for t in g.trajectories} for g in groups]
    assert any(len(found) == 2 for found in firsts)  # the customers of one problem differ


def test_the_instruction() -> None:
    (plain,), (told,) = (orders(instruction=i).source.draw([0], 1, Key(0)) for i in (False, True))
    assert "find: name" in told.question
    assert plain.question == "shop"


def test_the_contract() -> None:
    check_task(orders(), effort=Effort(problems=6, texts=40), strict=True)
    held = {p.id[-6:] for p in orders().held_out.draw(range(100), 1, Key(0))}
    assert not held & {p.id[-6:] for p in orders().source.draw(range(200), 1, Key(0))}
