"""ReTool: advantages by hand, programs that fail or never end, tokens without loss, and the two stages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.credit.gae import gae
from gradus.papers.agents.retool import retool
from gradus.tasks.code.python_tool import python_tool
from gradus.testing.methods.batches import evaluated
from gradus.testing.methods.scripted import scripted_world
from gradus.tools.python import Python
from gradus.types import Frozen, Group, Key, Request
from gradus.types.batch import make_batch
from gradus.types.moments import Steps
from gradus.types.signals import LogProb, Value, Values
from tests.sandbox.isolated import isolated

FAST = replace(retool.environment, tools=Frozen(python=Python(seconds=0.5)))
TASK = replace(python_tool(1, instruction=False), environment=FAST)
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))
ANSWER = f"<answer>{PROBLEM.answer}</answer>"


def played(script: list[str]):
    world, policy = scripted_world(TASK, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=retool.reward)
    (group,) = asyncio.run(retool.rollout.run([Request(PROBLEM, 1)], world))
    return group.trajectories[0], policy


def test_advantages_by_hand():
    found = gae(np.array([0.0, 0.0, 1.0]), np.array([0.2, 0.5, 0.9]), gamma=retool.credit.gamma, lam=retool.credit.lam)
    np.testing.assert_allclose(found, [0.8, 0.5, 0.1])


@isolated
def test_errors_come_back_as_text_and_the_episode_goes_on():
    one, policy = played(["<code>1 / 0</code>", "<code>while True: pass</code>", "<code>6 * 7</code>", ANSWER])
    (context,) = one.contexts
    assert policy.text(context.tokens[~context.chosen]) == (
        "<interpreter>ZeroDivisionError: division by zero</interpreter><interpreter>stopped: it took too long</interpreter><interpreter>42</interpreter>"
    )
    assert [ok for _, _, ok in one.links["calls"]] == [False, False, True]
    assert len(context.logprobs) == context.chosen.sum() == context.actions  # nothing inserted has a loss
    assert one.reward == 1.0


@isolated
def test_the_losses_have_one_term_for_each_token_of_the_policy():
    one, _ = played(["<code>6 * 7</code>", ANSWER])
    (context,) = one.contexts
    count = int(context.chosen.sum())
    assert count == len("<code>6 * 7</code>" + ANSWER)
    values = np.linspace(-0.5, 0.5, count)
    signals = {Values(player="critic"): {one.id: values}}
    ((credited,),) = retool.credit.assign([Group("g", (one,))], signals)
    plain = 1 - values
    np.testing.assert_allclose(credited.advantages, (plain - plain.mean()) / plain.std(), rtol=1e-6)
    np.testing.assert_allclose(credited.returns, np.ones(count))
    batch = make_batch([Group("g", (one.but(advantages=credited.advantages, returns=credited.returns),))], signals)
    said = torch.tensor(context.logprobs)
    found = evaluated(retool.objective["policy"], {LogProb(): said}, batch)
    np.testing.assert_allclose(found.gradient[LogProb()], -credited.advantages / count, rtol=1e-4)
    found = evaluated(retool.players["critic"].objective["value"], {Value(): torch.tensor(values, dtype=torch.float32)}, batch)
    np.testing.assert_allclose(found.gradient[Value()], (values - 1) / count, rtol=1e-4)


@pytest.mark.parametrize(("said", "reward"), [(ANSWER, 1.0), ("<answer>no</answer>", -1.0), (str(PROBLEM.answer), -1.0)])
def test_the_reward_is_1_or_minus_1(said, reward):
    assert played([said])[0].reward == reward


def test_the_first_stage_learns_traces_in_the_same_form():
    turns = retool.environment.demonstration(PROBLEM)
    assert turns[0][1].startswith("<code>")
    assert turns[0][1].endswith("</code>")
    assert turns[1][1] == ANSWER
    assert list(retool.schedule.stages) == ["sft", "rl"]
    assert retool.schedule.stages["sft"].changes["environment"] == retool.environment
    assert retool.schedule.stages["sft"].until == Steps(150)
    assert retool.schedule.stages["rl"].until == Steps(200)


def test_without_kl():
    assert "reference" not in retool.players
    assert retool.objective.get("kl") is None
