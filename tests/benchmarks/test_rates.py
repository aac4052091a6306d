"""The table of the benchmark of learning rates, and its rewards."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.rates import Arm, gain, table
from benchmarks.rates_rewards import short_words, whole_sentence
from gradus.players.rates import rate_for


def row(seed: int, rewards: list[float], **fields: Any) -> dict[str, Any]:
    arm = {"size": "1M", "kind": "plain", "seed": seed, "steps": 40, "adapter": False, "prompt": "raw", "parameters": 1_000_000, "rate": 5e-4}
    return {**arm, "rewards": rewards, "entropy": [2.0] * len(rewards), "kl": [0.5] * len(rewards), **fields}


def test_the_gain_is_a_share_of_the_headroom() -> None:
    # start: mean of the first 3 rewards, 0.4; end: mean of the last 5, 0.7; headroom 0.6
    assert gain(row(0, [0.3, 0.4, 0.5, 0.9, 0.5, 0.6, 0.7, 0.8, 0.9])) == pytest.approx((0.4, 0.7, 0.5))


def test_the_table_has_the_seeds_at_the_rules_rate_and_the_gains_at_others() -> None:
    assert rate_for(1_000_000) == 5e-4
    rows = [row(seed, [0.2] * 3 + [end] * 5) for seed, end in enumerate((0.6, 0.8, 1.0))]
    lines = table([row(0, [0.2] * 3 + [0.4] * 5, rate=1.5e-3), *rows, row(0, [0.2] * 8, rate=1e-4, precision="bfloat16")]).splitlines()
    assert lines[2:] == [
        "| 1M | 1,000,000 | plain, short_words, bfloat16 | 0.0005 | - | - | - | - | 0.0001: 0.00 |",
        "| 1M | 1,000,000 | plain, short_words | 0.0005 | 0.20 | 0.80 | 0.50, 0.75, 1.00 | 0.50 | 0.0015: 0.25 |",
    ]
    assert Arm("1M", "chat", 1.0, 0).precision == "float32"


def test_the_rewards() -> None:
    assert short_words(["a file of tables.", "two words", ""]) == [0.75, 0.0, 0.0]
    assert whole_sentence(["a whole sentence. ", "no full stop here", "Too short."]) == [1.0, 0.0, 0.0]
    assert whole_sentence([[{"role": "assistant", "content": "a whole sentence."}]]) == [1.0]
