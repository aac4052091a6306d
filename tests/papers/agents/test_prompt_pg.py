"""PromptPG: probabilities and loss by hand, draws without replacement, and that nothing but one linear layer changes."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.api import train
from gradus.environments.examples import DrawnExamples
from gradus.objectives.terms import evaluate
from gradus.papers.agents.prompt_pg import prompt_pg
from gradus.papers.bases.reinforce import reinforce
from gradus.players.build import build_players
from gradus.policies.controller import Controller, config_for
from gradus.tasks.maths.tables import tables
from gradus.testing.methods import toy_group
from gradus.training.world import RunWorld
from gradus.types import Frozen, Group, Key, Request, Sampling
from gradus.types.batch import make_batch
from gradus.types.players import Fresh
from gradus.types.signals import LogProb
from gradus.types.spaces import Choice

SMALL = prompt_pg.but(study=None, setting__prompts=4, setting__save_every=0)


def worlds_task(problems=40):
    """Tables whose verifier calls every answer to a question about a value right: rewards of both signs."""
    return replace(tables(problems=problems), verify=lambda problem, said: float(problem.meta["category"] in ("value", "mean")))


def selector(barred=None):
    """h is the identity on two numbers; dot products with the question are 1, 0 and 0."""
    shown = {"query": np.array([1.0, 0.0]), "candidates": np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])}
    shown |= {} if barred is None else {"barred": np.array(barred, float)}
    policy = Controller.fresh(config_for(Fresh(kind="pointer", hidden=(2,)), shown, Choice(("1", "2", "3"))), Key(1), torch.float64)
    with torch.no_grad():
        policy.network.pointer.weight.copy_(torch.eye(2))
        policy.network.pointer.bias.zero_()
    return policy, policy.opening(shown)


class Ask:
    version, request = 0, None

    def __init__(self, parent, temperature, key):
        self.parent, self.at, self.sampling, self.key = parent, 1, Sampling(temperature=temperature), key


def drawn(policy, context, temperature=1.0, count=1):
    return policy.act([Ask(context, temperature, Key(5).fold(i)) for i in range(count)])


def test_dot_products_give_the_probabilities():
    # e / (e + 2) = 2.71828 / 4.71828 = 0.5761; 1 / 4.71828 = 0.2119
    policy, first = selector()
    found = policy.evaluate([first.then(policy.told(i)) for i in range(3)], [LogProb()])[LogProb()].exp()
    assert_close(found, torch.tensor([0.5761, 0.2119, 0.2119], dtype=torch.float64), atol=5e-5, rtol=0)


def test_a_draw_leaves_out_the_drawn_one_but_its_log_probability_is_under_the_full_softmax():
    policy, first = selector(barred=[1, 0, 0])
    made = drawn(policy, first, count=400)
    tokens = [int(c.tokens[0]) for c in made]
    assert set(tokens) == {1, 2}
    assert abs(tokens.count(1) / 400 - 0.5) < 0.1  # 4 deviations of 1/2 over 400 draws
    assert made[0].logprobs[0] == pytest.approx(-math.log(math.e + 2))  # log 0.2119, not log 0.5
    again = policy.evaluate([first.then(policy.told(tokens[0]))], [LogProb()])[LogProb()]
    assert again.item() == pytest.approx(made[0].logprobs[0])


def test_draws_follow_the_probabilities_of_the_candidates_that_are_left():
    # 0 and 2 are left, with e and 1: e / (e + 1) = 2.71828 / 3.71828 = 0.7311; without a barred one 0 has 0.5761
    for barred, share in (([0, 1, 0], 0.7311), (None, 0.5761)):
        policy, first = selector(barred)
        tokens = [int(c.tokens[0]) for c in drawn(policy, first, count=400)]
        assert tokens.count(0) / 400 == pytest.approx(share, abs=0.1)  # 4 deviations, sqrt(p (1 - p) / 400) <= 0.025, over 400 draws


def test_at_test_time_the_likeliest_candidates_are_taken():
    for barred, best in (([0, 0, 0], 0), ([1, 0, 0], 1), ([1, 1, 0], 2)):
        policy, first = selector(barred)
        assert {int(c.tokens[0]) for c in drawn(policy, first, temperature=0.0, count=20)} == {best}


def credited(rewards):
    """Trajectories of two draws with the recipe's credit; the reward stands at the second draw."""
    group = toy_group(*rewards)
    made = [
        t.but(contexts=(replace(t.contexts[0], rewards=((1, "environment", float(t.reward)),)),)) for t in group.trajectories
    ]
    groups = [Group(str(i), (t,)) for i, t in enumerate(made)]
    rows = prompt_pg.credit.assign(groups, {})
    return [Group(g.key, (g.trajectories[0].but(advantages=c.advantages),)) for g, (c,) in zip(groups, rows, strict=True)]


def loss_of(recipe, groups):
    batch = make_batch(groups, dtype=torch.float64)
    logprobs = torch.tensor([-0.5, -1.0, -2.0, -0.25, -1.5, -3.0], dtype=torch.float64, requires_grad=True)
    (loss, _) = evaluate(recipe.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    return loss.item(), logprobs.grad.tolist()


def test_every_draw_has_the_reward_and_the_loss_is_the_batch_s_sum():
    groups = credited([1.0, -1.0, 1.0])
    assert [g.trajectories[0].advantages.tolist() for g in groups] == [[1, 1], [-1, -1], [1, 1]]  # no baseline, no scaling
    # the gradient of - sum r log pi by log pi is -r: all of the batch's draws, whatever its size
    assert loss_of(prompt_pg, groups)[1] == [-1.0, -1.0, 1.0, 1.0, -1.0, -1.0]


def test_its_loss_is_that_of_reinforce_times_the_batch():
    groups = credited([1.0, -1.0, 1.0])
    (ours, ours_slope), (base, base_slope) = loss_of(prompt_pg, groups), loss_of(reinforce, groups)
    assert ours == pytest.approx(3 * base)
    assert ours_slope == pytest.approx([3 * g for g in base_slope])


def test_only_the_linear_layer_changes_and_draws_are_distinct():
    seen, moved = [], []

    def watch(run, row, groups):
        moved.append({k: w.clone() for k, w in run.players["policy"].policy.network.state_dict().items()})
        seen.extend((row, t) for g in groups for t in g.trajectories)

    task = worlds_task()
    fresh = build_players(SMALL, None, task_with(task), Key(0))
    before = {n: {k: w.clone() for k, w in fresh[n].policy.network.state_dict().items()} for n in ("worker", "encoder")}
    run = train(SMALL, task, steps=3, on_step=watch)
    for name, weights in before.items():
        after = run.players[name].policy.network.state_dict()
        assert all(torch.equal(w, after[k]) for k, w in weights.items())
    network = run.players["policy"].policy.network
    assert {k: list(w.shape) for k, w in network.named_parameters()} == {"pointer.weight": [160, 128], "pointer.bias": [128]}
    assert all(not torch.equal(moved[0][k], moved[2][k]) for k in moved[0])
    assert {t.reward for _, t in seen} == {1.0, -1.0}  # rewards of both signs act
    assert all(row["grad_norm"] > 0 for row, _ in seen)
    for _, t in seen:
        choices = t.completion.split("\n")
        assert len(set(choices)) == len(choices) == 2


def task_with(task):
    return replace(task, environment=DrawnExamples())


def test_the_same_question_always_gets_the_same_shots_at_test():
    task = task_with(worlds_task())
    players = build_players(SMALL, None, task, Key(3))
    problems = task.held_out.draw(range(3), None, Key(0))
    found = []
    for step, sample in ((1, 0), (9, 4)):
        world = RunWorld(
            step=step, purpose="test", seed=Key(step), task=task, players=players, reward=SMALL.reward, sampling=task.sampling, group=1
        )
        greedy = replace(task.sampling, temperature=0.0)
        groups = asyncio.run(SMALL.rollout.run([Request(p, sampling=greedy, sample=sample) for p in problems], world))
        found.append([g.trajectories[0].completion for g in groups])
    assert found[0] == found[1]
    assert all(len(set(shots.split("\n"))) == 2 for shots in found[0])


def test_its_numbers_are_those_of_the_paper():
    assert (prompt_pg.environment.candidates, prompt_pg.environment.shots) == (20, 2)
    assert (prompt_pg.setting.prompts, prompt_pg.setting.group, prompt_pg.optimizer.lr) == (20, 1, 1e-3)
    assert prompt_pg.players["policy"].model == Fresh(kind="pointer", hidden=(128,))
    assert prompt_pg.setting.steps == 30 * 160 // 20
    assert (prompt_pg.optimizer.clip, prompt_pg.optimizer.weight_decay, prompt_pg.setting.warmup) == (None, 0.0, 0)  # plain Adam
    assert isinstance(prompt_pg.players, Frozen)
