"""RLinf-VLA with PPO: the loss by hand in plain loops, its limit, the levels as fields, the numbers of the paper."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import gradus
from gradus.credit.chunks import ChunkGAE
from gradus.credit.gae import GAE
from gradus.objectives.ratios import JointRatio
from gradus.objectives.terms import evaluate
from gradus.papers.systems.rlinf_vla import rlinf_vla
from gradus.rollouts.lanes import Lanes
from gradus.testing.methods import check_different_update, check_same_update, train_toy
from gradus.testing.methods.control import toy_control, toy_reacher
from gradus.types import Context, Ended, Frozen, Group, Problem, Trajectory
from gradus.types.batch import make_batch
from gradus.types.control import EndValues
from gradus.types.signals import LogProb, Values

SMALL = {"task": toy_reacher(), "group": 2, "steps": 2}


def chunk(reward_at: int, *, executed: int = 3) -> Trajectory:
    """One chunk of three actions of two tokens. The action number `reward_at` earns 1."""
    step = np.repeat([0, 1, 2], 2).astype(np.int32)
    step[2 * executed :] = -1
    context = Context(
        np.zeros(6, np.int32),
        np.ones(6, bool),
        logprobs=np.full(6, -1.0, np.float32),
        rewards=((2 * reward_at + 1, "environment", 1.0),),
        streams=Frozen(turn=np.zeros(6, np.int32), step=step),
    )
    return Trajectory("t", Problem("p", "toy"), (context,), reward=1.0, ended=Ended.ENVIRONMENT)


@pytest.mark.parametrize("ratio", ["token", "action", "chunk"])
def test_the_loss_equals_plain_loops(ratio):
    trajectory, values = chunk(1, executed=2), np.repeat([0.2, 0.4, 0.7], 2)
    rule = ChunkGAE(0.99, 0.95, whitened=False)
    ((found,),) = rule.assign([Group("g", (trajectory,))], {Values(player="critic"): {"t": values}, EndValues(player="critic"): {}})
    last = 1 - 0.4  # the error at the action with the reward; nothing follows
    first = 0.99 * 0.4 - 0.2 + 0.99 * 0.95 * last
    assert found.advantages == pytest.approx([first, first, last, last, 0, 0])

    batch = make_batch([Group("g", (trajectory.but(advantages=found.advantages, weights=found.weights),))], dtype=torch.float64)
    shifts = [0.3, 0.1, -0.4, 0.05, 0.6, 0.7]
    joint = {"token": shifts, "action": [0.4, 0.4, -0.35, -0.35, 1.3, 1.3], "chunk": [sum(shifts)] * 6}[ratio]
    due = 0.0
    for shift, advantage, weight in zip(joint, found.advantages, [1, 1, 1, 1, 0, 0], strict=True):
        r = float(np.exp(shift))
        due += -weight * min(r * advantage, min(max(r, 0.8), 1.28) * advantage) / 6
    part = rlinf_vla.objective["policy"].ratio if ratio == "token" else JointRatio("step" if ratio == "action" else "turn")
    terms = Frozen(policy=rlinf_vla.but(objective__policy__ratio=part).objective["policy"])
    batch.old[LogProb()] = torch.full((6,), -1.0, dtype=torch.float64)
    loss, _ = evaluate(terms, {LogProb(): torch.tensor(shifts, dtype=torch.float64) - 1.0}, batch)
    assert float(loss) == pytest.approx(due, abs=1e-12)


def test_with_single_steps_it_is_ppo_on_lanes():
    """The pendulum's action is one number in one step, so an action is one token."""
    plain = rlinf_vla.but(credit=GAE(gamma=0.99, lam=0.95), rollout=Lanes(length=12), players__critic__model__each_step=False)
    check_same_update(rlinf_vla, plain, task=toy_control(), steps=2)
    check_different_update(rlinf_vla.but(credit__lam=0.5), plain, task=toy_control(), steps=2)


def test_the_levels_are_fields_and_change_the_update():
    chunks = rlinf_vla.but(credit__level="chunk", players__critic__model__each_step=False)
    check_different_update(chunks, rlinf_vla, **SMALL)
    for of in ("turn", "step"):
        check_different_update(rlinf_vla.but(objective__policy__ratio=JointRatio(of)), rlinf_vla, **SMALL)
    check_same_update(rlinf_vla.but(rollout__parts=1), rlinf_vla, **SMALL)


def test_episodes_go_on_in_the_next_step_and_a_finished_one_is_followed_at_once():
    seen = []
    train_toy(rlinf_vla, watch=lambda run, row, groups: seen.append([t for g in groups for t in g.trajectories]), **{**SMALL, "steps": 4})
    ends = [t.ended for step in seen for t in step]
    assert {Ended.LENGTH} < set(ends) <= {Ended.LENGTH, Ended.ENVIRONMENT, Ended.TRUNCATED}
    for step in seen:  # every lane plays all its turns
        turns = [len(set(c.streams["turn"].tolist())) for t in step for c in t.contexts]
        assert sum(turns) == 6 * 4  # two problems with two lanes each, and the toy run cuts a lane to six turns


def test_a_picture_and_convolutions(tmp_path: Path):
    """One small step of the whole recipe on pictures."""
    small = {"players__policy__model__kind": "cnn", "players__critic__model__kind": "cnn", "rollout__rollout__length": 2}
    made = rlinf_vla.but(study=None, setting__prompts=2, setting__group=1, setting__steps=1, **small)
    run = gradus.train(made, task="reacher", task_options={"show": "image"}, run=tmp_path / "run")
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert row["length"] == 16  # two chunks of four actions of two tokens
    assert row["critic/value_error"] > 0
    assert run.step == 1


def test_the_numbers_of_the_paper():
    policy, critic = rlinf_vla.objective["policy"], rlinf_vla.players["critic"]
    assert (policy.trust.low, policy.trust.high, rlinf_vla.credit.gamma, rlinf_vla.credit.lam) == (0.2, 0.28, 0.99, 0.95)
    assert (critic.objective["value"].clip, critic.optimizer.lr, rlinf_vla.rollout.parts) == (0.2, 3e-3, 2)
    assert "kl" not in rlinf_vla.objective
    assert "reference" not in rlinf_vla.players
