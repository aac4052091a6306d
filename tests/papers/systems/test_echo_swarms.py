"""Echo: versions in both modes, dropped groups, no sample twice, the shares of unequal workers, its limit."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

import gradus
from gradus.objectives.ratios import TokenRatio
from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.echo_swarms import echo_swarms
from gradus.rewards.finished import Finished
from gradus.runtime.activity import worker_here
from gradus.training.pace import Pace
from gradus.training.streaming import Stream
from gradus.types import UserError
from gradus.types.parts import Judgement
from gradus.types.systems import Streaming
from tests.training.test_ahead import SMALL, same

PULL = echo_swarms.but(system__staleness=0)
DELAYS = {"worker-0": 0.01, "worker-1": 0.02, "worker-2": 0.04}
SEEN: Counter[str] = Counter()


@dataclass(frozen=True)
class Unequal:
    """A reward for short answers, after the delay of the worker."""

    needs = ()

    async def score(self, groups, signals, world):
        SEEN[str(worker_here())] += len(groups)
        await asyncio.sleep(DELAYS[worker_here()])
        return [[Judgement(float(t.contexts[0].actions < 8)) for t in g.trajectories] for g in groups]


def decisions(folder):
    """The pairs (step, number, version) of all groups that were trained on."""
    facts = [json.loads(line) for line in (folder / "facts.jsonl").read_text().splitlines()]
    return [(fact["step"], number, version) for fact in facts for number, version, *_ in json.loads(fact["reason"])]


def test_in_pull_mode_every_sample_has_the_version_of_the_trainer(tmp_path):
    run = gradus.train(PULL, steps=4, run=tmp_path / "run", **{**SMALL, "reward": Unequal()})
    used = decisions(tmp_path / "run")
    assert len(used) == 4 * SMALL["setting__prompts"]
    assert all(step == version for step, _, version in used)
    assert [row["staleness"] for row in run.metrics] == [0.0] * 4


def test_in_push_pull_mode_no_sample_is_older_than_two_versions_and_none_is_used_twice(tmp_path):
    SEEN.clear()
    gradus.train(echo_swarms, steps=8, run=tmp_path / "run", **{**SMALL, "reward": Unequal()})
    used = decisions(tmp_path / "run")
    assert all(0 <= step - version <= 2 for step, _, version in used)
    numbers = [number for _, number, _ in used]
    assert len(numbers) == len(set(numbers)) == 8 * SMALL["setting__prompts"]
    assert sum(SEEN.values()) >= len(numbers)
    assert set(SEEN) <= {"worker-0", "worker-1", "worker-2"}


def test_both_modes_end_with_the_weights_of_a_run_in_one_place_at_the_limit():
    words = {**SMALL, "reward": Finished()}
    plain = gradus.train(grpo.but(objective__policy__ratio=echo_swarms.objective["policy"].ratio), steps=4, **words)
    for workers in (1, 3):
        found = gradus.train(PULL.but(system__workers=workers), steps=4, **words)
        for row in found.metrics:
            del row["staleness"]
        assert same(found, plain)


def stream(system, done=(), requests=(), running=()):
    """A `Stream` without a run: its finished groups with their versions, its open requests, and the times since busy workers began."""
    pace = Pace(system.workers)
    for worker, seconds in enumerate((1.0, 2.0, 4.0)):
        pace.begin(worker, 0.0)
        pace.end(worker, 10, seconds)
    for worker, since in running:
        pace.begin(worker, time.monotonic() - since)
    found = {number: SimpleNamespace(version=version) for number, version in done}
    return SimpleNamespace(system=system, done=found, requests=dict.fromkeys(requests), running={}, pace=pace)


def test_a_step_takes_the_newest_samples():
    done = [(4, 1), (7, 1), (5, 2), (6, 2)]  # in the order of their ends
    assert Stream._chosen(stream(echo_swarms.system, done), 3) == [4, 5, 6]
    assert Stream._chosen(stream(Streaming(staleness=2), done), 3) == [4, 5, 7]
    assert Stream._chosen(stream(echo_swarms.system, done), 5) is None


def test_an_idle_worker_leaves_a_request_to_a_faster_one():
    asked = stream(echo_swarms.system, requests=[8, 9], running=[(0, 0.5)])  # the first worker is free in 0.5 s, and ends requests at 1.5 and 2.5 s
    assert [Stream._next(asked, worker) for worker in (0, 1, 2)] == [8, 9, None]  # the second one ends its first request at 2 s
    asked = stream(Streaming(staleness=2, workers=3), requests=[8, 9], running=[(0, 0.5)])
    assert [Stream._next(asked, worker) for worker in (0, 1, 2)] == [8, 8, 8]  # without the rule, any idle worker takes the first request


def test_unknown_rules_are_refused():
    with pytest.raises(UserError, match=r'unknown value "oldest".*In trains_on of Streaming'):
        Streaming(trains_on="oldest")
    with pytest.raises(UserError, match=r'unknown value "fast".*In dispatch of Streaming'):
        Streaming(dispatch="fast")


def test_the_system_of_the_recipe():
    assert echo_swarms.system == Streaming(staleness=2, workers=3, trains_on="newest", dispatch="speed", publish_every=1)
    assert echo_swarms.objective == grpo.but(objective__policy__ratio=TokenRatio(against="behaviour")).objective
    assert echo_swarms.players == grpo.players
