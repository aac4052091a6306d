"""GLoRe: labels, clean-up, mark and balance by hand; pairs of the refiners; the choice by ORM; the study; and the student stays as SFT leaves it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gradus.credit.step_values import StepChances
from gradus.papers.bases.sft import sft
from gradus.papers.search.glore import RefinementStudy, glore, step_accuracy
from gradus.rewards.verified import Verified
from gradus.rollouts.step_repairs import Draft, StepRepairs, balanced, cleaned, labels_of, uses_results
from gradus.schedules.constant import ConstantSchedule
from gradus.search.best_refinement import BestRefinement
from gradus.testing.methods import TOY, character_tokens, scripted_world, toy_run, toy_trajectory, train_toy
from gradus.types import Frozen, Key, Problem, Request, UserError
from gradus.types.spans import Separated

STEP = Separated(" ")


def draft(text: str, *repairs: list[str], right: float = 0.0) -> Draft:
    made = toy_trajectory([*character_tokens(text), 0], reward=right).but(completion=text)
    row = STEP.of(made.contexts[0], lambda tokens: "".join(chr(t - 5) for t in tokens if t))
    return Draft(Request(made.problem), made, row, repairs)


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


def played(drafts, then, count=2):
    """Groups, pairs and world of drafts of two problems, whose right answers contain the letter b or c."""
    given = iter(drafts)
    world, _ = scripted_world(TOY, lambda ask: then(ask) if "value" in ask.request.tags else next(given), reward=Verified())
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


def test_drafts_that_are_all_right_give_no_pair_and_no_continuation() -> None:
    groups, pairs, _ = played(["b", "b", "c", "c"], lambda ask: pytest.fail("no continuation is asked"))
    assert pairs == []
    assert all(np.isnan(t.stream("value")).all() for g in groups for t in g.trajectories)


class Scored:
    """A `World` whose outcome model has the score of `score(completion)`, and whose model of steps dislikes every step that contains z."""

    def __init__(self, world, score):
        self.world, self.of = world, score

    def __getattr__(self, name):
        return getattr(self.world, name)

    async def score(self, contexts, want, player):
        texts = [[self.world.text(c.sequence[c.action_positions[: i + 1]], "policy") for i in range(c.actions)] for c in contexts]
        if player == "orm":
            return [np.full(c.actions, self.of(row[-1])) for c, row in zip(contexts, texts, strict=True)]
        return [np.array([1.0, *(-1.0 if "z" in text else 1.0 for text in row[:-1])]) for row in texts]  # a value is read before its action


def searched(speak, score, ways=("draft", "global", "local"), problems=(0, 1, 2)):
    world, policy = scripted_world(TOY, speak, reward=Verified())
    names = ("orm", "sorm", "global_refiner", "local_refiner")
    world.players.update({n: SimpleNamespace(policy=policy, name=n, updates=0, micro_tokens=1000, most_asks=None) for n in names})
    search = BestRefinement(ways=ways, marking=STEP)
    return search, Scored(world, score), [Request(p) for p in TOY.source.draw(list(problems), None, Key())]


def by_player(ask):
    """The draft is right for problem 0, the global refinement for problem 1, and the local refinement for problem 2."""
    return {"policy": "x b", "global_refiner": "c", "local_refiner": "d"}[ask.request.player] if ask.request.problem.id != "p" else "x"


def test_the_pick_of_an_oracle_is_never_worse_than_the_draft() -> None:
    search, world, requests = searched(by_player, lambda text: 0.0)
    rows = asyncio.run(search.candidates(requests, world))
    right = np.array([[t.right for t in row] for row in rows])
    assert right[:, 0].tolist() == [True, False, False]
    truth = iter([float(t.right) for row in rows for t in row])
    world.of = lambda text: next(truth)
    picks = asyncio.run(search.picks(rows, world))
    assert [bool(right[i, p]) for i, p in enumerate(picks)] == [True, True, False]  # no step is bad, so the third local refinement is the draft
    assert [bool(right[i, p]) >= bool(right[i, 0]) for i, p in enumerate(picks)] == [True] * 3


def test_the_local_refiner_reads_the_draft_with_the_mark() -> None:
    seen = []

    def speak(ask):
        seen.append((ask.request.player, world.text(ask.parent.sequence[: ask.at], "policy"), ask.sampling.temperature))
        return "x z y" if ask.request.player == "policy" else "b"

    search, world, requests = searched(speak, len, problems=(0,))
    (group,) = asyncio.run(search.run(requests, world))
    assert ("global_refiner", "draft: x z y\na", 0.0) in seen
    assert ("local_refiner", "draft: x [BAD] z y\na", 0.0) in seen
    assert group.trajectories[0].completion == "x z y"  # the score is the length
    world.of = lambda text: -len(text)
    assert asyncio.run(search.solve(requests[0].problem, world)).completion == "b"


def test_the_draft_alone_is_the_greedy_answer_and_samples_are_drawn() -> None:
    search, world, requests = searched(lambda ask: f"x{ask.sampling.temperature:g}", lambda text: 0.0, ways=("draft",))
    assert [g.trajectories[0].completion for g in asyncio.run(search.run(requests, world))] == ["x0"] * 3
    search, world, requests = searched(lambda ask: f"x{ask.sampling.temperature:g}", lambda text: 0.0, ways=("draft", "sample", "sample"))
    assert [t.completion for t in asyncio.run(search.candidates(requests, world))[0]] == ["x0", "x1", "x1"]
    with pytest.raises(UserError, match=r"BestRefinement\.ways"):
        BestRefinement(ways=("best",))
    with pytest.raises(UserError, match=r"BestRefinement\.ways"):
        BestRefinement(ways=())


def test_the_step_accuracy_by_hand() -> None:
    """The solution is "x b": of the steps x, z the second is wrong; of y, b both, because the first one is."""
    world = Scored(scripted_world(TOY, lambda ask: "b", reward=Verified())[0], lambda text: 1.0)
    problem = Problem("p", "toy", text="a", answer="b", meta=Frozen(solution="x b"))
    drafts = []
    for text in ("x z", "y b"):
        one = draft(text)
        drafts.append(Draft(Request(problem), one.made.but(problem=problem), one.row))
    # the model of outcomes calls all steps right: 1 of 1 right steps, 0 of 3 wrong ones
    assert asyncio.run(step_accuracy(drafts, "orm", 0.5, world)) == 0.5
    # the model of steps finds the z, and misses both wrong steps of "y b"
    assert asyncio.run(step_accuracy(drafts, "sorm", 0.5, world)) == pytest.approx((1 + 1 / 3) / 2)
    assert asyncio.run(step_accuracy(drafts[1:], "sorm", 0.5, world)) is None


def test_the_study_compares_the_candidates() -> None:
    _, world, _ = searched(by_player, lambda text: float(len(text) == 1))
    world.world.purpose = "evaluate"
    found = asyncio.run(RefinementStudy(problems=3, search=BestRefinement(marking=STEP)).measure(None, glore, world))
    truths = [p.answer for p in TOY.held_out.draw([0, 1, 2], None, None)]
    share = {text: sum(t == text for t in truths) / 3 for text in "bcd"}
    assert found["held_out/draft"] == found["held_out/best_of_3"] == found["held_out/local"] == pytest.approx(share["b"])
    assert found["held_out/accuracy"] == found["held_out/global"] == pytest.approx(share["c"])  # the short answer has the best score
    assert found["held_out/over_best_of_3"] == pytest.approx(share["c"] - share["b"])
    assert found["held_out/oracle"] == pytest.approx(share["b"] + share["c"])


def test_the_judges_and_refiners_learn_and_the_student_is_that_of_sft() -> None:
    alone = glore.but(schedule=ConstantSchedule(), rollout=StepRepairs(marking=Separated("(?<=.)(?=.)"), count=4))
    seen = []
    run = train_toy(alone, steps=6, watch=lambda run, metrics, groups: seen.extend(groups))
    fresh = toy_run(alone)
    assert torch.equal(run.players["policy"].policy.network.logits, fresh.players["policy"].policy.network.logits)
    moved = {name for name in run.players if run.players[name].updates}
    assert moved >= {"orm", "sorm", "global_refiner"}
    assert glore.schedule.stages["student"].recipe == sft
