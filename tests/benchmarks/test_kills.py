"""Runs that are killed at random moments and resumed leave the bytes of those that were not; what is lost or counted twice is found."""

from __future__ import annotations

import json
import random
import shutil
import signal

import pytest

from benchmarks.kills import KINDS, fingerprint, miscounted, strike
from gradus.api import resume
from gradus.api import train as train_run
from tests.small_model import save_small_model

SMALL = {
    "setting__prompts": 2,
    "setting__group": 4,
    "setting__max_tokens": 6,
    "setting__save_every": 2,
    "setting__eval_every": 2,
    "study__problems": 4,
}


FEW = ("--prompts", "2", "--group", "4", "--save_every", "2", "--eval_every", "3", "--study.problems", "2", "--learning_rate", "1e-3")


@pytest.mark.parametrize("recipe", ["pipeline_rl"])  # answers in flight; the other kinds, with more kills, run nightly
def test_a_kill_changes_no_byte(recipe, forked, tmp_path):
    found = strike(forked, tmp_path, KINDS[recipe], steps=4, kills=1, rng=random.Random(recipe), size=FEW, stride=3)
    assert (found.struck, found.different) == (1, ())


SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@pytest.mark.parametrize("recipe", ["areal"])  # workers that stream; nightly also rollouts in advance, with more signals
def test_a_signal_to_a_run_with_a_system_loses_and_doubles_nothing(recipe, forked, tmp_path):
    found = strike(forked, tmp_path, KINDS[recipe], steps=4, kills=1, rng=random.Random(recipe), size=FEW, stride=3, signals=SIGNALS)
    assert (found.struck, found.different) == (1, ())


@pytest.mark.nightly
@pytest.mark.parametrize("recipe", ["dr_grpo", "areal"])
def test_eight_signals_to_a_run_with_a_system_lose_and_double_nothing(recipe, forked, tmp_path):
    found = strike(forked, tmp_path, KINDS[recipe], steps=6, kills=8, rng=random.Random(recipe), size=FEW, stride=4, signals=SIGNALS)
    assert (found.struck, found.different) == (8, ())


@pytest.mark.nightly
@pytest.mark.parametrize("recipe", KINDS)
def test_five_kills_change_no_byte(recipe, forked, tmp_path):
    found = strike(forked, tmp_path, KINDS[recipe], steps=5, kills=5, rng=random.Random(recipe), size=FEW, stride=3)
    assert (found.struck, found.different) == (5, ())


def test_what_was_lost_or_counted_twice_is_found(tmp_path):
    model = str(save_small_model(tmp_path / "model"))
    folder = train_run("grpo", task="arithmetic", model=model, run=tmp_path / "run", steps=3, **SMALL).folder
    whole = fingerprint(folder.path)
    assert {"metrics.jsonl", "rollouts/step-000002.arrow", "checkpoints/step-000003/player-policy.safetensors"} <= set(whole)
    assert miscounted(folder.path) == []
    shutil.copy(folder.path / "rollouts" / "step-000001.arrow", folder.path / "rollouts" / "step-000002.arrow")
    lines = (folder.path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder.path / "metrics.jsonl").write_text("".join([lines[0], *lines[2:]]))
    found = miscounted(folder.path)
    assert len(found) == 9  # two groups of four answers, and a line of metrics
    assert found[-1] == "step 1"
    assert all(", 2 times" in name for name in found[:-1])
    assert sorted(n for n, digest in fingerprint(folder.path).items() if digest != whole[n]) == ["metrics.jsonl", "rollouts/step-000002.arrow"]


def test_a_run_carried_on_equals_one_that_was_planned_so_long(tmp_path):
    model = str(save_small_model(tmp_path / "model"))
    reward = tmp_path / "reward.py"
    reward.write_text("def score(completion_ids, **kwargs):\n    return [float(len(set(i)) % 3) for i in completion_ids]\n")
    for recipe in ("ppo", "m2po"):  # a second model with its optimiser; weights that lag behind
        folders = [tmp_path / f"{recipe}-{n}" for n in ("whole", "cut")]
        common = {"task": "arithmetic", "model": model, "reward": f"{reward}:score", **SMALL}
        whole = train_run(recipe, run=folders[0], steps=6, **common)
        train_run(recipe, run=folders[1], steps=4, **common)
        cut = resume(folders[1], more=6)
        assert whole.players["policy"].updates == cut.players["policy"].updates > 0
        for name in ("metrics.jsonl", "final/model.safetensors"):
            assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), (recipe, name)
        assert [json.loads(line)["step"] for line in (folders[1] / "metrics.jsonl").read_text().splitlines()] == list(range(7))
