"""`gradus simulate`: from its words to the table."""

from __future__ import annotations

import json

import pytest

from gradus.cli.main import main

SMALL = ["simulate", "grpo", "--gpus", "16", "--model", "1.5B", "--prompts", "8", "--group", "4", "--share", "0.5", "--steps", "6"]


def test_a_table_and_a_recommendation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--length", "300", "--max-tokens", "900"]) == 0
    out = capsys.readouterr().out
    assert "All rates are estimates" in " ".join(out.split())
    assert "recommended: " in out
    assert "lockstep" in out


def test_measured_rates_take_the_place_of_estimates(capsys: pytest.CaptureFixture[str]) -> None:
    rates = ["--decode", "1=10,1000=10000", "--prefill", "1e9", "--update", "1e9", "--publish", "0", "--spread", "0", "--length", "96", "--json"]
    assert main([*SMALL, "--staleness", "0", *rates]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["configurations"]) == 1
    assert found["recommended"]["shared"]
    assert found["recommended"]["step"] == pytest.approx(96 * 0.1, rel=1e-3)  # 96 tokens, 10 tokens per second and sequence
    assert found["recommended"]["tokens"] == pytest.approx(8 * 4 * 10, rel=1e-3)


@pytest.mark.parametrize(
    ("words", "due"),
    [
        (["--model", "big"], "give a number of parameters, such as 70B"),
        (["--share", "1.5"], "between 0 and 1"),
        (["--staleness", "-1"], "each number must be 0 or more"),
        (["--prompts", "8,x"], '--prompts is "8,x"'),
        (["--decode", "8:900"], "SEQUENCES=TOKENS_PER_SECOND"),
        (["--update", "0"], "--update is 0; it must be above 0"),
        (["--from", "nowhere", "--length", "3"], "--length sets lengths, but --from reads them from nowhere"),
        (["--gpus", "0"], "--gpus is 0, --steps is"),
    ],
)
def test_wrong_words_are_refused(words: list[str], due: str, capsys: pytest.CaptureFixture[str]) -> None:
    changed = {words[i]: words[i + 1] for i in range(0, len(words), 2)}
    kept = [w for i in range(2, len(SMALL), 2) if SMALL[i] not in changed for w in SMALL[i : i + 2]]
    assert main(["simulate", "grpo", *kept, *words]) == 2
    assert due in capsys.readouterr().err


def test_a_model_that_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "grpo", "--gpus", "8", "--model", "70B"]) == 1
    assert "no configuration fits: 70B needs 8 GPUs per replica and at least 25 GPUs to train; --gpus is 8" in capsys.readouterr().err
