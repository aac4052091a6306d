"""Critique-RL: advantages and rewards by hand, rates of fixed and broken answers, the two stages, and the limit at which it is RLOO."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

import gradus
from gradus.credit.groups import LeaveOneOut, leave_one_out
from gradus.papers.bases.rloo import rloo
from gradus.papers.multi_agent.critique_rl import REFINES, Helpful, changed, critique_rl
from gradus.papers.thinking.rlsp import LengthEffort
from gradus.recipe.core import changes
from gradus.rewards.right_or_wrong import RightOrWrong
from gradus.rewards.verified import Verified
from gradus.rollouts.single_turn import SingleTurn
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.data.checked import checked
from gradus.testing.methods import check_different_update, check_same_update, scripted_world
from gradus.testing.methods.tasks import TOY_QUESTIONS
from gradus.types import Failed, Frozen, NotApplicable, Request
from gradus.types.moments import Steps
from gradus.types.parts import Judgement

TASK = checked(level=2)
ACTOR = replace(REFINES, player="policy")


def judged(critique, refined, *, answer="no", reward=None):
    """The judgement of a critique on a problem with this verdict; `refined` tells whether the actor then answers right. Returns the metrics, too."""
    problem = next(p for p in TASK.source.draw(range(20), None, scripted_world(TASK, lambda ask: "")[0].seed) if p.answer == answer)
    ((question, due),) = problem.meta["questions"]

    def speak(ask):
        if "downstream" not in ask.request.tags:
            return critique
        told = ask.parent
        seen.append(policy.text(told.sequence))
        return f"={due}" if refined else f"={due + 1}"

    seen = []
    world, policy = scripted_world(TASK, speak, reward=reward or Helpful(ACTOR))
    (group,) = asyncio.run(SingleTurn().run([Request(problem, 1)], world))
    assert seen == [f"{question}\n{critique}\nSolve the problem again."]  # the actor reads problem, answer and critique
    return group.trajectories[0], world.notes


def test_leave_one_out_advantages_by_hand():
    # the mean of the other three: 1/3 for a 1, 2/3 for a 0
    assert leave_one_out(np.array([1.0, 0.0, 0.0, 1.0])) == pytest.approx([2 / 3, -2 / 3, -2 / 3, 2 / 3])
    assert leave_one_out(np.array([1.0])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("verdict", "refined", "reward"), [("no", True, 1.2), ("yes", True, 1.0), ("no", False, 0.2), ("yes", False, 0.0), ("well", True, 1.0)]
)
def test_the_reward_of_stage_two_for_a_wrong_answer(verdict, refined, reward):
    one, notes = judged(f"so={verdict}", refined)
    assert one.reward == pytest.approx(reward)
    assert one.components == {"verified": float(verdict == "no"), "refined": float(refined)}
    assert one.right == (verdict == "no")  # the accuracy of a critic is that of its verdicts
    assert notes == {"refined": float(refined), "fixed": float(refined)}


def test_a_right_answer_can_be_broken():
    one, notes = judged("so=yes", False, answer="yes")
    assert one.reward == pytest.approx(0.2)
    assert notes == {"refined": 0.0, "broken": 1.0}


@pytest.mark.parametrize(("verdict", "refined", "reward"), [("no", True, 1.2), ("no", False, 0.2), ("yes", True, -1.0), ("", True, -1.0)])
def test_the_released_form_punishes_a_false_verdict(verdict, refined, reward):
    one, _ = judged(f"so={verdict}", refined, reward=Helpful(ACTOR, strict=True))
    assert one.reward == pytest.approx(reward)


def test_rates_of_fixed_and_broken_answers_give_the_accuracy_after_refinement():
    rng = np.random.default_rng(0)
    before, after = rng.random(200) < 0.6, rng.random(200) < 0.7
    noted = [changed(bool(b), float(a)) for b, a in zip(before, after, strict=True)]
    rates = {name: np.mean([n[name] for n in noted if name in n]) for name in ("refined", "fixed", "broken")}
    accuracy = before.mean()
    assert rates["refined"] == pytest.approx(accuracy * (1 - rates["broken"]) + (1 - accuracy) * rates["fixed"])


def test_a_failed_part_fails_the_reward():
    class Lost(RightOrWrong):
        async def score(self, groups, signals, world):
            return [[Judgement(Failed("lost")) for _ in g.trajectories] for g in groups]

    world, _ = scripted_world(TASK, lambda ask: "so=no", reward=Helpful(Lost()))
    (problem,) = TASK.source.draw([0], None, world.seed)
    (group,) = asyncio.run(SingleTurn().run([Request(problem, 1)], world))
    assert isinstance(group.trajectories[0].reward, Failed)
    assert not isinstance(group.trajectories[0].reward, NotApplicable)
    assert world.notes == {}


def test_stage_one_trains_the_verdict_and_stage_two_the_help():
    stages = critique_rl.schedule.stages
    assert list(stages) == ["judge", "help"]
    assert stages["judge"].changes == {"reward": Verified()}
    assert [s.until for s in stages.values()] == [Steps(500), Steps(500)]
    assert critique_rl.reward == Helpful()


@pytest.mark.nightly
def test_the_actor_stays_frozen_and_the_reference_moves_to_the_critic_of_stage_one():
    moves = LengthEffort(64)  # a reward that differs between critiques from the first step on
    made = critique_rl.but(reward=Helpful(verdict=moves), schedule__stages__judge__changes=Frozen(reward=moves), credit__coefficient=0.0)
    seen, rows = [], []

    def keep(run, metrics, groups):
        rows.append(metrics)
        seen.append({n: [p.detach().clone() for p in player.policy.network.parameters()] for n, player in run.players.items()})

    small = {"setting__prompts": 1, "setting__group": 4, "setting__save_every": 0, "setting__warmup": 0}
    gradus.train(made, "checked", task_options={"level": "1"}, steps=4, on_step=keep, study=None, setting__learning_rate=1e-3, **small)

    def same(a, b):
        return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))

    assert [row["stage"] for row in rows] == ["judge", "judge", "help", "help"]
    assert not same(seen[1]["policy"], seen[0]["policy"])
    assert all(same(row["actor"], seen[0]["actor"]) for row in seen)  # also in stage II
    assert same(seen[1]["reference"], seen[0]["actor"])  # both begin as the start model
    assert same(seen[3]["reference"], seen[1]["policy"])  # the critic at the end of stage I
    assert ["refined" in row for row in rows] == [False, False, True, True]


def test_its_changes_and_the_limit_at_which_it_is_rloo():
    assert {"reward", "credit", "players.actor", "players.reference", "schedule"} <= set(changes(rloo, critique_rl))
    alone = critique_rl.but(
        reward=Helpful(refinement=Verified(), weight=0.0), credit__coefficient=0.0, schedule=ConstantSchedule(), requires=frozenset()
    )
    assert critique_rl.credit.rule == LeaveOneOut()
    check_same_update(alone, rloo.but(setting__group=4), task=TOY_QUESTIONS)
    check_different_update(critique_rl.but(schedule=ConstantSchedule()), rloo.but(setting__group=4), task=TOY_QUESTIONS)
