"""What a run will take of the memory: that the longest batch is what is measured, and what is advised."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gradus.checks import memory_prediction
from gradus.checks.memory_prediction import Prediction, advice, predict
from gradus.cli.main import main
from gradus.policies.lm import LanguageModel
from gradus.recipe.registry import recipe
from gradus.training.plan import load_task
from gradus.updates import minibatches
from tests.small_model import save_small_model

FITS = Prediction(10, 20, 8, 300, 600, 1000, 2000, 10_000, None, None, ())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("home")
    save_small_model(home / "model")
    rows = ({"prompt": [{"role": "user", "content": "say " + "x" * (i % 7)}], "answer": str(i)} for i in range(20))
    (home / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return home


def small() -> Any:
    return recipe("grpo").but(setting__prompts=2, setting__group=4, setting__max_tokens=5)


def test_one_step_is_done_with_the_longest_prompts_and_answers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    act, seen = LanguageModel.act, []

    def watched(self: LanguageModel, asked: Any) -> Any:
        out = act(self, asked)
        seen.extend((len(a.parent.sequence), c.actions) for a, c in zip(asked, out, strict=True))
        return out

    monkeypatch.setattr(LanguageModel, "act", watched)
    found = predict(small(), load_task(str(home / "problems.jsonl")), str(home / "model"))
    # a character a token, and the template's ">": "say xxxxxx>", the longest of two problems
    assert seen == [(11, 5)] * 8
    assert (found.longest_prompt, found.longest_answer, found.answers) == (11, 5, 8)
    assert found.fits
    assert (found.micro_tokens, found.advice) == (None, ())
    weights = sum(p.numel() for p in LanguageModel.load(home / "model").network.parameters()) * 4
    assert found.weights == 2 * weights  # the policy, and its reference
    assert 2 * weights <= found.optimizer < 2.1 * weights  # two moments, and a count for each parameter
    assert found.update is None or found.update > found.weights


def test_a_step_that_does_not_fit_is_told_with_the_fields_to_lower(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gradient(*a: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(minibatches, "gradient", gradient)
    words = f"doctor --recipe grpo --task {home / 'problems.jsonl'} --model {home / 'model'} --prompts 2 --group 4 --max_tokens 5"
    assert main(words.split()) == 1
    told = capsys.readouterr().out
    assert "does not fit: memory ran out for policy even with one sequence at a time; the longest sequence has 16 tokens" in told
    assert "--recompute true" in told
    assert "--max_tokens below 5" in told


def test_a_doctor_without_a_recipe_takes_no_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--prompts", "2"]) == 2
    assert "add --recipe" in capsys.readouterr().err


def test_advice_by_hand() -> None:
    grpo = recipe("grpo").but(setting__micro_tokens=16384)
    assert advice(FITS, grpo) == ()
    assert advice(replace(FITS, micro_tokens=64), grpo) == ("--micro_tokens 64 avoids the first attempts, which ran out of memory",)
    tight = advice(replace(FITS, update=9_500), grpo)  # above nine tenths of 10,000
    assert [text.split()[0] for text in tight] == ["--recompute", "--backward_chunks", "--micro_tokens", "--max_tokens"]
    assert "--micro_tokens 8192" in tight[2]
    chunked = advice(replace(FITS, update=9_500), grpo.but(setting__backward_chunks=4))
    assert [text.split()[0] for text in chunked] == ["--micro_tokens", "--max_tokens"]
    heavy = advice(replace(FITS, update=9_500, optimizer=6_000), grpo)  # 6,300 of 10,000 are weights and optimiser
    assert heavy[0].startswith("--players.policy.model Adapter")


def test_a_system_that_does_not_say_its_peak(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_prediction, "CLEAR", home / "missing" / "clear_refs")
    monkeypatch.setattr(memory_prediction, "status", lambda name: None)
    found = predict(small(), load_task(str(home / "problems.jsonl")), str(home / "model"))
    assert (found.rollout, found.update, found.fits) == (None, None, True)
    assert "unknown while sampling" in memory_prediction.told(found)
