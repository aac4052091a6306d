"""Credit over steps: statistics that count a trajectory once per step, and the threshold of entropy, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.credit.groups import GroupRelative
from gradus.credit.step_samples import ENTROPIES, HighEntropySteps, StepRelative, high_steps, step_relative
from gradus.types import Context, Frozen, Group, Problem, Trajectory, UserError
from gradus.types.signals import Entropy


def episode(name, reward, *tokens, apart=False):
    """An episode whose turns have these numbers of tokens. `apart`: every turn has its own context."""
    turns = np.repeat(np.arange(len(tokens)), tokens).astype(np.int32)
    pieces = np.split(turns, np.cumsum(tokens)[:-1]) if apart else [turns]
    contexts = tuple(
        Context(np.zeros(len(t), np.int32), np.ones(len(t), bool), streams=Frozen(turn=t, state=t.astype(np.int64))) for t in pieces
    )
    return Trajectory(name, Problem("p", "toy"), contexts, reward=float(reward))


def test_one_success_of_one_step_and_one_failure_of_three():
    """Four steps with the rewards 1, 0, 0, 0: mean 1/4, deviation sqrt(3) / 4."""
    assert step_relative(np.array([1.0, 0.0]), np.array([1, 3])) == pytest.approx([np.sqrt(3), -1 / np.sqrt(3)])
    for apart in (False, True):
        group = Group("g", (episode("a", 1, 2), episode("b", 0, 1, 3, 2, apart=apart)))
        ((one, other),) = StepRelative().assign([group], {})
        assert one.advantages == pytest.approx([1.7320508] * 2)
        assert other.advantages == pytest.approx([-0.5773503] * 6)


def test_with_equal_numbers_of_steps_it_is_the_group_relative_advantage():
    group = Group("g", tuple(episode(str(i), r, 1, 2) for i, r in enumerate((1, 0, 0.5))))
    for mine, base in zip(StepRelative().assign([group], {})[0], GroupRelative().assign([group], {})[0], strict=True):
        assert mine.advantages == pytest.approx(base.advantages)
    alone = Group("g", (episode("a", 1, 1, 1, 1),))
    assert StepRelative().assign([alone], {})[0][0].advantages.tolist() == [0, 0, 0]


def test_the_advantages_of_all_steps_add_up_to_zero():
    rewards, steps = np.array([1.0, 0.0, 0.25, 1.0]), np.array([3, 9, 1, 4])
    found = step_relative(rewards, steps)
    assert (found * steps).sum() == pytest.approx(0, abs=1e-12)
    assert (found**2 * steps).sum() / steps.sum() == pytest.approx(1)


def test_the_threshold_by_hand():
    assert high_steps(np.array([0.1, 0.9, 0.5, 0.3, 0.7]), 0.8).tolist() == [False, True, True, True, True]
    assert high_steps(np.array([0.1, 0.1, 0.5, 0.3, 0.7]), 0.8).tolist() == [True] * 5  # ties at the threshold are all kept
    assert high_steps(np.array([0.2, 0.2]), 0.8).tolist() == [True, True]
    assert high_steps(np.arange(10.0), 0.5).tolist() == [False] * 5 + [True] * 5
    assert high_steps(np.arange(5.0), 1.0).all()
    assert high_steps(np.zeros(0), 0.8).tolist() == []


def test_steps_are_compared_over_the_group_by_their_mean_entropy():
    group = Group("g", (episode("a", 1, 2, 1), episode("b", 0, 1, 2, 1, apart=True)))
    entropies = {"a": [0.0, 0.2, 0.9], "b": [0.5, 0.1, 0.5, 0.7]}  # means 0.1, 0.9 and 0.5, 0.3, 0.7
    signals = {ENTROPIES: {name: np.array(row, np.float32) for name, row in entropies.items()}}
    ((one, other),) = HighEntropySteps(StepRelative()).assign([group], signals)
    assert one.weights.tolist() == [0, 0, 1]
    assert other.weights.tolist() == [1, 1, 1, 1]
    plain = StepRelative().assign([group], {})[0]
    assert [c.advantages.tolist() for c in (one, other)] == [c.advantages.tolist() for c in plain]  # the statistics count all steps
    half = HighEntropySteps(StepRelative(), top=0.4).assign([group], signals)[0]
    assert [c.weights.tolist() for c in half] == [[0, 0, 1], [0, 0, 0, 1]]  # the quantile is 0.58


def test_it_reads_the_entropies_at_the_start_of_the_update():
    assert HighEntropySteps().needs == (Entropy(fresh=True),)
    with pytest.raises(UserError, match="top"):
        HighEntropySteps(top=0.0)
    with pytest.raises(UserError, match="no turns"):
        StepRelative().assign([Group("g", (Trajectory("t", Problem("p", "x"), (Context(np.zeros(1, np.int32), np.ones(1, bool)),), reward=0.0),))], {})
