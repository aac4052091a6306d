"""Which parameters learn, and at which rate."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gradus.players.learner import Learner
from gradus.players.subset import factors, restrict, under
from gradus.recipe.core import Setting
from gradus.types import Frozen, UserError
from gradus.types.players import Head, Player
from gradus.updates.optimizers import AdamW

NAMES = ["trunk.model.layers.1.up.weight", "trunk.model.layers.10.up.weight", "trunk.model.norm.weight", "head.weight"]


def test_whole_parts_of_names_count():
    assert [n for n in NAMES if under(n, "layers.1")] == NAMES[:1]
    assert [n for n in NAMES if under(n, "trunk")] == NAMES[:3]
    assert [n for n in NAMES if under(n, "trunk.model.norm")] == NAMES[2:3]
    assert [n for n in NAMES if under(n, "")] == NAMES
    assert [n for n in NAMES if under(n, "up")] == []


def test_the_deepest_prefix_sets_the_rate():
    assert factors("policy", NAMES, {"": 0.5, "layers": 2.0, "layers/10": 3.0}) == [2.0, 3.0, 0.5, 0.5]
    assert factors("policy", NAMES, {}) == [1.0] * 4


def network() -> nn.Module:
    made = nn.Module()
    made.trunk, made.gate = nn.Linear(2, 2), nn.Linear(2, 1)
    return made


class Held:
    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.network = network().to(dtype)


def learner(dtype=torch.float32, **fields) -> Learner:
    spec = Player(objective=Frozen(a=1), **fields)
    return Learner("critic", spec, Held(dtype), AdamW(), Setting(learning_rate=1e-3, warmup=0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_the_subset_moves_and_each_part_at_its_rate(dtype):
    """The first step of AdamW moves every weight by the rate: 1e-3 times 1 and 4 here, whatever the gradient is."""
    player = learner(dtype, trains=("trunk.weight", "gate"), rates=Frozen(gate=4.0))
    before = {n: p.detach().clone() for n, p in player.policy.network.named_parameters()}
    masters = dict(zip(["trunk.weight", "gate.weight", "gate.bias"], [m.detach().clone() for m in player.masters], strict=True))
    for p in player.parameters:
        p.grad = torch.full_like(p, 0.3)
    assert player.move(0)["learning_rate"] == 1e-3
    after = dict(player.policy.network.named_parameters())
    assert torch.equal(before["trunk.bias"], after["trunk.bias"])
    assert not after["trunk.bias"].requires_grad
    for (name, old), new in zip(masters.items(), player.masters, strict=True):
        moved = (old - new.detach()).double()
        torch.testing.assert_close(moved, torch.full_like(moved, 4e-3 if "gate" in name else 1e-3), rtol=1e-3, atol=0)


def test_the_checkpoint_has_the_layout_of_one_group():
    plain, grouped = learner(), learner(rates=Frozen(gate=4.0))
    for player in (plain, grouped):
        for p in player.parameters:
            p.grad = torch.ones_like(p)
        player.move(0)
    assert plain.tensors().keys() == grouped.tensors().keys()
    again = learner(rates=Frozen(gate=4.0))
    again.load(plain.tensors(), 1)
    for player in (plain, again):
        for p in player.parameters:
            p.grad = torch.ones_like(p)
        player.move(1)
    one, other = plain.tensors(), again.tensors()
    assert torch.equal(one["weights.trunk.weight"], other["weights.trunk.weight"])
    assert not torch.equal(one["weights.gate.weight"], other["weights.gate.weight"])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"trains": ("trun",)}, r'unknown prefix "trun" \(did you mean trunk.*players.critic.trains'),
        ({"rates": Frozen(gat=2.0)}, r'unknown prefix "gat" \(did you mean gate.*players.critic.rates'),
        ({"trains": ("trunk",), "rates": Frozen(gate=2.0)}, r"players.critic.rates does not name a parameter that learns"),
    ],
)
def test_prefixes_without_parameters_are_refused(fields, said):
    with pytest.raises(UserError, match=said):
        learner(**fields)


def test_an_optimizer_that_joins_groups_is_refused():
    class Joined(AdamW):
        def build(self, parameters):
            return torch.optim.SGD([p for group in parameters for p in group["params"]], lr=0.0)

    with pytest.raises(UserError, match="keeps the given groups of parameters"):
        Learner("critic", Player(objective=Frozen(a=1), rates=Frozen(gate=2.0)), Held(), Joined(), Setting())


def test_fields_that_cannot_be():
    dotted = Frozen({"a.b": 1.0})
    for fields, said in (({"rates": dotted}, 'write "a/b"'), ({"trains": ()}, "trains is empty"), ({"rates": Frozen(gate=-1.0)}, "must be finite and at least 0")):
        with pytest.raises(UserError, match=said):
            Player(**fields)
    with pytest.raises(UserError, match="each name only once"):
        Head(outputs=("q", "q"))


def test_restrict_leaves_frozen_what_was_frozen():
    made = network()
    made.gate.requires_grad_(False)
    restrict("critic", made, Player())
    assert [n for n, p in made.named_parameters() if p.requires_grad] == ["trunk.weight", "trunk.bias"]
