"""The preference term: pairs found by reward whatever their order, and extreme margins."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.preference import Logistic, Preference, Squared, pairs_of, preference_losses
from gradus.testing.methods import toy_batch, toy_group
from gradus.types import Frozen, UserError
from gradus.types.signals import LogProb, LogProbs


def test_pairs_are_found_by_reward():
    made = toy_batch(toy_group(0.2, 0.1, key="a"), toy_group(-1, 3, key="b"))
    assert [ids.tolist() for ids in pairs_of(made)] == [[0, 3], [1, 2]]


def test_a_marked_pair_is_found_by_its_marks_though_the_rewards_are_equal():
    group = toy_group(1, 1, key="a")
    marks = (False, True)
    group = group.but(trajectories=tuple(t.but(links=Frozen(preferred=m)) for t, m in zip(group.trajectories, marks, strict=True)))
    assert [ids.tolist() for ids in pairs_of(toy_batch(group))] == [[1], [0]]
    same = group.but(trajectories=tuple(t.but(links=Frozen(preferred=True)) for t in group.trajectories))
    with pytest.raises(UserError, match="a preference compares two"):
        pairs_of(toy_batch(same))


def test_losses_by_hand_and_far_out():
    losses = preference_losses(torch.tensor([3.0, 0.0, -1e6]), torch.tensor([1.0, 0.0, 1e6]), beta=0.5)
    assert_close(losses, torch.tensor([np.log1p(np.exp(-1.0)), np.log(2), 1e6], dtype=torch.float32))


def test_links_by_hand():
    better, worse = torch.tensor([3.0, 0.0]), torch.tensor([1.0, 2.0])
    # beta 1/2: 1 - 0.5 and -1 - 0.5; squared: leads 2 and -2 against 1 / (2 * 1/2) = 1
    assert_close(Logistic(margin=0.5).losses(better, worse, 0.5), torch.tensor([np.log1p(np.exp(-0.5)), np.log1p(np.exp(1.5))]).float())
    assert Squared().losses(better, worse, 0.5).tolist() == [1, 9]
    with pytest.raises(UserError, match=r"Logistic.margin is -1"):
        Logistic(margin=-1)


def test_swapping_better_and_worse_turns_the_gradient_round():
    rows = {LogProbs(player="reference"): {"g/0": np.zeros(2), "g/1": np.zeros(2)}}
    gradients = []
    for rewards in ((1, 0), (0, 1)):
        logprobs = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        loss, _ = Preference().loss({LogProb(): logprobs}, toy_batch(toy_group(*rewards), signals=rows))
        loss.backward()
        gradients.append(logprobs.grad)
    assert torch.equal(gradients[0], -gradients[1])
    assert bool((gradients[0][:2] < 0).all())


@pytest.mark.parametrize("rewards", [(1,), (1, 1), (1, 0, 0.5)])
def test_what_is_no_pair_is_refused(rewards):
    with pytest.raises(UserError, match="a preference compares two"):
        pairs_of(toy_batch(toy_group(*rewards)))
