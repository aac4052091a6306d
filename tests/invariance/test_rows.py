"""Terms on rows of transitions: their gradient does not depend on the cut into micro-batches, and equals a plain formula."""

from __future__ import annotations

import importlib
from dataclasses import is_dataclass

import numpy as np
import pytest
import torch

from gradus.objectives.actor_critic import Conservative, SoftPolicy, TDError, Temperature, reparametrised_losses, soft_maximum, td_losses
from gradus.policies.controller import Controller, config_for
from gradus.selection.transition_replay import batch_of
from gradus.training.rounds import with_streams_of
from gradus.types import Group, Key
from gradus.types.batch import Batch, make_batch
from gradus.types.players import Fresh
from gradus.types.spaces import Box
from gradus.updates.minibatches import gradient
from tests.parts import OF_ROWS

ACTS = Box((-1.0, 0.0), (1.0, 3.0))
TERMS = {
    "critic": [TDError(), TDError(coefficient=0.5), Conservative(2.0, 3), Conservative(2.0, 3, floor="to_go")],
    "policy": [SoftPolicy(), SoftPolicy(reduce="mean"), SoftPolicy(temperature=None, alpha=0.3)],
    "temperature": [Temperature(), Temperature(least=0.4)],
}
CASES = [(name, term) for name, terms in TERMS.items() for term in terms]


def players() -> dict[str, Controller]:
    outputs = {"critic": {"outputs": "q", "heads": 3, "layer_norm": True}, "policy": {}, "temperature": {"outputs": "number", "number": -0.5}}
    return {
        n: Controller.fresh(config_for(Fresh(hidden=(16,), **o), {"state": np.zeros(3)}, ACTS), Key(4).fold(n), torch.float64)
        for n, o in outputs.items()
    }


def rows(n: int, seed: int) -> dict[str, np.ndarray]:
    key = Key(seed)
    low, high = np.array(ACTS.low), np.array(ACTS.high)
    return {
        "before.state": key.fold("a").normal(n, 3).astype(np.float32),
        "next.state": key.fold("b").normal(n, 3).astype(np.float32),
        "action": (low + (high - low) * key.fold("c").uniform(n, 2)).astype(np.float32),
        "reward": np.zeros(n, np.float32),
        "done": np.zeros(n, bool),
        "to_go": 0.3 * key.fold("d").normal(n).astype(np.float32),
    }


def batch_for(made: dict[str, Controller], term: object) -> Batch:
    """Four trajectories of 3 to 6 rows with signals, returns and weights that differ from row to row."""
    found = [batch_of(rows(3 + i, i), Key(50 + i)).but(id=f"t{i}", weight=1.0 + 0.5 * i) for i in range(4)]
    given = [t.but(advantages=np.ones(t.actions), returns=Key(9).fold(t.id).normal(t.actions)) for t in found]
    signals: dict = {}
    for signal in term.needs:  # type: ignore[attr-defined]
        signals[signal] = {}
        for t in given:
            before = {need: [read(made, need, t.contexts)] for need in signal.needs}
            seen = signal.seen_by(t.contexts, before, Key())
            signals[signal][t.id] = read(made, signal, seen)
    groups = with_streams_of([Group("g", tuple(given))], {"term": term}, signals)
    return make_batch(groups, signals, dtype=torch.float64)


def read(made, signal, contexts) -> np.ndarray:
    with torch.no_grad():
        return made[signal.player].evaluate(list(contexts), (signal.want,))[signal.want].numpy()


def gradients(policy: Controller, batch: Batch, term: object, most: int) -> torch.Tensor:
    for p in policy.network.parameters():
        p.grad = None
    gradient(policy, batch, {"term": term}, most, Key())  # type: ignore[dict-item]
    return torch.cat([p.grad.flatten() for p in policy.network.parameters()])


@pytest.mark.parametrize(("name", "term"), CASES, ids=str)
def test_the_cut_changes_nothing(name, term):
    made = players()
    batch = batch_for(made, term)
    found = [gradients(made[name], batch, term, most) for most in (1, 8, 10, 10_000)]
    assert float(found[0].abs().max()) > 1e-6
    assert all(float((f - found[0]).abs().max()) < 1e-12 for f in found[1:])


def test_every_term_is_tried():
    tried = {type(term) for _, term in CASES}
    module = importlib.import_module("gradus.objectives.actor_critic")
    terms = {c for c in vars(module).values() if isinstance(c, type) and is_dataclass(c) and hasattr(c, "loss") and c.__module__ == module.__name__}
    assert terms == tried
    assert {c.__name__ for c in terms} == OF_ROWS[module.__name__]


@pytest.mark.parametrize(("name", "term"), CASES, ids=str)
def test_weights_of_zero_leave_rows_out(name, term):
    made = players()
    batch = batch_for(made, term)
    none = gradients(made[name], Batch(**{**vars(batch), "weight": torch.zeros_like(batch.weight)}), term, 100)
    assert not none.any()


def test_errors_by_hand():
    """Heads 1 and 3 against 2: (1 + 1) / 2 = 1; heads 0 and 0 against 4: 16."""
    q = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    assert td_losses(q, torch.tensor([2.0, 4.0])).tolist() == [1.0, 16.0]


def test_the_reparametrised_loss_by_hand():
    """alpha .5, log pi -2, a = (1, 2), slope (3, -1): -1 - (3 - 2) = -2; its slope by a is -(3, -1)."""
    action = torch.tensor([[1.0, 2.0]], requires_grad=True)
    loss = reparametrised_losses(action, torch.tensor([-2.0]), torch.tensor([[3.0, -1.0]]), torch.tensor([0.5]))
    loss.sum().backward()
    assert loss.tolist() == [-2.0]
    assert action.grad.tolist() == [[-3.0, 1.0]]


def test_the_soft_maximum_is_an_integral():
    """Q = a on [-1, 1], uniform candidates of density 1/2: log of the integral of e^a is log(e - 1/e) = 0.8546."""
    grid = torch.linspace(-1, 1, 20_001, dtype=torch.float64)[None, None]
    found = soft_maximum(grid, torch.full((1, 20_001), float(np.log(0.5)), dtype=torch.float64))
    assert found.item() == pytest.approx(np.log(np.e - 1 / np.e), abs=1e-3)
    assert soft_maximum(torch.full((1, 2, 5), 7.0), torch.zeros(1, 5)).tolist() == [[7.0, 7.0]]


def test_the_conservative_term_lowers_what_is_not_in_the_data():
    """One step down its gradient: the values of the recorded actions rise against those of others."""
    made, term = players(), Conservative(1.0, 8)
    batch = batch_for(made, term)
    policy = made["critic"]

    def gap() -> float:
        with torch.no_grad():
            outputs = policy.evaluate(batch.contexts, term.wants)
        return float(term.loss(outputs, batch)[0])

    before = gap()
    gradients(policy, batch, term, 10_000)
    with torch.no_grad():
        for p in policy.network.parameters():
            p.sub_(p.grad, alpha=0.05)
    assert gap() < before - 1e-3
