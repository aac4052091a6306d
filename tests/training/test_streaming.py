"""Groups that are sampled without a pause: the bytes of a plain run without staleness, the bound, the facts, slow workers."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gradus
from gradus.api import train
from gradus.comparison.replay import replay
from gradus.policies.lm import LanguageModel
from gradus.recipe.registry import recipe
from gradus.rollouts.in_flight import InFlight
from gradus.training import twins
from gradus.training.between_tokens import Changing
from gradus.types import UserError
from gradus.types.parts import Judgement
from gradus.types.signals import LogProbs
from gradus.types.systems import Streaming
from tests.small_model import save_small_model
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
    used = [number for fact in facts for number, *_ in json.loads(fact["reason"])]
    assert len(used) == len(set(used)) == 12 * words["setting__prompts"]  # no group is lost or counted twice
    lags = [fact["step"] - version for fact in facts for _, version, *_ in json.loads(fact["reason"])]
    assert max(lags) == staleness
    assert all(row["staleness"] <= staleness for row in run.metrics)
    assert all(version % publish_every == 0 for fact in facts for _, version, *_ in json.loads(fact["reason"]))


def test_a_slow_group_does_not_stall_the_others_and_is_sampled_again_if_it_is_too_old(tmp_path):
    words = {**SMALL, "reward": SlowProblems(0.05, every=7)}
    run = train(recipe("grpo").but(system=Streaming(staleness=1, workers=4)), steps=12, run=tmp_path / "run", **words)
    assert max(row["staleness"] for row in run.metrics) <= 1
    assert len(run.metrics) == 12


RELEASED: list[asyncio.Event] = []


@dataclass(frozen=True)
class OneWaits:
    """A reward for short answers. The group that is sampled first is judged only when the test sets the event."""

    needs = ()

    async def score(self, groups, signals, world):
        if not RELEASED:
            RELEASED.append(asyncio.Event())
            await RELEASED[0].wait()
        return [[Judgement(float(t.contexts[0].actions < 8)) for t in g.trajectories] for g in groups]


def test_a_worker_that_never_ends_stalls_no_other_worker(tmp_path):
    """One of the first two groups ends only after step 5, so a run that waits for it would never end. The group is then too old, and its tokens count as lost."""
    RELEASED.clear()

    def release(run, row, groups):
        if row["step"] == 5:
            RELEASED[0].set()

    words = {**SMALL, "reward": OneWaits()}
    run = train(recipe("grpo").but(system=Streaming(staleness=1, workers=2)), steps=9, run=tmp_path / "run", on_step=release, **words)
    found = facts(tmp_path / "run")
    (waiting,) = {0, 1} - {number for chosen in found[:6] for number, *_ in chosen}
    assert max(row["staleness"] for row in run.metrics) <= 1
    late = [(step, *more) for step, chosen in enumerate(found) for number, _, *more in chosen if number == waiting]
    if late:  # else the run ended before the group was sampled again
        ((step, more),) = late
        sampled = sum(t.actions for _, group in run.folder.rollouts([step]) for t in group.trajectories)
        assert run.metrics[step]["stale"] == 0.5
        assert run.metrics[step]["tokens/rollout"] == sampled + more["lost"][0]["rollout"]


def facts(folder) -> list[list]:
    """The decisions of every step."""
    return [json.loads(json.loads(line)["reason"]) for line in (folder / "facts.jsonl").read_text().splitlines()]


def test_the_requests_before_each_update_follow_the_rule_of_admission():
    """With 4 prompts per step and staleness 1, exactly 8 requests are admitted before the first update, and 12 after it: floor((N - 1) / 4) <= step + 1."""
    admitted = []
    words = {**SMALL, "setting__prompts": 4}
    train(
        recipe("grpo").but(system=Streaming(staleness=1)), steps=4,
        on_step=lambda run, row, groups: admitted.append(run.memory.states["system"]["state"]["next"]), **words,
    )  # fmt: skip
    assert admitted == [8, 12, 16, 16]  # the last step needs no further request


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third and the fourth group of a run stop after some tokens until newer weights are published, so both are interrupted. No clock decides."""
    real, groups = Changing._newest, list[Any]()

    def waits(self, answers):
        groups.extend([self.diary] if self.diary not in groups else [])
        newest, number, asked = self.newest, groups.index(self.diary), itertools.count()

        def later():
            if number in (2, 3) and next(asked) == 4:
                end = time.monotonic() + 60
                while newest()["step"] == 0 and time.monotonic() < end:
                    time.sleep(0.002)
            return newest()

        self.newest = later
        try:
            real(self, answers)
        finally:
            self.newest = newest

    monkeypatch.setattr(Changing, "_newest", waits)


LONGER = {**SMALL, "setting__max_tokens": 24}


def test_an_interrupted_run_is_repeated_from_its_facts(tmp_path, interrupted):
    """The answers have tokens of two versions. A resumed run and a replay have the same bytes, and read no clock."""
    made = recipe("grpo").but(system=Streaming(staleness=2, interrupt=True))

    def fall(run, row, groups):
        if row["step"] == 2:
            raise RuntimeError("the machine fails")

    with pytest.raises(RuntimeError, match="the machine fails"):
        train(made, steps=4, run=tmp_path / "run", on_step=fall, setting__save_every=1, **LONGER)
    before = facts(tmp_path / "run")
    changed = [more[0]["changes"] for chosen in before for number, version, *more in chosen if number in (2, 3)]
    assert len(changed) == 2
    assert all([version for _, version in changes] == [0, 1] for one in changed for changes in one.values())
    run = gradus.resume(tmp_path / "run")
    assert facts(tmp_path / "run")[:3] == before
    assert any(row["versions"] > 1 for row in run.metrics)
    assert replay(tmp_path / "run", tmp_path / "again").differs is None
    mixed = [c for _, g in run.folder.rollouts() for t in g.trajectories for c in t.contexts if len(set(c.versions.tolist())) == 2]
    assert mixed
    assert all((np.diff(c.versions) >= 0).all() for c in mixed)


def test_single_answers_may_be_interrupted_too(tmp_path):
    system = Streaming(staleness=2, workers=3, unit="answer", interrupt=True)
    run = train(recipe("grpo").but(system=system), steps=4, run=tmp_path / "run", **LONGER)
    assert max(row["staleness"] for row in run.metrics) <= 2
    assert replay(tmp_path / "run", tmp_path / "again").differs is None


def test_an_interrupted_run_of_many_turns_is_repeated_from_its_facts(tmp_path, interrupted):
    words = {name: value for name, value in SMALL.items() if name not in ("task", "reward")}
    made = recipe("gigpo").but(system=Streaming(staleness=2, interrupt=True), rollout__max_turns=3)
    run = train(made, "frozen_lake", steps=3, run=tmp_path / "run", **words)
    assert any("changes" in (more or [{}])[0] for chosen in facts(tmp_path / "run") for _, _, *more in chosen)
    assert run.metrics
    assert replay(tmp_path / "run", tmp_path / "again").differs is None


def check_tokens(system: Streaming, steps: int, model: str) -> None:
    """Trains with random delays, and checks the age of every token. A step has one update, so the version of a token is a number of steps."""
    ages = []

    def look(run, row, groups):
        versions = [c.versions for g in groups for t in g.trajectories for c in t.contexts]
        ages.append(row["step"] - min(int(v.min()) for v in versions))

    words = {**SMALL, "setting__group": 2, "setting__max_tokens": 6, "reward": SlowProblems(0.004, every=11)}
    train(recipe("grpo").but(system=system, objective__kl=None, players__reference=None), steps=steps, model=model, on_step=look, **words)
    assert len(ages) == steps
    assert max(ages) == system.staleness


SYSTEMS = [Streaming(staleness=1, workers=3), Streaming(staleness=2, workers=3, interrupt=True, deadline=0.01)]


@pytest.mark.parametrize("system", SYSTEMS, ids=["whole", "interrupted"])
def test_no_token_is_older_than_the_bound(system, tmp_path):
    check_tokens(system, 25, str(save_small_model(tmp_path / "model")))


@pytest.mark.nightly
@pytest.mark.parametrize("system", SYSTEMS, ids=["whole", "interrupted"])
def test_no_token_is_older_than_the_bound_in_a_thousand_steps(system, tmp_path):
    check_tokens(system, 1000, str(save_small_model(tmp_path / "model")))


def test_memory_that_runs_out_in_a_worker_changes_no_byte_of_a_replay(tmp_path, monkeypatch):
    """A worker that cannot sample four answers at a time samples two. The run goes on, and its replay has the same bytes."""
    real = LanguageModel.act

    def small(self, asked, **more):
        if len(asked) > 2:
            raise MemoryError
        return real(self, asked, **more)

    monkeypatch.setattr(LanguageModel, "act", small)
    train(recipe("grpo").but(system=Streaming(staleness=1, interrupt=True)), steps=3, run=tmp_path / "run", **LONGER)
    assert '"reason": "2"' in (tmp_path / "run/facts.jsonl").read_text()
    assert replay(tmp_path / "run", tmp_path / "again").differs is None


def test_copies_that_do_not_fit_into_memory_are_told(monkeypatch):
    def full(player):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 12 bytes")

    monkeypatch.setattr(twins, "twin", full)
    with pytest.raises(UserError, match=r"memory ran out for the copies of the players .* fewer --system\.workers"):
        train(recipe("grpo").but(system=Streaming()), steps=1, **SMALL)


@dataclass(frozen=True)
class Reads:
    """A reward that reads the current policy."""

    needs = (LogProbs(fresh=True),)

    async def score(self, groups, signals, world):
        return [[Judgement(1.0) for _ in g.trajectories] for g in groups]


def test_a_reward_that_reads_changing_weights_is_refused():
    with pytest.raises(UserError, match=r"computes values with the weights of policy .* set --system\.interrupt false"):
        train(recipe("grpo").but(system=Streaming(interrupt=True)), steps=1, **{**SMALL, "reward": Reads()})
    assert len(train(recipe("grpo").but(system=Streaming()), steps=1, **{**SMALL, "reward": Reads()}).metrics) == 1


def test_runs_that_cannot_stream_are_refused():
    with pytest.raises(UserError, match="`publish_every` to 2 or less"):
        Streaming(staleness=1, publish_every=3)
    with pytest.raises(UserError, match=r"InFlight .* has a state, which would depend on the order"):
        train(recipe("grpo").but(system=Streaming(), rollout=InFlight()), steps=1, **SMALL)
    with pytest.raises(UserError, match="--processes is 2, but a run with system Streaming trains in one process"):
        train(recipe("grpo").but(system=Streaming()), steps=1, processes=2, **SMALL)
