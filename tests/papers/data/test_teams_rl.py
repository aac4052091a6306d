"""TeaMs-RL: its numbers, the bound of every step, its limit, and that the policy finds operations that add something."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from gradus.api import train
from gradus.credit.gae import gae
from gradus.credit.groups import BatchBaseline
from gradus.papers.bases.trpo import trpo
from gradus.papers.data.teams_rl import data_set, diverse, fails, operations, teams_rl
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.tasks.control.rewriting import TOPICS, answer, first, instruction, moved, rewriting
from gradus.testing.methods import toy_trajectory
from gradus.types import Group
from gradus.types.players import Fresh
from gradus.updates.minibatches import Minibatches

SMALL = teams_rl.but(study=None, setting__prompts=4, setting__group=8, setting__save_every=0, setting__learning_rate=1e-3)


def weights(recipe, steps):
    run = train(recipe, task=rewriting(), steps=steps, seed=0)
    return {n: w.clone() for n, w in run.players["policy"].policy.network.state_dict().items()}


@pytest.mark.nightly
def test_every_step_keeps_the_bound_and_the_policy_learns():
    run = train(SMALL.but(setting__prompts=8), task=rewriting(), steps=20, seed=0)
    taken = [row for row in run.metrics if not row["skipped"]]
    assert len(taken) > 15
    assert all(0 < row["update_kl"] <= 0.01 and row["gain"] > 0 for row in taken)
    rewards = [row["reward"] for row in run.metrics]
    assert all(0 <= r <= 4 for r in rewards)
    assert np.mean(rewards[-3:]) > 1.5 * np.mean(rewards[:3])


def test_advantages_by_hand():
    # rewards 1 0, values .5 .5: delta_2 = -.5, delta_1 = 1 + .995 * .5 - .5 = .9975; A_1 = .9975 - .995 * .97 * .5
    rule = teams_rl.credit
    found = gae(np.array([1.0, 0.0]), np.array([0.5, 0.5]), gamma=rule.gamma, lam=rule.lam)
    assert_allclose(found, [0.9975 - 0.995 * 0.97 * 0.5, -0.5])


def test_without_the_critic_it_is_trpo_on_episodes():
    ours = weights(SMALL.but(credit=BatchBaseline(), players__critic=None), 3)
    base = trpo.but(rollout=Episodes(), reward=EnvironmentReturn(), players__policy__model=Fresh(), study=None)
    base = base.but(setting__prompts=4, setting__group=8, setting__save_every=0, setting__learning_rate=1e-3, update__others=Minibatches(epochs=4))
    theirs = weights(base, 3)
    assert all(torch.equal(ours[n], theirs[n]) for n in theirs)
    with_critic = weights(SMALL, 3)
    assert not all(torch.equal(with_critic[n], theirs[n]) for n in theirs)


def test_the_data_set_has_no_instruction_twice():
    rows = [(3, 1), (3, 1), (1, 3), (0, 2)]
    episodes = Group("p", tuple(toy_trajectory(list(row), name=str(i)) for i, row in enumerate(rows)))
    assert operations([episodes, Group("q", ())]) == rows
    assert diverse([instruction(0, row) for row in rows]) == ["Explain one example of rivers. Meet 1 constraint.", "Explain rivers."]
    assert diverse([]) == []


def test_the_rows_have_a_prompt_and_a_solution_for_every_topic():
    episodes = [(3, 1), (1, 3), (4,)]  # (1, 3) repeats (3, 1)
    rows = data_set((instruction(topic, row), answer(topic, row)) for row in episodes for topic in range(len(TOPICS)))
    assert len(rows) == 2 * len(TOPICS)
    assert rows[0] == {
        "prompt": "Explain one example of rivers. Meet 1 constraint.",
        "solution": "An example of rivers follows. Constraint 1 is met.",
    }
    assert rows[-1] == {"prompt": "Explain salt.", "solution": "A text about salt follows."}
    assert data_set([]) == []


def test_the_reward_is_not_diversity():
    assert instruction(0, [1, 0, 1, 0]) == f"Explain {TOPICS[2]}."  # each of the four rewrites adds something
    state, rewards = first(0.0, 4), []
    for operation in (1, 0, 1, 0):
        state, reward, _ = moved(state, operation)
        rewards.append(reward)
    assert rewards == [1, 1, 1, 1]


def test_failed_and_repeated_rows_are_left_out():
    given = [("Explain bees.", "Sorry, no."), ("Explain bees.", "Bees fly."), ("explain bees.", "Bees hum."), ("Explain maps.", "The.")]
    assert data_set(given) == [{"prompt": "Explain bees.", "solution": "Bees fly."}]


@pytest.mark.parametrize(
    ("text", "reply", "due"),
    [
        ("Explain bees.", "Bees fly.", False),
        ("Explain the #Given Prompt#.", "Bees fly.", True),
        ("Explain bees.", "Sorry " + "bee " * 78, True),  # 79 words
        ("Explain bees.", "Sorry " + "bee " * 79, False),  # 80 words
        ("Explain bees.", "The, and of.", True),
        ("Explain bees.", " ... ", True),
        ("Explain bees.", "The bee.", False),
    ],
)
def test_filters(text, reply, due):
    assert fails(text, reply) is due


def test_the_published_numbers():
    update = teams_rl.update
    assert (update.max_kl, update.damping, update.iterations, update.backtracks, update.shrink) == (0.01, 0.1, 10, 10, 0.5)
    assert (teams_rl.credit.gamma, teams_rl.credit.lam) == (0.995, 0.97)
    assert {"credit", "rollout", "reward"} <= set(changes(trpo, teams_rl))
    assert teams_rl.players["critic"].objective["value"].clip is None
    assert teams_rl.players["policy"].model == Fresh(hidden=(64, 64))


@pytest.mark.parametrize("text", ["Explain bees.", " explain  BEES."])
def test_blanks_and_capitals_make_no_difference(text):
    assert diverse(["Explain bees.", text]) == ["Explain bees."]
