"""Labels, clean-up, mark and balance by hand, and the pairs of the refiners."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.credit.step_values import StepChances
from gradus.rewards.verified import Verified
from gradus.rollouts.step_repairs import RepairDraft, StepRepairs, balanced, cleaned, labels_of, uses_results
from gradus.testing.methods import TOY, character_tokens, scripted_world, toy_trajectory
from gradus.types import Key, Request
from gradus.types.spans import Separated

STEP = Separated(" ")


def draft(text: str, *repairs: list[str], right: float = 0.0) -> RepairDraft:
    made = toy_trajectory([*character_tokens(text), 0], reward=right).but(completion=text)
    row = STEP.of(made.contexts[0], lambda tokens: "".join(chr(t - 5) for t in tokens if t))
    return RepairDraft(Request(made.problem), made, row, repairs)


def test_the_labels_by_hand() -> None:
    assert labels_of([3, 1, 0, 1]) == [1, 1, 0, 1]
    assert cleaned(labels_of([3, 1, 0, 1])) == [1, 1, 1, 1]
    assert cleaned(labels_of([2, 0, 0])) == [1, 0, 0]
    assert (cleaned([0, 0]), cleaned([0, 1]), cleaned([])) == ([0, 0], [1, 1], [])


def test_the_mark_is_before_the_first_step_with_label_0() -> None:
    world, _ = scripted_world(TOY, lambda ask: "b", reward=Verified())
    one = draft("x y z", ["b"], ["x b", "x b"], [])  # hits before steps 1, 2 and 3; the whole draft is wrong
    assert one.labels == [1, 1, 0, 0]  # steps 1, 2 and 3 have the labels 1, 0 and 0
    assert one.marked(1, world) == "x [BAD] y z"
    assert draft("x y", [], []).labels == [0, 0, 0]
    assert draft("x y", [], []).marked(0, world) == "[BAD] x y"
    assert draft("x y", ["b"], [], ["x y b"]).labels == [1, 1, 1, 0]  # the later hit makes the earlier label 1
    assert draft("x b", right=1.0).labels == [1, 1, 1]


def test_a_continuation_must_use_the_results() -> None:
    assert uses_results("7+5=12 4+8+1=13 6 =632", "7+5=12 4+8+1=13 ")
    assert not uses_results("7+5=14 4+8+1=13 6 =632", "7+5=14 ")
    assert uses_results("4*6=24+4=28 =82", "4*6=24+4=28 ")  # the result is the last number of the chain
    assert uses_results("3-3=0 =2", "3-3=0 ")
    assert uses_results("=632", "")
    assert uses_results("lametp anetp=ptena", "lametp ")  # a word is no number, so this wrong step counts as used


def test_the_balance_keeps_equally_many_of_both_kinds_at_every_depth() -> None:
    labels = [[1, 1, 0], [1, 1, 0], [1, 0, 0], [1, 1, 1, 1]]
    kept = balanced(labels, Key(3))
    assert not any(row[0] for row in kept)
    assert kept[2][1]
    assert sum(kept[i][1] for i in (0, 1, 3)) == 1
    assert kept[3][2]
    assert sum(kept[i][2] for i in (0, 1, 2)) == 1
    assert not kept[3][3]  # the depth has no label 0
    assert len({tuple(map(tuple, balanced(labels, Key(i)))) for i in range(20)}) > 1
    assert balanced([], Key(0)) == []


def played(drafts, then, count=2, verify=None):
    """Groups, pairs and world of drafts of two problems, whose right answers contain the letter b or c."""
    given = iter(drafts)
    task = TOY if verify is None else replace(TOY, verify=verify)
    world, _ = scripted_world(task, lambda ask: then(ask) if "value" in ask.request.tags else next(given), reward=Verified())
    world.players.update({f"{n}_refiner": SimpleNamespace(**{**vars(world.players["policy"]), "name": f"{n}_refiner"}) for n in ("global", "local")})
    pairs = []
    world.also = pairs.extend
    requests = [Request(p, count=len(drafts) // 2) for p in TOY.source.draw([0, 1], None, Key())]
    return asyncio.run(StepRepairs(marking=STEP, count=count).run(requests, world)), pairs, world


def test_labels_and_pairs_of_drafts() -> None:
    # problem 0: a right draft, and a wrong one whose continuations from before step 1 and 2 are right, but not those from before step 3
    def then(ask):
        said = ask.at - len(ask.parent.prefix)
        return "b" if ask.request.problem.answer == "b" and said < 4 else "z"

    groups, pairs, world = played(["b", "x y z", "x y", "z"], then)
    shown = {(g.trajectories[0].player, world.text(g.trajectories[0].contexts[0].prefix, "policy"), g.trajectories[0].completion) for g in pairs}
    right = next(said for player, _, said in shown if player == "global_refiner")
    assert right in ("b", "x b")
    assert shown == {("global_refiner", "draft: x y z\na", right), ("local_refiner", "draft: x [BAD] y z\na", "x b")}
    assert all((t.source, t.value, t.trained) == ("expert", 1.0, True) for g in pairs for t in g.trajectories)
    assert (world.notes["local_pairs"], world.notes["global_pairs"]) == (0.5, 0.5)
    first, second = groups[0].trajectories[1], groups[1].trajectories[0]
    assert second.stream("value").tolist()[:2] != first.stream("value").tolist()[:2] or np.isnan(first.stream("value")[0])
    kept = [t.stream("value")[2] for t in (first, second)]  # depth 1: the label 1 of x y z, and the label 0 of x y, are both kept
    assert kept == [1.0, 0.0]
    assert first.stream("span").tolist() == [-1, -1, 1, 1, -1, -1]  # depth 2 has only one kind
    (right, wrong), (other, _) = StepChances(last=True).assign(list(groups), {})
    assert (right.returns[-1], right.weights.tolist()) == (1.0, [0, 1])
    assert wrong.weights.tolist() == [0, 0, 1, 0, 0, 1]
    assert (wrong.returns[2], wrong.returns[-1], other.returns[2], other.weights.tolist()) == (1.0, 0.0, 0.0, [0, 0, 1, 1])


def test_a_continuation_without_the_results_gives_no_label_and_no_pair() -> None:
    wrong, good = "1+1=3 y", "1+1=2 y"  # all continuations are right, but "1+1=3 =2" does not use the 3
    _, pairs, world = played([wrong, good, wrong, good], lambda ask: "=2", verify=lambda problem, said: float(said.endswith("=2")))
    local = [g.trajectories[0] for g in pairs if g.trajectories[0].player == "local_refiner"]
    shown = {(world.text(t.contexts[0].prefix, "policy").splitlines()[0], t.completion) for t in local}
    assert shown == {("draft: [BAD] 1+1=3 y", "=2"), ("draft: 1+1=2 [BAD] y", "1+1=2 =2")}
    assert world.notes["good_labels"] == 0.25  # of the two steps of each draft, only the first step of 1+1=2 is good


def test_drafts_that_are_all_right_give_no_pair_and_no_continuation() -> None:
    groups, pairs, _ = played(["b", "b", "c", "c"], lambda ask: pytest.fail("no continuation is asked"))
    assert pairs == []
    assert all(np.isnan(t.stream("value")).all() for g in groups for t in g.trajectories)
