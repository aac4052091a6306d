"""GAIN-RL: the concentration of angles, the move of the window, the sorted order in a run, and its limit."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from gradus.curricula.window import Window, log_weights
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.gain_rl import AsLearned, ByAngles, Concentration, concentration, gain_rl, shared_beginning
from gradus.recipe.core import changes
from gradus.testing.methods import steps_of, toy_group, toy_run, weights_after
from gradus.testing.methods.policy import BigramPolicy
from gradus.training.launch import go
from gradus.types import Key, Problem, Request
from gradus.updates.forward_backward import passes


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("a", "c", "moved"),
    [(1.0, 0.0, 380.8), (0.5, 0.1, 98.7), (0.0, 0.1, 0.0), (0.0, 0.0, 0.0), (1.0, 5.0, 880.8)],
)
def test_the_move_of_the_paper(a: float, c: float, moved: float) -> None:
    # 500 tanh(2 (1 - .5)) = 380.8; 500 tanh(.2) = 98.7; 500 (tanh(-1) + tanh(.2)) < 0; 500 (.7616 + 1.0000) = 880.8
    assert AsLearned(step=1.0).distance({"accuracy": a, "concentration": c}, 1000) == pytest.approx(moved, abs=0.05)


def test_the_move_is_at_most_n() -> None:
    assert AsLearned(alpha=100.0, step=0.1).distance({"accuracy": 1.0, "concentration": 1.0}, 256) == 25.6


def test_a_problem_one_sigma_away_has_weight_0_6065() -> None:
    weights = np.exp(log_weights(1001, 0.0, 1000.0))
    assert weights[1000] / weights[0] == pytest.approx(0.6065, abs=1e-4)


def test_concentration_by_hand() -> None:
    assert float(concentration(rows([1, 2], [1, 2], [1, 2]), 0, 8.0)) == pytest.approx(1.0)  # equal vectors
    assert float(concentration(rows([3, 0], [0, 5]), 0, 8.0)) == pytest.approx(0.0)  # orthogonal ones
    # beginning [1, 0]; rest [0, 1] and [1, 1]: within cos 45 = .7071, across (0 + .7071) / 2 = .3536; .7071 + 8 x .3536 = 3.5355
    assert float(concentration(rows([2, 0], [0, 1], [3, 3]), 1, 8.0)) == pytest.approx(3.5355, abs=1e-4)
    assert float(concentration(rows([2, 0]), 0, 8.0)) == 0.0  # no pair


def test_it_is_the_mean_over_pairs() -> None:
    states = torch.from_numpy(np.random.default_rng(0).normal(size=(9, 4)))
    unit = states / states.norm(dim=-1, keepdim=True)
    within = [float(unit[i] @ unit[j]) for i in range(2, 9) for j in range(2, i)]
    across = [float(unit[i] @ unit[j]) for i in range(2, 9) for j in range(2)]
    assert float(concentration(states, 2, 8.0)) == pytest.approx(np.mean(within) + 8 * np.mean(across))


def test_every_action_gets_the_number_of_its_context() -> None:
    policy, contexts = BigramPolicy(Key(7)), [t.contexts[0] for t in toy_group(1.0, 0.0, lengths=[3, 2]).trajectories]
    (chosen, found), *_ = passes(policy, contexts, (Concentration(),), 1000, Key())
    assert [contexts[i].actions for i in chosen] == [3, 2]
    due = [float(concentration(policy.network.logits[c.sequence.tolist()].detach(), 0, 8.0)) for c in contexts]
    assert found[Concentration()].tolist() == pytest.approx([due[0]] * 3 + [due[1]] * 2)


def test_the_shared_beginning() -> None:
    assert shared_beginning([np.array([1, 2, 3]), np.array([1, 2])]) == 1  # one token of each problem is left
    assert shared_beginning([np.array([1, 2]), np.array([3, 2])]) == 0
    assert shared_beginning([np.array([7]), np.array([7])]) == 0


def test_prompts_are_sorted_by_their_concentration() -> None:
    run = toy_run(gain_rl)
    texts = ["ab", "aa", "fg", "ac"]
    problems = [Problem(str(i), "toy", text=text) for i, text in enumerate(texts)]
    found = asyncio.run(ByAngles().values(problems, run.world(run.recipe, "train")))
    table = run.players["policy"].policy.network.logits.detach().double()
    own = [run.world(run.recipe, "train").prompt(Request(p)).sequence for p in problems]
    fixed = shared_beginning(own)
    due = [-float(concentration(table[row.tolist()], fixed, 8.0)) for row in own]
    assert found == pytest.approx(due)
    assert len(set(np.round(found, 6))) == 4
    assert found.argmin() == 1  # equal tokens


def test_it_changes_the_curriculum_alone() -> None:
    assert changes(grpo, gain_rl) == {"curriculum": Window(by=ByAngles(inter=8.0), pace=AsLearned(2.0, 0.5, 0.1), width=0.1, epoch=32)}


def test_the_window_moves_in_a_run() -> None:
    run = toy_run(gain_rl.but(curriculum__pool=40, curriculum__epoch=8), steps=6, prompts=4, group=4)
    state = go(run).memory.states["curriculum"]["state"]
    assert sorted(state["order"]) == list(range(40))
    assert (state["epochs"], state["groups"]) == (3, 0)
    assert 0 < state["center"] <= 12  # three moves of at most n = 4
    found = [metrics for metrics, _ in steps_of(gain_rl.but(curriculum__pool=40, curriculum__epoch=8), steps=4, prompts=4, group=4)]
    assert ["window/concentration" in metrics for metrics in found] == [False, True, False, True]


def test_with_all_problems_in_an_epoch_it_is_grpo() -> None:
    whole = gain_rl.but(curriculum__pool=12, curriculum__epoch=12)
    ours, base, other = (weights_after(made, steps=3, prompts=4)["policy.logits"] for made in (whole, grpo, gain_rl))
    assert torch.equal(ours, base)
    assert not torch.equal(other, base)
