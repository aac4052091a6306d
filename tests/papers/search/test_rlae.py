"""RLAE: what PPO reads of an answer in spans, frozen models, and learned weights in a small world."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus.api import train
from gradus.credit.gae import GAE
from gradus.environments.span_mixture import SpanMixture
from gradus.papers.bases.ppo import ppo
from gradus.papers.search.rlae import rlae
from gradus.types.players import Fresh
from gradus.types.spaces import Box

SMALL = rlae.but(study=None, setting__prompts=2, setting__group=2, setting__save_every=0, setting__warmup=0)


def test_its_parts_are_those_of_ppo() -> None:
    assert rlae.objective == ppo.objective
    assert rlae.update == ppo.update
    assert (rlae.objective["policy"].trust.low, rlae.objective["policy"].trust.high) == (0.2, 0.2)
    assert rlae.credit == GAE(gamma=1.0, lam=0.95)
    assert set(rlae.players) == {"policy", "critic", "one", "two"}
    assert rlae.players["policy"].model == Fresh()
    assert (SpanMixture().span, SpanMixture().acts) == (5, Box((-4.0, -4.0), (4.0, 4.0)))


def test_the_models_stay_and_the_controller_learns() -> None:
    run = train(SMALL, task="arithmetic", task_options={"level": "1", "operations": "+"}, setting__steps=0, seed=1)
    before = {n: [p.detach().clone() for p in run.players[n].policy.network.parameters()] for n in run.players}
    run = train(SMALL, task="arithmetic", task_options={"level": "1", "operations": "+"}, setting__steps=2, seed=1)
    same = {n: all(map(torch.equal, before[n], (p.detach() for p in run.players[n].policy.network.parameters()))) for n in before}
    assert same == {"policy": False, "critic": False, "one": True, "two": True}
    assert {len(m) > 0 for m in run.metrics} == {True}
    weights = [[m[f"weight/{n}/+"] for n in ("one", "two")] for m in run.metrics if "weight/one/+" in m]
    assert weights
    assert all(sum(row) == pytest.approx(1.0) and min(row) >= 0 for row in weights)
    assert np.isfinite([m["reward"] for m in run.metrics]).all()
