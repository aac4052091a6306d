"""MUA-RL: the outcome reward by hand, tokens without loss, fresh data bases, live users, and GRPO at the limit."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from gradus.environments.orders import table_of
from gradus.objectives.kl import KL
from gradus.objectives.terms import evaluate
from gradus.papers.agents.mua_rl import mua_rl
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.recipe.core import changes
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.text.orders import orders
from gradus.testing.methods import TOY_EPISODES, check_same_update, scripted_world
from gradus.testing.methods.compare import check_bound_acts
from gradus.types import Frozen, Group, Key, Request
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs

TASK = orders(2, varied=True)
PROBLEM = next(p for p in TASK.source.draw(range(30), 2, Key(0)) if len(p.meta["outputs"]) == 1)
SAID = [action for _, action in PROBLEM.meta["demonstration"]]
OUTPUT = f"say: {PROBLEM.meta['outputs'][0]}"
WRITE = next(a for a in SAID if a.startswith(("cancel", "return", "swap")))


def played(*scripts: list[str]) -> Group:
    """One dialogue of the same task for each script."""

    def speak(ask):
        script = scripts[ask.request.sample]
        return script[min(ask.request.tags[-1], len(script) - 1)]

    world, _ = scripted_world(TASK, speak, reward=mua_rl.reward)
    (group,) = asyncio.run(mua_rl.rollout.run([Request(PROBLEM, len(scripts))], world))
    return group


def test_the_reward_is_the_final_state_and_the_outputs() -> None:
    reversed_ = [SAID[0], OUTPUT, WRITE, "say: done"]
    untold = [a for a in SAID if a != OUTPUT]
    other = next(code for code, o in table_of(PROBLEM.meta["orders"]).items() if code not in WRITE and o["state"] == "new")
    extra = [*SAID[:-1], f"cancel: {other}", SAID[-1]]
    group = played(SAID, reversed_, untold, extra, ["say: done"])
    assert group.rewards.tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    credited = mua_rl.credit.assign([group], {})[0]
    high, low = 0.6 / np.sqrt(0.24), -0.4 / np.sqrt(0.24)  # mean 2/5, variance 0.24
    assert [c.advantages[-1] for c in credited] == pytest.approx([high] * 2 + [low] * 3, rel=1e-3)


def test_users_and_tools_have_no_loss() -> None:
    group = played(SAID, ["say: done"])
    one = group.trajectories[0]
    assert one.actions == sum(len(action) + 1 for action in SAID)  # each action and its end token; nothing that was read
    assert sum(len(c.tokens) for c in one.contexts) > one.actions
    rows = [t.but(advantages=c.advantages) for t, c in zip(group.trajectories, mua_rl.credit.assign([group], {})[0], strict=True)]
    flat = {t.id: np.full(t.actions, -0.5) for t in rows}
    batch = make_batch([Group("g", tuple(rows))], {LogProbs(player="reference"): flat, LogProbs(): flat}, dtype=torch.float64)
    (context,) = rows[0].contexts
    logits = torch.zeros(len(context.tokens), dtype=torch.float64, requires_grad=True)
    own = torch.cat([logits[torch.tensor(context.chosen)], torch.zeros(rows[1].actions, dtype=torch.float64)])
    loss, _ = evaluate(mua_rl.objective, {LogProb(): own - 0.5}, batch)
    loss.backward()
    assert (logits.grad[~context.chosen] == 0).all()
    assert (logits.grad[context.chosen] != 0).all()


def test_dialogues_of_a_group_have_their_own_users_and_data() -> None:
    group = played(*[SAID] * 8)
    assert group.rewards.tolist() == [1.0] * 8  # the writes of one dialogue are not in the data of another
    assert len({str(t.contexts[0].prefix.tolist()) for t in group.trajectories}) > 1  # the customers begin differently
    assert not np.concatenate([c.advantages for c in mua_rl.credit.assign([group], {})[0]]).any()  # equal rewards give no signal
    assert not mua_rl.credit.assign([played(SAID)], {})[0][0].advantages.any()  # nor does a group of one


def test_its_changes_to_grpo_and_the_numbers_of_the_paper() -> None:
    assert set(changes(grpo, mua_rl)) == {"rollout", "reward", "objective.kl.coefficient", "schedule"}
    assert mua_rl.objective["kl"] == KL(0.001)
    assert (mua_rl.setting.group, mua_rl.rollout.max_turns) == (8, 30)
    trust = mua_rl.objective["policy"].trust
    assert (trust.low, trust.high) == (0.2, 0.2)
    assert [(name, stage.recipe) for name, stage in mua_rl.schedule.stages.items()] == [("sft", sft), ("rl", None)]


def test_the_limit_is_grpo() -> None:
    base = grpo.but(rollout=mua_rl.rollout, reward=mua_rl.reward, setting__group=8)
    check_same_update(mua_rl.but(schedule=ConstantSchedule(), objective=Frozen({**mua_rl.objective, "kl": KL(0.04)})), base, task=TOY_EPISODES)


@pytest.mark.nightly
def test_the_clip_acts() -> None:
    check_bound_acts(mua_rl.but(schedule=ConstantSchedule(), rollout=grpo.rollout, reward=grpo.reward, update__count=4), updates=4)
