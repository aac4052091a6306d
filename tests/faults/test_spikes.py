"""Gradients far larger than those before: which are skipped, what that changes, and where it is written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from gradus import api
from gradus.players.learner import Learner
from gradus.recipe.core import Setting
from gradus.testing.methods import BigramPolicy
from gradus.training.launch import go
from gradus.training.run import Run
from gradus.types import Key
from gradus.types.guards import Guard
from gradus.types.players import Player
from gradus.updates.optimizers import AdamW
from tests.faults.small_runs import Killed, files, start


def moves(guard: Guard, *norms: float) -> tuple[list[bool], Learner]:
    """Which of the moves with gradients of these norms were skipped."""
    policy = BigramPolicy(Key(3))
    player = Learner("policy", Player(objective={"policy": 1}), policy, AdamW(clip=1.0), Setting(warmup=0, guard=guard))
    skipped = []
    for step, norm in enumerate(norms):
        policy.network.logits.grad = torch.zeros_like(policy.network.logits)
        policy.network.logits.grad[0, 0] = norm
        moved = player.move(step)
        assert moved["spiked"] == moved["skipped"]
        assert moved["grad_norm"] == pytest.approx(norm)
        skipped.append(moved["spiked"] == 1.0)
    return skipped, player


def test_spikes_by_hand() -> None:
    guard = Guard(spike=3.0, window=5, least=3)
    # medians before each: -, -, -, 2 (of 1 2 3), 2.5 (of 1 2 3 6), 3 (of 1 2 3 6 7.6), 3 (of 2 3 6 7.6 1); limits 6, 7.5, 9, 9
    skipped, player = moves(guard, 1, 2, 3, 6, 7.6, 1, 9)
    assert skipped == [False, False, False, False, True, False, False]
    assert player.spikes == [{"player": "policy", "norm": pytest.approx(7.6), "median": 2.5, "limit": 7.5}]
    assert player.norms == pytest.approx([3, 6, 7.6, 1, 9])
    assert player.updates == 6


def test_a_lasting_rise_is_borne_and_steps_without_signal_are_not_counted() -> None:
    guard = Guard(spike=3.0, window=4, least=2)
    # medians: 1, 1, 1, 5.5 (of 1 1 10 10): from there 10 is no spike
    assert moves(guard, 1, 1, 10, 10, 10)[0] == [False, False, True, True, False]
    assert moves(guard, 0, 0, 0, 5)[0] == [False] * 4  # a median of zeros would make a spike of every gradient
    assert moves(guard, 1, 0, 1, 4)[0] == [False, False, False, True]


def test_a_skipped_spike_moves_nothing_and_not_the_optimiser() -> None:
    guard = Guard(spike=3.0, window=5, least=2)
    (_, with_spike), (_, without) = moves(guard, 1, 1, 50), moves(guard, 1, 1)
    assert torch.equal(with_spike.policy.network.logits, without.policy.network.logits)
    assert all(torch.equal(a, b) for a, b in zip(with_spike.tensors().values(), without.tensors().values(), strict=True))


@pytest.mark.parametrize("norm", [float("nan"), float("inf")])
def test_a_norm_that_is_not_finite_is_no_spike_and_not_remembered(norm: float) -> None:
    player = Learner("policy", Player(objective={"policy": 1}), BigramPolicy(Key(3)), AdamW(), Setting(warmup=0, guard=Guard(spike=3.0)))
    player.policy.network.logits.grad = torch.full((8, 8), norm, dtype=torch.float64)
    assert player.move(0)["skipped"] == 1.0
    assert (player.norms, player.spikes) == ([], [])


def test_spikes_have_their_own_record_which_a_resumed_run_repeats(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move = Learner.move

    def spiking(self: Learner, step: int) -> dict[str, float]:
        if step == 5:
            for p in self.parameters:
                p.grad.mul_(1e4)  # type: ignore[union-attr]
        return move(self, step)

    monkeypatch.setattr(Learner, "move", spiking)
    guard = Guard(spike=50.0, least=2)
    whole = go(start(home, tmp_path / "whole", setting__guard=guard))
    assert [row["spiked"] for row in whole.metrics[:8]] == [0, 0, 0, 0, 0, 1, 0, 0]
    (spike,) = [json.loads(line) for line in (tmp_path / "whole/spikes.jsonl").read_text().splitlines()]
    assert (spike["step"], spike["player"]) == (5, "policy")
    assert spike["norm"] > spike["limit"] == 50 * spike["median"]
    killed = start(home, tmp_path / "killed", setting__guard=guard)

    def kill(run: Run, row: Any, groups: Any) -> None:
        if row["step"] == 5:
            raise Killed

    killed.on_step = kill
    with pytest.raises(Killed):
        go(killed)
    api.resume(tmp_path / "killed")
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
