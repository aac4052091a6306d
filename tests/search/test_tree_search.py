"""The tree search over answers: the tree by hand in both ways to back values up, the budget, best of n as the limit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gradus.papers.bases.best_of_n import best_of_n
from gradus.rewards.verified import Verified
from gradus.search.best_of import BestOf
from gradus.search.node_values import RewardOfText
from gradus.search.tree import UCT, BestFirst
from gradus.search.tree_search import TreeSearch, end_of_step, ends_of_steps
from gradus.testing.methods import TOY, readable, scripted_context, scripted_world, toy_run
from gradus.types import Key, Problem, Request, UserError

PROBLEM = Problem("p", "toy", text="q", answer="z")


@dataclass(frozen=True)
class ByText:
    """Values from a table of texts."""

    table: dict = field(default_factory=dict)

    async def values(self, beginnings, world):
        return [self.table.get(t.completion, 0.0) for t in beginnings], 0


def test_an_answer_never_exceeds_its_limit() -> None:
    limits = {}

    def speak(ask):
        limits[readable(ask.parent.sequence[: ask.at])] = ask.sampling.limit
        return "a " * 9

    world, _ = scripted_world(TOY, speak, reward=Verified(), max_tokens=5)
    search = TreeSearch(choice=UCT(0.0), value=ByText({"a ": 1.0, "a a ": 2.0}), step=" ", samples=2, rounds=3)
    (tree,) = asyncio.run(search.trees([Request(PROBLEM)], world))
    assert limits == {"q": 5, "qa ": 3, "qa a ": 1}
    assert {t.contexts[0].actions for _, t in tree.answers} == {5}


def searched(answers, table, **fields):
    """Answers: the beginning of an answer -> the rests that are sampled after it, in turn."""
    asked = []

    def speak(ask):
        said = readable(ask.parent.sequence[: ask.at]).removeprefix("q")
        asked.append(said)
        return answers[said][(asked.count(said) - 1) % len(answers[said])]

    world, _ = scripted_world(TOY, speak, reward=Verified())
    search = TreeSearch(**{"value": ByText(table), "step": " ", "samples": 3, "choice": UCT(0.0), **fields})
    (tree,) = asyncio.run(search.trees([Request(PROBLEM)], world))
    return tree, asked, search, world


ANSWERS = {"": ["a b", "a c", "x y"], "a ": ["d e", "f", "f"], "a d ": ["g", "h", "i"], "x ": ["y", "z", "w"]}
TABLE = {"a ": 0.6, "x ": 0.2, "a b": 0.1, "a c": 0.3, "x y": 0.2, "a d ": 0.7, "a f": 0.5, "a d e": 0.8, "a d g": 0.9}


def shape(tree):
    return [(n.state.completion, n.visits, round(n.total, 6), n.over) for n in tree.root.below()]


def test_children_are_backed_up_by_hand() -> None:
    tree, asked, _, _ = searched(ANSWERS, TABLE, rounds=1)
    assert shape(tree) == [("a ", 2, 1.2, False), ("x ", 1, 0.2, False)]  # two of three answers begin with "a "
    assert (tree.root.visits, round(tree.root.total, 6)) == (3, 1.4)
    tree, asked, _, _ = searched(ANSWERS, TABLE, rounds=2)
    assert asked == ["", "", "", "a ", "a ", "a "]
    # below "a ": d with 0.7, and f twice with 0.5; the sum 1.7 and three visits go to "a " and to the root
    assert shape(tree) == [("a ", 5, 2.9, False), ("a d ", 1, 0.7, False), ("a f", 2, 1.0, True), ("x ", 1, 0.2, False)]
    assert (tree.root.visits, round(tree.root.total, 6)) == (6, 3.1)
    assert [(v, t.completion) for v, t in tree.answers] == [(0.1, "a b"), (0.3, "a c"), (0.2, "x y"), (0.8, "a d e"), (0.5, "a f"), (0.5, "a f")]


def test_the_best_answer_is_returned_judged() -> None:
    _, _, search, world = searched(ANSWERS, TABLE, rounds=3)
    (group,) = asyncio.run(search.run([Request(PROBLEM, count=2)], world))
    assert [t.completion for t in group.trajectories] == ["a d g", "a d g"]
    assert len({t.id for t in group.trajectories}) == 2
    assert all(t.reward == 0.0 for t in group.trajectories)
    assert readable(group.trajectories[0].contexts[0].sequence) == "qa d g|"
    assert group.trajectories[0].contexts[0].actions == len("a d g|")


def test_a_whole_answer_counts_its_value_again() -> None:
    tree, asked, _, _ = searched({"": ["a", "b", "a"]}, {"a": 1.0, "b": 0.5}, rounds=4)
    assert asked == [""] * 3
    assert shape(tree) == [("a", 5, 5.0, True), ("b", 1, 0.5, True)]


def test_only_the_best_children_are_visible() -> None:
    tree, _, _, _ = searched(ANSWERS, {**TABLE, "x ": 0.9}, rounds=1, visible=1)
    assert [(n.state.completion, n.hidden) for n in tree.root.children] == [("a ", True), ("x ", False)]
    assert (tree.root.visits, round(tree.root.total, 6)) == (3, 2.1)  # hidden children count


def test_the_budget_discards_samples_and_ends_the_search() -> None:
    every = searched(ANSWERS, TABLE, rounds=2)[0].spent
    assert every == 4 * 3 + 4 + 2 + 2  # with the end tokens: "a b|" three times, "d e|", "f|" twice
    tree, _, _, _ = searched(ANSWERS, TABLE, rounds=9, tokens=17)
    assert (tree.spent, len(tree.answers)) == (16, 4)  # the second "f|" would need 18
    assert searched(ANSWERS, TABLE, rounds=9, tokens=1)[0].spent == 4  # at least one sample
    tree, _, _, _ = searched(ANSWERS, TABLE, rounds=9, tokens=12)
    assert (tree.spent, len(tree.answers)) == (12, 3)


def test_with_one_round_it_is_best_of_n() -> None:
    world = toy_run(best_of_n).at(0)[1]
    requests = [Request(p, count=2) for p in TOY.source.draw([0, 1, 2], None, Key())]
    search = TreeSearch(choice=BestFirst(), value=RewardOfText(), rounds=1, samples=4)
    ours, theirs = (asyncio.run(s.run(requests, world)) for s in (search, BestOf(4)))
    assert [[t.completion for t in g.trajectories] for g in ours] == [[t.completion for t in g.trajectories] for g in theirs]
    assert [g.rewards.tolist() for g in ours] == [g.rewards.tolist() for g in theirs]
    assert asyncio.run(search.solve(requests[0].problem, world)).reward is not None


def test_the_end_of_a_step_and_mistakes() -> None:
    world, _ = scripted_world(TOY, lambda ask: "")
    context = scripted_context("ab cd e")
    assert [end_of_step(context, said, " ", world, "policy") for said in (0, 2, 3, 6)] == [3, 1, 3, context.actions - 6]
    assert end_of_step(context, 0, "d e", world, "policy") == 7
    assert ends_of_steps(context, " ", world, "policy") == [3, 6, context.actions]
    with pytest.raises(UserError, match=r"TreeSearch\.step is empty"):
        TreeSearch(step="")
    with pytest.raises(UserError, match=r"TreeSearch\.rounds"):
        TreeSearch(rounds=0)
