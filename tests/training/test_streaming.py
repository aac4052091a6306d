"""Groups that are sampled without a pause: the bytes of a plain run without staleness, the bound, the facts, slow workers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import numpy as np
import pytest

from gradus.api import train
from gradus.recipe.registry import recipe
from gradus.rollouts.in_flight import InFlight
from gradus.types import UserError
from gradus.types.parts import Judgement
from gradus.types.systems import Streaming
from tests.training.test_ahead import SMALL, same


@dataclass(frozen=True)
class SlowProblems:
    """A reward for short answers. Its answer takes a random time, and a very long time for one problem in `every` (0: for none)."""

    seconds: float = 0.0
    every: int = 0
    needs = ()

    async def score(self, groups, signals, world):
        rng = np.random.default_rng()
        late = self.every and int(groups[0].key.encode().hex(), 16) % self.every == 0
        await asyncio.sleep(20 * self.seconds if late else float(rng.uniform(0, self.seconds)))
        return [[Judgement(float(t.contexts[0].actions < 8)) for t in g.trajectories] for g in groups]


@pytest.mark.parametrize("workers", [1, 3])
def test_without_staleness_the_bytes_are_those_of_a_plain_run(workers):
    plain = train(recipe("grpo"), steps=4, **SMALL)
    streamed = train(recipe("grpo").but(system=Streaming(staleness=0, workers=workers)), steps=4, **SMALL)
    assert [row.pop("staleness") for row in streamed.metrics] == [0.0] * 4
    assert same(streamed, plain)


@pytest.mark.parametrize(("staleness", "publish_every"), [(1, 1), (3, 2)])
def test_no_group_is_older_than_the_bound(staleness, publish_every, tmp_path):
    system = Streaming(staleness=staleness, workers=3, publish_every=publish_every)
    words = {**SMALL, "reward": SlowProblems(0.05)}
    run = train(recipe("grpo").but(system=system), steps=12, run=tmp_path / "run", **words)
    facts = [json.loads(line) for line in (tmp_path / "run/facts.jsonl").read_text().splitlines()]
    used = [number for fact in facts for number, _ in json.loads(fact["reason"])]
    assert len(used) == len(set(used)) == 12 * words["setting__prompts"]  # no group is lost or counted twice
    lags = [fact["step"] - version for fact in facts for _, version in json.loads(fact["reason"])]
    assert max(lags) == staleness
    assert all(row["staleness"] <= staleness for row in run.metrics)
    assert all(version % publish_every == 0 for fact in facts for _, version in json.loads(fact["reason"]))


def test_a_slow_group_does_not_stall_the_others_and_is_sampled_again_if_it_is_too_old(tmp_path):
    words = {**SMALL, "reward": SlowProblems(0.05, every=7)}
    run = train(recipe("grpo").but(system=Streaming(staleness=1, workers=4)), steps=12, run=tmp_path / "run", **words)
    assert max(row["staleness"] for row in run.metrics) <= 1
    assert len(run.metrics) == 12


def test_runs_that_cannot_stream_are_refused():
    with pytest.raises(UserError, match="publish_every to 2 or less"):
        Streaming(staleness=1, publish_every=3)
    with pytest.raises(UserError, match=r"InFlight .* has a state, which would depend on the order"):
        train(recipe("grpo").but(system=Streaming(), rollout=InFlight()), steps=1, **SMALL)
    with pytest.raises(UserError, match="--processes is 2, but a run with system Streaming trains in one process"):
        train(recipe("grpo").but(system=Streaming()), steps=1, processes=2, **SMALL)
