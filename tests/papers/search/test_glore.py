"""GLoRe: the labels and the choice of an oracle, the accuracy on steps, the study, and the student stays as SFT leaves it."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.sft import sft
from gradus.papers.search.glore import RefinementStudy, glore, step_accuracy
from gradus.rewards.verified import Verified
from gradus.rollouts.step_repairs import RepairDraft, StepRepairs
from gradus.schedules.constant import ConstantSchedule
from gradus.search.best_refinement import BestRefinement
from gradus.testing.methods import TOY, scripted_world, toy_run, train_toy
from gradus.types import Frozen, Problem, Request
from gradus.types.spans import Separated
from tests.rollouts.test_step_repairs import STEP, draft
from tests.search.test_best_refinement import Scored, by_player, searched


def test_the_step_accuracy_by_hand() -> None:
    """The solution is "x b": of the steps x, z the second is wrong; of y, b both, because the first one is."""
    world = Scored(scripted_world(TOY, lambda ask: "b", reward=Verified())[0], lambda text: 1.0)
    problem = Problem("p", "toy", text="a", answer="b", meta=Frozen(solution="x b"))
    drafts = []
    for text in ("x z", "y b"):
        one = draft(text)
        drafts.append(RepairDraft(Request(problem), one.made.but(problem=problem), one.row))
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


def test_the_study_compares_with_samples_and_repairs_only_wrong_drafts() -> None:
    """The drafts are wrong, but the model of outcomes prefers them to both refinements. Of the samples, it prefers all, and the model of steps only "bb"."""

    def speak(ask):
        if ask.request.player == "policy":
            return "x x z" if ask.sampling.temperature == 0 else "bb" if ask.request.problem.answer == "b" else "z"
        return {"global_refiner": "c", "local_refiner": "d"}[ask.request.player]

    _, world, _ = searched(speak, lambda text: {"bb": 4.0, "z": 4.0, "c": 2.0, "d": 1.0}.get(text, 3.0))
    world.world.purpose = "evaluate"
    found = asyncio.run(RefinementStudy(problems=8, search=BestRefinement(marking=STEP)).measure(None, glore, world))
    truths = [p.answer for p in TOY.held_out.draw(list(range(8)), None, None)]
    share = {text: sum(t == text for t in truths) / 8 for text in "bc"}
    assert 0 < share["b"] < 1
    assert share["c"] > 0
    assert (found["held_out/accuracy"], found["held_out/draft"], found["held_out/oracle"]) == (0.0, 0.0, share["c"])
    assert (found["held_out/best_of_3"], found["held_out/over_best_of_3"]) == (share["b"], -share["b"])
    assert (found["held_out/sorm_steps"], found["held_out/orm_steps"], found["held_out/over_orm"]) == (1.0, 0.5, 0.5)


def test_the_judges_and_refiners_learn_and_the_student_is_that_of_sft() -> None:
    alone = glore.but(schedule=ConstantSchedule(), rollout=StepRepairs(marking=Separated("(?<=.)(?=.)"), count=4))
    seen = []
    run = train_toy(alone, steps=6, watch=lambda run, metrics, groups: seen.extend(groups))
    fresh = toy_run(alone)
    assert torch.equal(run.players["policy"].policy.network.logits, fresh.players["policy"].policy.network.logits)
    moved = {name for name in run.players if run.players[name].updates}
    assert moved >= {"orm", "sorm", "global_refiner", "local_refiner"}
    assert glore.schedule.stages["student"].recipe == sft
