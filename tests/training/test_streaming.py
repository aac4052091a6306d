"""Groups that are sampled without a pause: the bytes of a plain run without staleness, the bound, the facts, slow workers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import numpy as np
import pytest

from gradus.api import train
from gradus.comparison.replay import replay
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


def test_a_replay_has_the_same_bytes(tmp_path):
    words = {**SMALL, "setting__save_every": 2}
    made = recipe("grpo").but(system=Streaming(staleness=2, workers=3, deadline=0.01))
    train(made, steps=6, run=tmp_path / "run", **words)
    found = replay(tmp_path / "run", tmp_path / "again")
    assert (found.steps, found.differs) == (6, None)
    assert (tmp_path / "run/facts.jsonl").read_text() == (tmp_path / "again/facts.jsonl").read_text()
    facts = [json.loads(line) for line in (tmp_path / "run/facts.jsonl").read_text().splitlines()]
    assert len({tuple(map(tuple, json.loads(f["reason"]))) for f in facts}) == 6


def test_a_difference_is_found(tmp_path):
    train(recipe("grpo"), steps=2, run=tmp_path / "run", **SMALL)
    path = tmp_path / "run/metrics.jsonl"
    path.write_text(path.read_text().replace('"step": 1,', '"step": 1, "other": 1.0,'))
    assert replay(tmp_path / "run", tmp_path / "again").differs == 1


def test_a_killed_run_obeys_its_facts(tmp_path):
    """The steps that had stored their groups are repeated with these groups."""
    made = recipe("grpo").but(system=Streaming(staleness=1, workers=2))

    def fall(run, row, groups):
        if row["step"] == 3:
            raise RuntimeError("the machine fails")

    import gradus

    with pytest.raises(RuntimeError, match="the machine fails"):
        train(made, steps=6, run=tmp_path / "run", on_step=fall, setting__save_every=2, **SMALL)
    before = (tmp_path / "run/facts.jsonl").read_text()
    gradus.resume(tmp_path / "run")
    after = (tmp_path / "run/facts.jsonl").read_text()
    assert after.startswith(before)
    assert replay(tmp_path / "run", tmp_path / "again").differs is None


def test_runs_that_cannot_stream_are_refused():
    with pytest.raises(UserError, match="publish_every to 2 or less"):
        Streaming(staleness=1, publish_every=3)
    with pytest.raises(UserError, match=r"InFlight .* has a state, which would depend on the order"):
        train(recipe("grpo").but(system=Streaming(), rollout=InFlight()), steps=1, **SMALL)
