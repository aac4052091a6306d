"""A player: what is kept of it, and where it comes back to."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from gradus.players.learner import Learner
from gradus.recipe.core import Setting
from gradus.types import Frozen, UserError
from gradus.types.players import Player
from gradus.updates.optimizers import AdamW


class Held:
    """A policy that is its network alone."""

    def __init__(self, dtype: torch.dtype = torch.float32, device: str = "cpu") -> None:
        self.network = nn.Linear(3, 1, bias=False, dtype=dtype, device=device)


def moved(player: Learner, times: int) -> Learner:
    for step in range(times):
        for p in player.parameters:
            p.grad = torch.full_like(p, 0.1 * (step + player.updates + 1))
        player.move(step)
    return player


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda parameters: None, "returned None; it must return a torch.optim.Optimizer"),
        (lambda parameters: torch.optim.SGD([nn.Parameter(torch.zeros(1))]), "of other parameters"),
        (lambda parameters: torch.optim.SGD([*parameters, nn.Parameter(torch.zeros(1))]), "of other parameters"),
    ],
)
def test_an_optimizer_of_other_parameters_is_refused(made, said):
    class Mine(AdamW):
        def build(self, parameters):
            return made(parameters)

    with pytest.raises(UserError, match=said):
        Learner("policy", Player(objective=Frozen(a=1)), Held(), Mine(), Setting())


def test_parameters_may_stand_in_several_groups_of_an_optimizer():
    class Split(AdamW):
        def build(self, parameters):
            return torch.optim.SGD([{"params": [p]} for p in reversed(parameters)])

    assert moved(Learner("policy", Player(objective=Frozen(a=1)), Held(), Split(), Setting()), 1).updates == 1


def test_a_step_counts_as_a_write_to_the_weights():
    """PyTorch's fused optimisers do not count theirs; encoded pictures and the weights of other processes are kept by this count."""
    player = Learner("policy", Player(objective=Frozen(a=1)), Held(), AdamW(), Setting())
    before = player.policy.network.weight._version
    assert moved(player, 1).policy.network.weight._version > before


def learner(**held) -> Learner:
    return Learner("policy", Player(objective=Frozen(a=1)), Held(**held), AdamW(), Setting(learning_rate=1e-3, warmup=0))


def test_a_narrow_network_goes_on_from_its_masters_as_if_never_stopped():
    first = moved(learner(dtype=torch.bfloat16), 3)
    second = learner(dtype=torch.bfloat16)
    second.load(first.tensors(), first.updates)
    assert second.masters[0].dtype == torch.float32
    kept, again = moved(first, 2).tensors(), moved(second, 2).tensors()
    assert kept.keys() == again.keys()
    assert all(torch.equal(kept[n], again[n]) for n in kept)


def test_moments_come_back_to_where_the_weights_are_and_the_count_of_steps_to_the_cpu():
    stored = moved(learner(), 1).tensors()
    elsewhere = learner(device="meta")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that weights on meta hold nothing
        elsewhere.load(stored, 1)
    (state,) = elsewhere.optimizer.state.values()
    assert {name: value.device.type for name, value in state.items()} == {"step": "cpu", "exp_avg": "meta", "exp_avg_sq": "meta"}
