"""Terms of actor and critic: what each reads, and what it refuses. Numbers and gradients stand in tests/invariance/test_rows.py."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from gradus.objectives.actor_critic import Conservative, SoftPolicy, TDError, Temperature
from gradus.types import UserError
from gradus.types.control import Candidates, Drawn, DrawnAction, LogProbOfDrawn, NumberOf, Q, QGradient, QOfCandidates, QOfUniform


def test_what_each_term_reads():
    assert TDError().wants == (Q(),)
    assert SoftPolicy().wants == (Drawn(), LogProbOfDrawn())
    assert SoftPolicy(critic="twin").needs == (QGradient(player="twin"), NumberOf(player="temperature"))
    assert SoftPolicy(temperature=None).needs == (QGradient(player="critic"),)
    assert Temperature().needs == (DrawnAction(player="policy"),)
    assert set(Conservative(candidates=3).needs) == {Candidates(player="policy", count=3, at=at) for at in ("now", "next")}


def read_by_hand(term: Conservative, to_go: float) -> tuple[dict, SimpleNamespace]:
    """One row, one head, one candidate of each kind: values -3 (uniform), -5 (now), 2 (next), of densities 1/4, 1/2, 1/8; recorded action 0."""
    now, following = (signal for signal in term.needs)
    densities = {now: torch.tensor([[[0.0, math.log(1 / 2)]]]), following: torch.tensor([[[0.0, math.log(1 / 8)]]])}
    outputs = {
        Q(): torch.zeros(1, 1, requires_grad=True),
        QOfUniform(1): torch.tensor([[[-3.0], [math.log(1 / 4)]]], requires_grad=True),
        QOfCandidates("candidates now"): torch.tensor([[[-5.0]]], requires_grad=True),
        QOfCandidates("candidates next"): torch.tensor([[[2.0]]], requires_grad=True),
    }
    batch = SimpleNamespace(signals=densities, weight=torch.ones(1), stream=lambda name: {"to_go": torch.tensor([to_go])}[name])
    return outputs, batch


def gradients_by_hand(term: Conservative, to_go: float, monkeypatch: pytest.MonkeyPatch) -> tuple[float, list[float], dict]:
    monkeypatch.setattr("gradus.objectives.actor_critic.averaged", lambda average, losses, batch, source: losses.sum())
    outputs, batch = read_by_hand(term, to_go)
    loss, seen = term.loss(outputs, batch)  # type: ignore[arg-type]
    loss.backward()
    return loss.item(), [float(outputs[want].grad.flatten()[0]) for want in term.wants], seen


def test_the_conservative_term_by_hand(monkeypatch):
    """log((4 e^-3 + 2 e^-5 + 8 e^2) / 3) - 0, and each value's slope is its share of the sum; the recorded action's is -1."""
    parts = [4 * math.exp(-3), 2 * math.exp(-5), 8 * math.exp(2)]
    loss, slopes, seen = gradients_by_hand(Conservative(2.0, 1), 1.0, monkeypatch)
    assert loss == pytest.approx(2 * math.log(sum(parts) / 3), rel=1e-6)
    assert slopes == pytest.approx([2 * x for x in (-1.0, *(p / sum(parts) for p in parts))], rel=1e-5)
    assert set(seen) == {"gap"}


def test_a_floor_by_hand(monkeypatch):
    """Rewards to go 1: now -5 counts as 1 and gets no gradient, next 2 stays, uniform -3 has no floor: log((4 e^-3 + 2 e + 8 e^2) / 3)."""
    parts = [4 * math.exp(-3), 2 * math.e, 8 * math.exp(2)]
    loss, slopes, seen = gradients_by_hand(Conservative(2.0, 1, floor="to_go"), 1.0, monkeypatch)
    assert loss == pytest.approx(2 * math.log(sum(parts) / 3), rel=1e-6)
    assert slopes == pytest.approx([-2.0, 2 * parts[0] / sum(parts), 0.0, 2 * parts[2] / sum(parts)], rel=1e-5)
    assert seen["floored"].mean == 0.5  # one of the two actions of the actor
    _, slopes, seen = gradients_by_hand(Conservative(2.0, 1, floor="to_go"), 3.0, monkeypatch)
    assert slopes[2:] == [0.0, 0.0]
    assert seen["floored"].mean == 1.0
    low = gradients_by_hand(Conservative(2.0, 1, floor="to_go"), -9.0, monkeypatch)  # a floor below all values is none
    assert low[:2] == gradients_by_hand(Conservative(2.0, 1), 1.0, monkeypatch)[:2]


def test_what_a_floor_asks_for():
    assert set(Conservative().asks) == {"rows"}
    assert set(Conservative(floor="to_go").asks) == {"rows", "to_go"}


def test_ranges():
    for wrong in (lambda: SoftPolicy(alpha=-1.0), lambda: Conservative(-1.0), lambda: Conservative(candidates=0)):
        with pytest.raises(UserError):
            wrong()
