"""Runs whose workers are killed: no sample is lost or counted twice, and the bytes are those of the run without kills, or of its replay."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import gradus
from gradus.api import train
from gradus.comparison.replay import replay
from gradus.recipe.registry import recipe
from gradus.systems import fleet
from gradus.systems.fleet import device_of_worker, hosted
from gradus.systems.process_link import ProcessLink
from gradus.types import UserError
from gradus.types.systems import Ahead, Streaming
from tests.systems.killed import Doomed
from tests.systems.test_process_link import running
from tests.training.test_ahead import SMALL, same

LAKE = {k: v for k, v in {**SMALL, "task": "frozen_lake", "setting__prompts": 2, "setting__group": 3}.items() if k != "reward"}
SUMS = {k: v for k, v in SMALL.items() if k != "reward"}


def doomed(monkeypatch, kills, seed, every):
    made = Doomed(kills, seed, every)
    monkeypatch.setattr(fleet, "ProcessLink", made)
    return made


def without(run, name):
    for row in run.metrics:
        row.pop(name)
    return run


@pytest.mark.alone
def test_a_run_whose_workers_are_killed_has_the_bytes_of_a_run_without_workers(monkeypatch, capsys):
    """Two rollout workers and two environment processes; three of them are killed."""
    plain = train(recipe("gigpo"), steps=2, **LAKE)
    made = doomed(monkeypatch, 3, seed=1, every=5)
    system = Streaming(staleness=0, workers=2, workers_in="processes", environments=2)
    run = without(train(recipe("gigpo").but(system=system), steps=2, **LAKE), "staleness")
    assert same(run, plain)
    assert len(made.roles) == 3
    assert capsys.readouterr().err.count("was killed by SIGKILL; it starts again, and its work is done again") in (2, 3)  # the last may not be missed
    assert run.hosts is None
    assert type(run.task.environment).__name__ == "FrozenLake"


@pytest.mark.alone
def test_verdicts_of_killed_processes_are_judged_again(monkeypatch):
    plain = train(recipe("grpo"), steps=2, **SUMS)
    made = doomed(monkeypatch, 2, seed=3, every=4)
    run = train(recipe("grpo").but(system=Ahead(verifiers=2)), steps=2, **SUMS)
    assert made.roles == ["tasks"] * 2
    assert [row["reward"] for row in run.metrics[:1]] == [row["reward"] for row in plain.metrics[:1]]
    assert same(run, train(recipe("grpo").but(system=Ahead()), steps=2, **SUMS))


@pytest.mark.nightly
def test_killed_workers_that_take_weights_between_tokens_are_replayed(monkeypatch, tmp_path):
    made = doomed(monkeypatch, 4, seed=3, every=10)
    words = {**SMALL, "setting__max_tokens": 48}
    system = Streaming(staleness=2, workers=2, workers_in="processes", interrupt=True)
    run = train(recipe("grpo").but(system=system), steps=8, run=tmp_path / "run", **words)
    assert made.roles == ["players"] * 4
    assert max(row["versions"] for row in run.metrics) > 1  # some answers have tokens of several versions
    assert replay(tmp_path / "run", tmp_path / "again").differs is None


@pytest.mark.nightly
def test_the_group_of_a_worker_that_hangs_is_sampled_by_another(monkeypatch):
    plain = train(recipe("grpo"), steps=2, **SMALL)
    links: list[ProcessLink] = []

    class Stopped(ProcessLink):
        """The first process stops at its first sample, and does not go on."""

        def send(self, document, arrays=None):
            links.append(self)
            if document["do"] == "sample" and self is links[0]:
                os.kill(self.process.pid, signal.SIGSTOP)
            super().send(document, arrays)

    monkeypatch.setattr(fleet, "ProcessLink", Stopped)
    system = Streaming(staleness=0, workers=2, workers_in="processes", deadline=1.0)
    assert same(without(train(recipe("grpo").but(system=system), steps=2, **SMALL), "staleness"), plain)
    assert not running(links[0].process.pid)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_a_run_with_twenty_kills_loses_no_sample_and_counts_none_twice(monkeypatch, tmp_path, seed):
    system = Streaming(staleness=1, workers=2, workers_in="processes", environments=2)
    made = doomed(monkeypatch, 20, seed, every=12)
    words = {**LAKE, "setting__save_every": 3}
    run = train(recipe("gigpo").but(system=system), steps=10, run=tmp_path / "run", **words)
    assert len(made.roles) == 20
    assert set(made.roles) == {"players", "tasks"}
    facts = [json.loads(line) for line in (tmp_path / "run/facts.jsonl").read_text().splitlines()]
    used = [number for fact in facts if "stream" in fact["call"] for number, *_ in json.loads(fact["reason"])]
    assert len(used) == len(set(used)) == 10 * LAKE["setting__prompts"]
    assert len(run.metrics) == 10
    made.left = 0
    assert replay(tmp_path / "run", tmp_path / "again").differs is None


@pytest.mark.nightly
def test_twenty_killed_verifiers_change_no_byte(monkeypatch):
    plain = train(recipe("grpo").but(system=Ahead()), steps=12, **SUMS)
    made = doomed(monkeypatch, 20, seed=5, every=5)
    assert same(train(recipe("grpo").but(system=Ahead(workers_in="processes", verifiers=2)), steps=12, **SUMS), plain)
    assert len(made.roles) == 20


@pytest.mark.nightly
def test_a_killed_trainer_leaves_no_process_and_resumes(tmp_path):
    words = "train gigpo --task frozen_lake --steps 6 --setting.prompts 2 --setting.group 2 --setting.max_tokens 8 --setting.save_every 1 --study None"
    system = "--system Streaming --system.workers 2 --system.workers_in processes --system.environments 2"
    command = [sys.executable, "-m", "gradus", *words.split(), *system.split(), "--run", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics, workers = tmp_path / "run/metrics.jsonl", []
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not (metrics.exists() and metrics.read_text().count("\n") >= 2):
        time.sleep(0.05)
    workers = children(process.pid)
    assert len(workers) == 4
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while any(map(running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(running, workers))
    run = gradus.resume(tmp_path / "run")
    assert len(run.metrics) == 6
    assert replay(tmp_path / "run", tmp_path / "again").differs is None


def children(process: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if b"gradus.systems.serve" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.parametrize(("device", "count", "given"), [
    ("cpu", 0, ["cpu"] * 3), ("cuda", 1, ["cuda:0"] * 3), ("cuda", 3, ["cuda:1", "cuda:2", "cuda:1"]), ("cuda:1", 3, ["cuda:0", "cuda:2", "cuda:0"]),
])  # fmt: skip
def test_workers_share_the_gpus_on_which_the_run_does_not_train(device, count, given, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert [device_of_worker(device, i) for i in range(3)] == given


def test_systems_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match=r'unknown place "process" \(did you mean processes\?\)'):
        Streaming(workers_in="process")
    with pytest.raises(UserError, match="environments"):
        Ahead(environments=0)
    with pytest.raises(UserError, match="`environments` is set, but task arithmetic has no environment"):
        train(recipe("grpo").but(system=Streaming(environments=1)), steps=1, **SMALL)
    run = SimpleNamespace(recipe=recipe("grpo"), task=None, stages=SimpleNamespace(legs=[SimpleNamespace(recipe=recipe("grpo").but(system=Ahead(verifiers=1)))]))
    with pytest.raises(UserError, match="a run that has stages can sample only in threads"), hosted(run, None, "cpu"):
        pass
