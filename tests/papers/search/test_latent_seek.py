"""LatentSeek: rewards, number of states, gradient and Adam by hand, the limit of no state, and a search that stops at a right answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus import api
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.search.latent_seek import (
    Adam,
    LatentGradient,
    OwnChecks,
    PerfectCheck,
    StatesBefore,
    failed_share,
    free_states,
    latent_seek,
    slope,
)
from gradus.rewards.verified import Verified
from gradus.rollouts.single_turn import SingleTurn
from gradus.study.held_out import held_out_requests
from gradus.testing.methods import TOY, check_same_update, scripted_world, toy_run, toy_trajectory
from gradus.training.plan import Plan
from gradus.types import UserError

WEIGHTS = OwnChecks().weights
NAMES = ("calculation", "answer", "completeness", "understanding")


def share(*failed, names=NAMES):
    return failed_share({name: name not in failed for name in names}, WEIGHTS)


def test_the_reward_by_hand() -> None:
    assert share("calculation", "answer") == -0.5  # (2 + 1) / 6
    assert share("answer") == pytest.approx(-0.1667, abs=1e-4)
    assert share("answer") > latent_seek.search.threshold >= -0.2  # so the loop stops
    assert (share(), share(*NAMES)) == (0.0, -1.0)
    assert share("answer", names=NAMES[:2]) == pytest.approx(-1 / 3)  # divided by the weights in use


def test_the_number_of_states_by_hand() -> None:
    assert [free_states(n, rho=0.2, most=300) for n in (40, 4000, 4, 5)] == [8, 300, 0, 1]
    assert free_states(10, rho=0.3, most=300) == 3


def test_one_step_lowers_the_present_tokens_and_reward_0_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    states, head = rng.normal(size=(3, 4)), rng.normal(size=(6, 4))

    def logprob(z, tokens):
        return torch.from_numpy(z @ head.T).log_softmax(-1)[range(3), tokens].sum()

    tokens = (states @ head.T).argmax(1)
    free = torch.tensor(states, requires_grad=True)
    loss = 1.0 * (free @ torch.from_numpy(head).T).log_softmax(-1)[range(3), tokens].sum()  # -R log pi at R = -1
    loss.backward()
    assert slope(states, head, -1.0) == pytest.approx(free.grad.numpy())
    optimizer = torch.optim.Adam([free], lr=0.03)
    adam, moved = Adam(0.03), states
    for _ in range(3):
        optimizer.step()
        moved = adam.step(moved, slope(states, head, -1.0))
    assert moved == pytest.approx(free.detach().numpy())
    once = Adam(0.03).step(states, slope(states, head, -1.0))
    assert logprob(once, tokens) < logprob(states, tokens)
    assert np.array_equal(Adam(0.03).step(states, slope(states, head, 0.0)), states)


def test_own_checks_ask_one_question_each() -> None:
    asked = []

    def speak(ask):
        asked.append(policy.text(ask.parent.sequence))
        return "=no" if asked[-1].startswith("check the calculation") else "=yes"

    world, policy = scripted_world(TOY, speak, reward=Verified())
    answer = toy_trajectory([1]).but(completion="1+1=3")
    assert asyncio.run(OwnChecks().reward(answer, world)) == pytest.approx(-2 / 6)
    assert asked[:2] == ["check the calculation of a: 1+1=3", "check a 3"]
    assert len(asked) == 4


@pytest.fixture(scope="module")
def world():
    run = api.start(Plan(recipe=latent_seek.but(study=None), task="arithmetic", task_options=(("level", "4"),)))
    return run.world(run.recipe, "evaluate"), run


def answered(world, part, count=6):
    requests = held_out_requests(world[0].task.held_out, count, 1, world[0].task.level)
    return [g.trajectories[0] for g in asyncio.run(part.run(requests, world[0]))]


def greedy(world):
    requests = held_out_requests(world[0].task.held_out, 6, 1, world[0].task.level)
    requests = [replace(r, sampling=replace(world[0].sampling, temperature=0.0)) for r in requests]
    return [g.trajectories[0] for g in asyncio.run(SingleTurn().run(requests, world[0]))]


def test_states_and_head_give_the_greedy_tokens(world) -> None:
    answers = greedy(world)
    rows = asyncio.run(world[0].score([t.contexts[0] for t in answers], StatesBefore()))
    for t, row in zip(answers, rows, strict=True):
        assert (row @ world[0].output_head().T).argmax(1).tolist() == t.contexts[0].tokens.tolist()


def test_without_free_states_or_steps_it_is_greedy_decoding(world) -> None:
    plain = [t.completion for t in greedy(world)]
    for part in (LatentGradient(PerfectCheck(), rho=0.0), LatentGradient(PerfectCheck(), steps=0), LatentGradient(PerfectCheck(), threshold=-2.0)):
        assert [t.completion for t in answered(world, part)] == plain


class Fixed:
    """A check with one verdict for every answer."""

    def __init__(self, value):
        self.value = value

    async def reward(self, answer, world):
        return self.value


def test_a_reward_at_the_threshold_does_not_stop(world) -> None:
    plain = [t.completion for t in greedy(world)]
    at, above = ([t.completion for t in answered(world, LatentGradient(Fixed(value), lr=0.1, steps=3))] for value in (-0.2, -0.19))
    assert at != plain == above


def test_the_search_moves_wrong_answers_only_and_no_weight(world) -> None:
    before = {n: p.clone() for n, p in world[1].players["policy"].policy.network.named_parameters()}
    plain = greedy(world)
    found = [answered(world, LatentGradient(PerfectCheck(), lr=0.1, steps=n)) for n in (1, 3)]
    assert any(not t.right for t in plain)
    for start, *later in zip(plain, *found, strict=True):
        if start.right:
            assert {t.completion for t in later} == {start.completion}
    rights = [sum(t.right for t in row) for row in (plain, *found)]
    assert rights == sorted(rights)  # monotone in the number of steps
    assert any(t.completion != s.completion for s, t in zip(plain, found[1], strict=True))
    assert all(torch.equal(before[n], p) for n, p in world[1].players["policy"].policy.network.named_parameters())


def test_the_training_is_reinforce_and_mistakes_are_named() -> None:
    check_same_update(latent_seek, reinforce)
    with pytest.raises(UserError, match="output head of policy cannot be read"):
        toy_run(reinforce).at(0)[1].output_head()
    with pytest.raises(UserError, match=r"LatentGradient\.lr"):
        LatentGradient(lr=0.0)
