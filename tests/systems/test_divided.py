"""A process's part of a player: the cut of tensors by hand, and a group of one process, which must do what an undivided player does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.distributed as dist

from gradus.players.learner import Learner, held
from gradus.policies.lm import LanguageModel
from gradus.recipe.core import Setting
from gradus.systems.divided import Part, cut, joined, mesh_of
from gradus.types import Frozen, Key
from gradus.types.players import Player
from gradus.types.signals import LogProb
from gradus.updates.forward_backward import backward
from gradus.updates.optimizers import AdamW
from tests.policies.contexts import mixed
from tests.policies.shapes import ours

RATE = Setting(learning_rate=0.01, warmup=0, steps=10)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory) -> Iterator[object]:
    where = tmp_path_factory.mktemp("meet") / "here"
    dist.init_process_group("gloo", init_method=where.as_uri(), rank=0, world_size=1)
    yield mesh_of("cpu", 1)
    dist.destroy_process_group()


def learner(dtype: torch.dtype = torch.float32, **more) -> Learner:
    policy = LanguageModel(ours("qwen3_moe", dtype), None, (2,), **more)
    return Learner("policy", Player(objective=Frozen()), policy, AdamW(clip=0.5), RATE)


def test_parts_by_hand():
    tensors = {"a": torch.arange(5), "b": torch.arange(2), "c": torch.tensor(7), "d": torch.arange(3)}
    divided = {"a", "b"}
    parts = [cut(tensors, divided, rank, 3) for rank in range(3)]
    assert [p["a"].tolist() for p in parts] == [[0, 1], [2, 3], [4]]
    assert [p["b"].tolist() for p in parts] == [[0], [1], []]
    assert all(p["c"] == 7 and p["d"].tolist() == [0, 1, 2] for p in parts)
    whole = joined(parts, divided)
    assert all(torch.equal(whole[name], t) for name, t in tensors.items())


@pytest.mark.parametrize(("dtype", "recompute"), [(torch.float32, False), (torch.bfloat16, True)])
def test_a_group_of_one_trains_as_an_undivided_player(mesh, dtype, recompute):
    """Five moves with clipping: the layers run as calls of modules, and the optimiser moves parts."""
    plain, other = learner(dtype, recompute=recompute), learner(dtype, recompute=recompute)
    part = Part(other, mesh)
    contexts = mixed(np.random.default_rng(1))
    for step in range(5):
        rows = plain.policy.evaluate(contexts, (LogProb(),), Key())
        slopes = {LogProb(): torch.linspace(-1, 1, len(rows[LogProb()]))}
        backward(rows, slopes)
        mine = part.rows(contexts, (LogProb(),), Key())
        assert torch.equal(mine[LogProb()], rows[LogProb()])
        part.backward(mine, slopes)
        due, found = plain.move(step), other.move(step)
        part.changed()
        assert found["grad_norm"] == pytest.approx(due["grad_norm"], rel=1e-5)
        assert due["grad_norm"] > 0.5
    due, found = plain.tensors(), part.tensors()
    assert due.keys() == found.keys()
    for name, t in due.items():
        torch.testing.assert_close(found[name], t, rtol=1e-4, atol=1e-6)
    part.gather()
    for mine, theirs in zip(part.whole.network.parameters(), plain.policy.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        assert not mine.requires_grad
    part.drop()
    assert all(p.is_meta for p in part.whole.network.parameters())


def test_parts_take_the_tensors_of_a_checkpoint(mesh):
    plain, other = learner(), learner()
    contexts = mixed(np.random.default_rng(2))
    backward(rows := plain.policy.evaluate(contexts, (LogProb(),), Key()), {LogProb(): torch.ones(len(rows[LogProb()]))})
    plain.move(0)
    part = Part(other, mesh)
    part.put(plain.tensors(), plain.updates)
    assert other.updates == 1
    assert all(torch.equal(t, part.tensors()[name]) for name, t in plain.tensors().items())
    assert part.size == sum(t.nbytes for t in plain.tensors().values())
    moments = [held(t) for state in other.optimizer.state.values() for t in state.values()]
    assert any(bool(m.any()) for m in moments)


def test_a_missing_slope_counts_as_zeros(mesh):
    part = Part(learner(), mesh)
    contexts = mixed(np.random.default_rng(3))
    part.backward(part.rows(contexts, (LogProb(),), Key()), None)
    grads = [held(p.grad) for p in part.network.parameters()]
    assert all(not bool(g.any()) for g in grads)
    part.backward(part.rows(contexts, (LogProb(),), Key()), {LogProb(): torch.ones(sum(c.actions for c in contexts))})
    assert any(bool(held(p.grad).any()) for p in part.network.parameters())
