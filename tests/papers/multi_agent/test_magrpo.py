"""MAGRPO: returns and advantages by hand, agents that do not touch each other's gradient, levels, and the limit at which it is REINFORCE."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.credit.gae import discounted
from gradus.credit.groups import GroupRelative
from gradus.objectives.terms import evaluate
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.multi_agent.magrpo import JointReturns, centred_by_turn, magrpo
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.seats import Seats
from gradus.tasks.code.code_pair import code_pair
from gradus.testing.methods import TOY_EPISODES, check_different_update, check_same_update, scripted_world
from gradus.types import Group, Request, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb
from tests.papers.credit.test_gigpo import episode
from tests.papers.multi_agent.test_at_grpo import TASK as RELAY
from tests.rollouts.test_seats import Guess, World

ONE_TURN = replace(TOY_EPISODES, environment=World(Guess))


def rows(rule, *episodes):
    return [c.advantages.tolist() for c in rule.assign([Group("g", episodes)], {})[0]]


def test_joint_returns_give_the_same_advantages_to_both_agents():
    made = [np.array([r]) for r in (3.0, 1.0, 2.0, 2.0)]
    assert [row.tolist() for row in centred_by_turn(made)] == [[1.0], [-1.0], [0.0], [0.0]]
    for _agent in range(2):  # a group has the trajectories of one agent; both agents have the joint rewards
        episodes = [episode(str(i), [0], [float(r[0])], lengths=[2]) for i, r in enumerate(made)]
        assert rows(JointReturns(), *episodes) == [[1.0, 1.0], [-1.0, -1.0], [0.0, 0.0], [0.0, 0.0]]


def test_returns_of_turns_by_hand():
    assert discounted(np.array([1.0, 2.0]), gamma=1.0).tolist() == [3.0, 2.0]
    # returns (3, 2) and (1, 0): means 2 and 1 of the two turns; a third sample with one turn counts in the first mean only
    assert rows(JointReturns(), episode("a", [0, 1], [1, 2]), episode("b", [0, 1], [1, 0])) == [[1.0, 1.0], [-1.0, -1.0]]
    found = rows(JointReturns(), episode("a", [0, 1], [1, 2], lengths=[1, 2]), episode("b", [0, 1], [1, 0]), episode("c", [0], [2]))
    assert found == [[1.0, 1.0, 1.0], [-1.0, -1.0], [0.0]]
    assert rows(JointReturns(0.5), episode("a", [0, 1], [1, 2]), episode("b", [0, 1], [1, 0])) == [[0.5, 1.0], [-0.5, -1.0]]


def test_no_deviation_a_group_of_one_and_equal_rewards():
    assert rows(JointReturns(), episode("a", [0], [10]), episode("b", [0], [0])) == [[5.0], [-5.0]]
    assert rows(JointReturns(), episode("a", [0], [1])) == [[0.0]]
    assert rows(JointReturns(), episode("a", [0], [0.3]), episode("b", [0], [0.3])) == [[0.0], [0.0]]


def test_the_gradient_of_one_agent_does_not_depend_on_the_other_agents_log_probs():
    groups = []
    for seat in "AB":
        made = [episode(f"{seat}{i}", [0], [r], lengths=[2]) for i, r in enumerate((1.0, 0.0))]
        credited = [t.but(advantages=c.advantages) for t, c in zip(made, JointReturns().assign([Group("g", tuple(made))], {})[0], strict=True)]
        groups.append(Group(seat, tuple(credited)))
    batch = make_batch(groups, {}, dtype=torch.float64)

    def slopes(others):
        logprobs = torch.tensor([-0.5] * 4 + others, dtype=torch.float64, requires_grad=True)
        loss, _ = evaluate(magrpo.objective, {LogProb(): logprobs}, replace(batch, old={LogProb(): logprobs.detach()}))
        loss.backward()
        return logprobs.grad[:4].tolist()

    assert slopes([-0.1, -2.0, -3.0, -0.7]) == slopes([-1.0] * 4)
    assert slopes([-1.0] * 4) == pytest.approx([-0.125, -0.125, 0.125, 0.125])  # advantage 1/2, over 4 trajectories


TASK = code_pair()


def pair(helper, main, turns=1):
    task = replace(TASK, environment=replace(TASK.environment, limit=turns))
    world, policy = scripted_world(task, lambda ask: {"helper": helper, "main": main}[ask.request.tags[ask.request.tags.index("seat") + 1]])
    (problem,) = task.source.draw([0], 1, world.seed)
    groups = asyncio.run(magrpo.rollout.run([Request(problem, 1)], world))
    return groups, problem, policy


def lines():
    _, problem, _ = pair("", "")
    return problem.meta["lines"]


def test_both_agents_get_the_joint_reward_and_see_only_their_own_instruction():
    helper, main = lines()
    groups, problem, policy = pair(helper, main)
    assert [g.trajectories[0].links["role"] for g in groups] == ["helper", "main"]
    assert [g.rewards.tolist() for g in groups] == [[1.0], [1.0]]
    seen = [policy.text(g.trajectories[0].contexts[0].prefix) for g in groups]
    assert seen == [f"{problem.question}\nhelper: set a", f"{problem.question}\nmain: print with a"]


@pytest.mark.parametrize(
    ("change", "reward"),
    [
        (lambda h, m: (h, m), 1.0),
        (lambda h, m: (h, m.replace("a", f"({h[2:]})")), 0.75),  # the main player works alone
        (lambda h, m: (h, "print(1)"), 0.5),
        (lambda h, m: (h + "(", m), 0.25),  # a syntax error: no score of tests, though the right line is there
        (lambda h, m: ("b" + h[1:], m), 0.0),
        (lambda h, m: (h, "a"), 0.0),
    ],
)
def test_levels_of_a_program(change, reward):
    groups, _, _ = pair(*change(*lines()))
    assert [g.rewards.tolist() for g in groups] == [[reward], [reward]]


def test_in_a_second_turn_both_see_both_lines_and_the_output():
    helper, _ = lines()
    groups, _, policy = pair(helper, "print(1)", turns=2)
    (context,) = groups[1].trajectories[0].contexts
    assert f"{helper}\nprint(1)\n1\nmain: print with a" in policy.text(context.sequence)
    assert groups[0].trajectories[0].links["turns"] == 2


def test_its_changes_and_the_limit_at_which_it_is_reinforce():
    assert set(changes(reinforce, magrpo)) == {"rollout", "reward", "credit", "setting.group"}
    base = reinforce.but(rollout=Seats(), reward=EnvironmentReturn(), credit=GroupRelative("none"))
    check_same_update(magrpo, base, task=ONE_TURN)
    check_different_update(magrpo, base.but(credit=GroupRelative()), task=ONE_TURN)
    check_different_update(magrpo, base, task=RELAY)  # several turns with rewards: returns differ from turn to turn


def test_a_gamma_above_one_is_refused():
    with pytest.raises(UserError, match="gamma"):
        JointReturns(1.5)
