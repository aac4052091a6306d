"""ReST-RL: weights of beginnings, the filter and the partial groups by hand, targets of the value model, and GRPO as the limit."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.search.rest_rl import AnswerSearch, PartialSolutions, TreeStates, beginnings, deviation, rest_rl, weights
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.search.node_values import PlayerValue, RewardOfText
from gradus.search.tree import UCT, BoundedUCT
from gradus.search.tree_search import TreeSearch
from gradus.testing.methods import (
    TOY,
    check_different_update,
    check_same_update,
    readable,
    scripted_world,
    toy_group,
    train_toy,
    weights_after,
)
from gradus.types import Failed, Key, Problem, Request, UserError

ONE = ConstantSchedule()


def test_the_weights_of_beginnings_by_hand() -> None:
    assert weights(3, 0.95) == pytest.approx([0.3506, 0.3330, 0.3164], abs=1e-4)  # 1, 0.95 and 0.9025, divided by 2.8525
    assert weights(4, 1.0).tolist() == [0.25] * 4
    drawn = [line for k in range(2000) for line in beginnings(3, 0.5, 0.95, Key(k))]
    assert len(drawn) == 4000  # ceil(1.5) = 2 beginnings each, with replacement
    assert [drawn.count(i) / 4000 for i in (1, 2, 3)] == pytest.approx(weights(3, 0.95).tolist(), abs=0.03)
    assert (len(beginnings(1, 0.5, 0.95, Key())), beginnings(4, 0.0, 0.95, Key())) == (1, [])


def test_the_filter_by_hand() -> None:
    assert deviation(toy_group(0.5, 0.5, 0.52)) == pytest.approx(0.00943, abs=1e-5)  # below 0.05: dropped
    assert deviation(toy_group(0.5, 0.5, 0.62)) == pytest.approx(0.05657, abs=1e-5)  # kept; the sample deviation of the row before is 0.0115
    assert deviation(toy_group(1, Failed("no"), 0)) == 0.5
    assert deviation(toy_group(Failed("no"))) == 0.0
    assert (rest_rl.rollout.std_min, rest_rl.rollout.best_min, rest_rl.rollout.share, rest_rl.rollout.alpha) == (0.05, 0.9, 0.5, 0.95)


def stepped(texts, requests, **fields):
    asked = []

    def speak(ask):
        asked.append((readable(ask.parent.sequence), ask.sampling.limit))
        return next(texts[ask.request.problem.id])

    world, _ = scripted_world(TOY, speak, reward=Verified(), max_tokens=20)

    async def whole():
        groups = await PartialSolutions(**{"step": " ", "share": 1.0, **fields}).run(requests, world)
        return groups, await world.aside()

    return *asyncio.run(whole()), asked, world


def test_the_best_answer_is_cut_and_continued() -> None:
    requests = [Request(Problem(name, "toy", text=name, answer="z z y"), count=2) for name in "pq"]
    texts = {"p": iter(["z x", "z z y", *("x", "z y") * 9]), "q": iter(["a", "b"])}
    groups, beside, asked, world = stepped(texts, requests)
    assert [g.trajectories[0].problem.id for g in groups] == ["p"]  # no answer to q is right: its rewards do not differ
    states = {readable(g.trajectories[0].contexts[0].prefix) for g in beside}
    assert len(beside) == 3  # one beginning per line
    assert states <= {"pz ", "pz z ", "pz z y"}
    for g in beside:
        state = readable(g.trajectories[0].contexts[0].prefix)
        assert [t.completion for t in g.trajectories] == [state[1:] + readable(t.contexts[0].tokens).removesuffix("|") for t in g.trajectories]
        assert all(t.contexts[0].actions == len(t.contexts[0].tokens) for t in g.trajectories)  # the beginning has no action
    assert {(text, limit) for text, limit in asked if text.startswith("pz")} <= {("pz ", 18), ("pz z ", 16), ("pz z y", 15)}
    assert (world.notes["kept_problems"], world.notes["partial"]) == (0.5, 1.5)
    assert [t.reward for g in beside for t in g.trajectories] == [float(TOY.verify(t.problem, t.completion)) for g in beside for t in g.trajectories]
    assert {t.reward for g in beside for t in g.trajectories} == {0.0, 1.0}


def test_an_end_token_alone_is_no_line() -> None:
    """An answer that ends with the mark of a step has two lines, not three."""
    request = [Request(Problem("p", "toy", text="p", answer="z y "), count=2)]
    right = TOY.verify(request[0].problem, "z y ")
    assert right == 1.0
    _, beside, _, _ = stepped({"p": iter(["x", "z y ", *["z"] * 9])}, request)
    assert len(beside) == 2
    assert {readable(g.trajectories[0].contexts[0].prefix) for g in beside} <= {"pz ", "pz y "}


def test_a_group_of_failures_is_not_cut() -> None:
    world, _ = scripted_world(TOY, lambda ask: "z", reward=Verified())
    group = toy_group(Failed("no"), Failed("no"))
    assert PartialSolutions(std_min=0.0)._cut(Request(group.trajectories[0].problem, count=2), group, world) == []


def test_no_cut_below_the_bar_and_never_an_empty_step() -> None:
    request = [Request(Problem("p", "toy", text="p", answer="z"), count=2)]
    groups, beside, _, world = stepped({"p": iter(["z", "x"])}, request, best_min=1.5)
    assert (len(groups), beside, world.notes["spread"]) == (1, [], 1.0)
    groups, beside, _, world = stepped({"p": iter(["x", "x"])}, request)
    assert (len(groups), beside, world.notes["kept_problems"]) == (1, [], 0.0)
    assert "spread" not in world.notes
    with pytest.raises(UserError, match=r"PartialSolutions\.alpha"):
        PartialSolutions(alpha=0.0)


def test_the_targets_of_the_value_model_by_hand() -> None:
    answers = {"": ["z z", "z y", "x"], "z ": ["z", "z", "y"]}
    asked = []

    def speak(ask):
        said = readable(ask.parent.sequence[: ask.at]).removeprefix("q")
        asked.append(said)
        return answers[said][(asked.count(said) - 1) % 3]

    world, _ = scripted_world(TOY, speak, reward=Verified())
    search = AnswerSearch(UCT(0.0), step=" ", samples=3, rounds=2)
    groups = asyncio.run(TreeStates(search).run([Request(Problem("p", "toy", text="q", answer="z z"), count=4)], world))
    found = [(readable(g.trajectories[0].contexts[0].prefix), g.trajectories[0].reward) for g in groups]
    # root: 1 of 3, then 2 of 3 more; "z ": 2 of 3; six whole answers
    assert found == [("q", 0.5), ("qz ", pytest.approx(2 / 3)), ("qz z|", 1.0), ("qz y|", 0.0), ("qx|", 0.0), ("qz z|", 1.0), ("qz z|", 1.0), ("qz y|", 0.0)]
    assert {(len(g.trajectories), g.trajectories[0].source, g.trajectories[0].contexts[0].actions) for g in groups} == {(1, "expert", 1)}
    assert world.notes["nodes"] == 8


def second(states):
    """The recipe in stage 2."""
    return rest_rl.but(schedule=ONE, rollout=states, players__value=rest_rl.schedule.stages["value"].changes["players.value"])


def test_the_value_model_learns_in_the_second_stage_alone() -> None:
    states = TreeStates(AnswerSearch(step="b", rounds=3, samples=4))
    first, begun = (weights_after(rest_rl.but(schedule=ONE), steps=n) for n in (2, 0))
    assert not [name for name in begun if name.startswith("value.")]  # no update in stage 1
    assert (first["policy.logits"] != begun["policy.logits"]).any()
    later, before = (weights_after(second(states), steps=n) for n in (2, 0))
    assert any((later[name] != before[name]).any() for name in before if name.startswith("value."))
    assert (later["policy.logits"] == before["policy.logits"]).all()


def test_the_error_of_the_value_falls() -> None:
    states = TreeStates(AnswerSearch(step="b", rounds=3, samples=4))
    run = train_toy(second(states), steps=25)
    errors = [row["value/value_error"] for row in run.metrics if "value/value_error" in row]
    assert np.mean(errors[-5:]) < 0.7 * np.mean(errors[:3])


def test_at_the_limit_it_is_grpo_and_else_it_is_not() -> None:
    plain = rest_rl.but(schedule=ONE, rollout__share=0.0, rollout__std_min=0.0)
    check_same_update(plain, grpo)
    check_different_update(rest_rl.but(schedule=ONE, rollout__step="b"), grpo)


def test_a_child_without_a_visit_can_be_left_out() -> None:
    asked = {"": ["a", "b", "a"]}
    world, _ = scripted_world(TOY, lambda ask: asked[""].pop(0), reward=Verified())
    problem = Problem("p", "toy", text="q", answer="a")
    (tree,) = asyncio.run(AnswerSearch(step=" ", samples=3, rounds=3).trees([Request(problem)], world))
    # "a" and "b" have equal bonuses; "a" is the earlier, has the value 1, and is picked again
    assert [(n.state.completion, n.visits, n.total) for n in tree.root.below()] == [("a", 2, 2.0), ("b", 0, 0.0)]
    assert (tree.root.visits, tree.root.total) == (5, 4.0)  # 1, 0 and 1, then 1 twice more


def test_the_search_of_the_paper() -> None:
    search = rest_rl.search
    assert (type(search), search.choice, search.rounds, search.samples) == (TreeSearch, BoundedUCT(0.1), 15, 5)
    assert search.value == PlayerValue("value")
    assert search.visible in (None, search.samples)  # five samples have at most five first lines, so all children can be picked
    grown = TreeStates().search
    assert (type(grown), grown.choice, grown.rounds, grown.value) == (AnswerSearch, BoundedUCT(0.2), 100, RewardOfText())
