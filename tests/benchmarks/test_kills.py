"""A run that is killed at random moments and resumed leaves the bytes of one that was not."""

from __future__ import annotations

import json

from benchmarks.kills import compare
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


def test_five_kills_change_no_byte():
    struck, different = compare("grpo", steps=40, kills=5, horizon=1.5, extra=["--study.problems", "4"])
    assert struck > 0
    assert different == []


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
