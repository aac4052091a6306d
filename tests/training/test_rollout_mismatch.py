"""Engine and update compared: the numbers, when they are taken, and what is done above the limit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gradus.objectives.corrections import MaskedImportance
from gradus.objectives.terms import TruncatedImportance
from gradus.papers.bases.grpo import grpo
from gradus.testing.methods import BigramPolicy, toy_group, toy_run
from gradus.training.launch import go
from gradus.training.rollout_mismatch import differences, fresh
from gradus.training.run import Run
from gradus.types import UserError
from gradus.types.guards import Agreement

PLAIN = grpo.but(objective__kl=None, players__reference=None)
ACT = BigramPolicy.act


def off_by(monkeypatch: pytest.MonkeyPatch, nats: float, until: int = 99) -> None:
    """An engine whose log-probabilities are so much too low, at steps before `until`."""

    def act(self: BigramPolicy, asks: Any) -> Any:
        out = ACT(self, asks)
        return [replace(c, logprobs=c.logprobs - np.float32(nats if a.version < until else 0)) for a, c in zip(asks, out, strict=True)]

    monkeypatch.setattr(BigramPolicy, "act", act)


def run_of(**spec: Any) -> Run:
    run = toy_run(PLAIN, steps=4, agreement=Agreement(**{"every": 2, **spec}))
    run.view = Said()
    return run


class Said:
    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)

    def __getattr__(self, name: str) -> Any:
        return lambda *a, **k: None


def test_differences_by_hand() -> None:
    found = differences(np.array([-1.0, -2.0], np.float32), np.array([-0.5, -2.25], np.float32))
    assert found["mean"] == 0.375  # of 0.5 and 0.25
    assert found["max"] == 0.5
    assert found["kl"] == pytest.approx(((math.exp(0.5) - 1.5) + (math.exp(-0.25) - 0.75)) / 2)


def test_one_model_agrees_at_the_start_and_every_so_many_steps() -> None:
    run = go(run_of())
    assert ["agreement/mean" in row for row in run.metrics[:4]] == [True, False, True, False]
    assert all(row["agreement/max"] < 1e-6 for row in run.metrics[:4:2])  # the toy samples in float64 and stores float32
    assert [row.get("tokens/agreement", 0) > 0 for row in run.metrics[:4]] == [True, False, True, False]
    assert run.view.said == []
    assert not any("agreement/mean" in row for row in go(run_of(every=0)).metrics)


def test_what_is_compared_is_fresh_and_at_most_so_much() -> None:
    made = toy_group(1, 0, 1)
    players = {"policy": type("P", (), {"updates": 0})()}
    assert [len(c) for c in fresh([made], players, 2).values()] == [2]
    players["policy"].updates = 1  # sampled by the weights of another time
    assert fresh([made], players, 9) == {}


@pytest.mark.parametrize(("metric", "value"), [("mean", 0.3), ("max", 0.3), ("kl", math.exp(0.3) - 1.3)])
def test_above_the_limit_it_warns(monkeypatch: pytest.MonkeyPatch, metric: Any, value: float) -> None:
    off_by(monkeypatch, 0.3)
    run = go(run_of(metric=metric, limit=0.9 * value))
    assert run.metrics[0][f"agreement/{metric}"] == pytest.approx(value, rel=1e-5)
    assert len(run.view.said) == 2
    assert f"step 0: the log-probabilities of samples differ by {value:.2g} nats per token ({metric})" in run.view.said[0]
    below = go(run_of(metric=metric, limit=1.1 * value))
    assert below.view.said == []
    assert torch.equal(
        run.players["policy"].policy.network.logits, below.players["policy"].policy.network.logits
    )  # a warning changes nothing


def test_above_the_limit_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    off_by(monkeypatch, 0.3)
    run = run_of(above="stop")
    with pytest.raises(
        UserError, match=r"0\.3 nats per token \(mean\) .* which is above agreement\.limit \(0\.05\)\. Set --precision float32"
    ):
        go(run)
    assert run.players["policy"].updates == 0  # before anything moved


@pytest.mark.parametrize(("above", "part"), [("truncate", TruncatedImportance(5.0)), ("mask", MaskedImportance(5.0, floor=None))])
def test_above_the_limit_it_corrects_until_it_is_below(monkeypatch: pytest.MonkeyPatch, above: Any, part: Any) -> None:
    off_by(monkeypatch, 0.3, until=2)  # two steps, two updates
    run, seen = run_of(above=above, cap=5.0), []
    run.on_step = lambda run, row, groups: seen.append(run.players["policy"].spec.objective["policy"].weight)
    go(run)
    assert seen == [part, part, None, None]
    assert run.numbers["correcting"] is False


def test_a_correction_is_the_gradient_of_weighted_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every ratio is exp(0.3): truncated at 1.2 all losses are 1.2 times as large, masked at 1.2 none is left."""
    grads = {}
    for above, cap in (("warn", 2.0), ("truncate", 1.2), ("mask", 1.2)):
        with monkeypatch.context() as patch:
            off_by(patch, 0.3)
            run = toy_run(PLAIN, steps=1, agreement=Agreement(above=above, cap=cap))
            player = run.players["policy"]
            patch.setattr(
                player, "move", lambda step, p=player, a=above: grads.setdefault(a, p.parameters[0].grad.clone()) is None or p.skip(0.0)
            )
            go(run)
    assert float(grads["warn"].abs().max()) > 1e-3
    assert torch.allclose(grads["truncate"], 1.2 * grads["warn"], rtol=1e-6)
    assert float(grads["mask"].abs().max()) == 0.0
