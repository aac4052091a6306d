"""REX-RAG: the ratio to the mixture, the limit without clones, and the numbers of the paper."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.objectives.ratios import TokenRatio
from gradus.papers.agents.rex_rag import MixtureRatio, rex_rag
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rollouts.clones import STREAM, Doubting
from gradus.rollouts.episodes import Episodes
from gradus.testing.methods.batches import evaluated
from gradus.testing.methods.scripted import scripted_world
from gradus.types import Frozen, Group, Request, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb
from tests.rollouts.test_clones import PROBLEM, TASK, run, wrong_then_right


def test_the_numbers_of_the_row() -> None:
    """alpha 0.1: an original token, the first inserted token, and a token before it (z = 0.5, j = 4), as ratios of pi = pi_old."""
    (group,), *_ = run(wrong_then_right)
    one = group.trajectories[2]
    rows = np.tile([1.0, 0.0], (one.actions, 1))
    rows[0], rows[1], rows[2] = (0.9, 0.0), (0.9, 0.1), (0.9 + 0.1 / 0.5**0.25, 0.0)
    (context,) = one.contexts
    marked = one.but(contexts=(replace(context, streams=Frozen({**context.streams, STREAM: rows.astype(np.float32)})),), advantages=np.ones(one.actions))
    old = torch.full((one.actions,), 0.4, dtype=torch.float64).log()
    old[1] = math.log(0.05)
    q = (old - MixtureRatio().log_ratio(old, old, make_batch([Group("g", (marked,))], dtype=torch.float64))).exp()
    assert q[:3].tolist() == pytest.approx([0.36, 0.145, 0.4076], abs=1e-4)
    assert q[3] == pytest.approx(0.4)


def test_the_ratio_divides_by_the_mixture() -> None:
    (group,), *_ = run(wrong_then_right)
    batch = make_batch([Group("g", tuple(t.but(advantages=np.ones(t.actions)) for t in group.trajectories))], dtype=torch.float64)
    old = torch.full((sum(t.actions for t in group.trajectories),), math.log(0.4), dtype=torch.float64)
    now = torch.full_like(old, math.log(0.2))
    rows = np.concatenate([t.stream(STREAM) for t in group.trajectories]).astype(float)
    assert MixtureRatio().log_ratio(now, old, batch).exp().tolist() == pytest.approx(0.2 / (rows[:, 0] * 0.4 + rows[:, 1]))


def test_without_clones_it_is_grpo() -> None:
    (group,), *_ = run(wrong_then_right, Doubting(prob=0.0))
    world, _ = scripted_world(TASK, lambda ask: wrong_then_right(ask.request.sample, ask.request.tags[-1]))
    (plain,) = asyncio.run(Episodes(max_turns=5).run([Request(PROBLEM, 2, tags=(0,))], world))
    assert [t.id for t in group.trajectories] == [t.id for t in plain.trajectories]
    assert [t.completion for t in group.trajectories] == [t.completion for t in plain.trajectories]
    found = []
    for ratio in (MixtureRatio(), TokenRatio()):
        batch = make_batch([Group("g", tuple(t.but(advantages=np.linspace(-1, 1, t.actions)) for t in group.trajectories))])
        now = {LogProb(): batch.behaviour_logprobs * 0.9}
        out = evaluated(rex_rag.but(objective__policy__ratio=ratio).objective["policy"], now, batch)
        found.append((out.loss.tolist() if hasattr(out.loss, "tolist") else out.loss, out.gradient[LogProb()].tolist()))
    assert found[0] == found[1]


def test_numbers_of_the_paper_and_refusals() -> None:
    rollout = rex_rag.rollout
    assert (rollout.prob, rollout.keep, rollout.rate, rex_rag.setting.group, rex_rag.update.count) == (0.2, 0.08, 0.1, 5, 10)
    assert rex_rag.objective["kl"].coefficient == 0.001
    assert {"rollout", "reward", "environment", "objective.policy.ratio"} <= set(changes(grpo, rex_rag))
    assert rollout.test == Episodes(max_turns=5)
    for wrong in ({"doubts": ()}, {"doubts": ("",)}, {"play": Episodes(history=2)}):
        with pytest.raises(UserError, match="doubts"):
            Doubting(**wrong)
    with pytest.raises(UserError, match="cannot be copied"):
        rollout.check_task(replace(TASK, environment=None))
    assert Frozen(rollout.start()) == Frozen(keep=0.08)
