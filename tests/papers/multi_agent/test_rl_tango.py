"""RL Tango: step rewards, joined advantages, scaled classes and rewards of verdicts by hand, and the limit at which it is GRPO."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from gradus.credit.class_balanced import TRUTH
from gradus.credit.groups import GroupRelative
from gradus.papers.bases.grpo import grpo
from gradus.papers.multi_agent.rl_tango import (
    VERDICT,
    StepVerdicts,
    WithVerdicts,
    form_score,
    read,
    rl_tango,
    step_rewards,
    verdict_row,
)
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.taking_turns import TakingTurns
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.testing.methods import TOY, check_different_update, scripted_world, toy_trajectory, weights_after
from gradus.testing.methods.runs import toy_run
from gradus.training.launch import go
from gradus.types import Frozen, Group, Request
from gradus.types.moments import Moment
from gradus.updates.only_players import OnlyPlayers


def answer(name, verdicts, reward, lengths=None):
    """An answer whose steps have these verdicts and numbers of tokens."""
    lengths = lengths or [1] * len(verdicts)
    made = toy_trajectory([2] * sum(lengths), name=name, reward=reward)
    span = np.repeat(np.arange(len(verdicts)), lengths).astype(np.int32)
    streams = Frozen(span=span, verdict=verdict_row(span, [v > 0 for v in verdicts]))
    return made.but(contexts=(replace(made.contexts[0], streams=streams),))


def advantages(rule, *answers):
    return [c.advantages.tolist() for c in rule.assign([Group("g", answers)], {})[0]]


def test_step_rewards_by_hand():
    assert step_rewards([1, 1, -1]) == pytest.approx([1 / 3, 1 / 3, -1 / 3])
    assert step_rewards([1, 1, -1, 1, 1, -1]).sum() == pytest.approx(step_rewards([1, 1, -1]).sum())  # twice the steps: the same sum
    assert step_rewards([1, 0]).tolist() == [0.5, 0.0]  # no verdict on the second step
    assert step_rewards([]).tolist() == []


def test_joined_advantages_by_hand():
    # a: steps +1/2, -1/2, right; b: step -1, wrong. Pool (.5, -.5, -1): mean -1/3, deviation sqrt(((5/6)^2 + (1/6)^2 + (2/3)^2) / 3) = sqrt(7/18)
    found = advantages(StepVerdicts(alpha=0.25), answer("a", [1, -1], 1.0, [2, 1]), answer("b", [-1], 0.0, [2]))
    d = math.sqrt(7 / 18)
    first, second, third = (5 / 6) / d, (-1 / 6) / d, (-2 / 3) / d
    assert found[0] == pytest.approx([0.75 + 0.25 * (first + second)] * 2 + [0.75 + 0.25 * second])  # the sum of this step and the later ones
    assert found[1] == pytest.approx([-0.75 + 0.25 * third] * 2)


def test_alpha_zero_gives_exactly_the_advantages_of_grpo():
    answers = [answer(str(i), v, r, n) for i, (v, r, n) in enumerate([([1, -1], 1.0, [2, 1]), ([-1], 0.0, [3]), ([1, 1, 1], 0.3, [1, 1, 1])])]
    assert advantages(StepVerdicts(alpha=0.0), *answers) == advantages(GroupRelative(), *answers)
    one = advantages(StepVerdicts(alpha=0.0), answers[0])
    assert one == [[0.0, 0.0, 0.0]]  # a group of one


def test_tokens_outside_of_steps_and_equal_verdicts():
    a, b = answer("a", [1], 1.0, [2]), answer("b", [1], 0.0, [2])
    streams = Frozen(span=np.array([-1, 0], np.int32), verdict=np.array([0.0, 1.0]))
    loose = a.but(contexts=(replace(a.contexts[0], streams=streams),))
    assert advantages(StepVerdicts(alpha=0.5), loose, b) == [[0.5, 0.5], [-0.5, -0.5]]  # equal step rewards have no deviation
    wrong = answer("b", [-1], 0.0, [2])
    assert advantages(StepVerdicts(alpha=0.5), loose, wrong) == [[1.0, 1.0], [-1.0, -1.0]]  # the step of the second token ends after the first token
    behind = a.but(contexts=(replace(a.contexts[0], streams=Frozen(span=np.array([0, -1], np.int32), verdict=np.array([1.0, 0.0]))),))
    assert advantages(StepVerdicts(alpha=0.5), behind, wrong) == [[1.0, 0.5], [-1.0, -1.0]]  # no step ends at the second token or later


@pytest.mark.parametrize(
    ("text", "steps", "final"),
    [("yes no yes =no", [True, False, True], False), ("yes yes =yes", [True, True], True), ("yes", [True], None), ("=", [], None), ("so =well", [False], None)],
)
def test_verdicts_are_read_from_the_text(text, steps, final):
    assert read(text) == (steps, final)


def test_the_form_loses_a_half_for_each_unmet_criterion():
    assert [form_score(3, 3, True), form_score(2, 3, False), form_score(3, 3, None), form_score(0, 3, None)] == [1.0, 0.5, 0.5, 0.0]


TASK = arithmetic(2)


def judged(said, right=True):
    world, policy = scripted_world(TASK, lambda ask: said(ask) if "verdicts" in ask.request.tags else solution, reward=Verified())
    (problem,) = TASK.source.draw([0], 2, world.seed)
    solution = str(problem.meta["solution"]) if right else str(problem.meta["solution"])[:-1] + "x"
    (group,) = asyncio.run(WithVerdicts(samples=2, player="policy").run([Request(problem, 1)], world))
    return group.trajectories[0], asyncio.run(world.aside()), world, policy


def test_the_verifier_earns_its_final_verdict_and_its_form():
    steps = len(str(TASK.source.draw([0], 2, scripted_world(TASK, lambda a: "")[0].seed)[0].meta["solution"]).split(" "))
    good, bad = " ".join(["yes"] * steps) + " =yes", "yes =no"
    one, (group,), world, policy = judged(lambda ask: bad if ask.key.value % 2 else good)
    assert one.reward == 1.0
    assert policy.text(group.trajectories[0].contexts[0].prefix) == f"verify {one.problem.question}\n{one.completion}"
    for t in group.trajectories:
        due = (1.0, 1.0) if t.completion == good else (0.0, 0.5)  # right verdict and full form; wrong verdict and half of the form
        assert (t.components["hit"], t.components["form"]) == due
        assert t.reward == pytest.approx(due[0] + 0.8 * due[1])
        assert t.links[TRUTH] is True
    assert group.aside
    assert set(world.notes) == {"verdicts/final", "verdicts/form", "verdicts/steps"}


def test_a_wrong_answer_is_judged_right_by_the_verdict_no():
    one, (group,), _, _ = judged(lambda ask: "no =no", right=False)
    assert one.reward == 0.0
    assert [t.components["hit"] for t in group.trajectories] == [1.0, 1.0]


def test_the_answer_gets_the_verdicts_of_the_first_text_on_its_steps():
    one, _, _, _ = judged(lambda ask: "yes no =yes")
    (context,) = one.contexts
    span, verdict = context.streams["span"], context.streams[VERDICT]
    assert set(verdict[span == 0]) == {1.0}
    assert set(verdict[span == 1]) == {-1.0}
    assert set(verdict[span > 1]) <= {0.0}


def test_the_schedule_warms_the_verifier_up_and_then_takes_turns():
    parts = rl_tango.schedule.parts
    assert parts["turns"] == TakingTurns(("policy", "policy", "policy", "verifier"), OnlyPlayers(update=None), warmup=40)
    assert [parts["turns"].player(s)[0] for s in range(38, 50)] == list("vvpppvpppvpp")
    alphas = [parts["alpha"].value(Moment(step=s, steps=200)) for s in (0, 100, 200)]
    assert alphas == pytest.approx([0.1, 0.01, 0.001])  # .1 * .01^(1/2) in the middle


def test_no_step_label_is_used_and_only_the_player_of_the_step_moves():
    made = rl_tango.but(schedule__parts__turns__warmup=1, rollout__samples=4)
    run = toy_run(made, task=TOY, steps=2, prompts=4, group=8)
    seen = [{n: [p.detach().clone() for p in run.players[n].policy.network.parameters()] for n in ("policy", "verifier")}]

    def keep(run, metrics, groups):
        seen.append({n: [p.detach().clone() for p in run.players[n].policy.network.parameters()] for n in ("policy", "verifier")})

    run.on_step = keep
    go(run)
    moved = [{n for n in a if any(not torch.equal(x, y) for x, y in zip(a[n], b[n], strict=True))} for a, b in pairwise(seen)]
    assert moved == [{"verifier"}, {"policy"}]


def test_without_step_verdicts_the_generator_learns_as_by_grpo():
    plain = rl_tango.but(credit__alpha=0.0, schedule=ConstantSchedule())
    ours, base = (weights_after(r, steps=2, task=TOY, group=8)["policy.logits"] for r in (plain, grpo))
    assert torch.equal(ours, base)
    assert {"rollout", "credit", "schedule", "players.verifier"} <= set(changes(grpo, rl_tango))
    check_different_update(plain.but(credit__alpha=0.9), grpo, task=TOY, group=8)
