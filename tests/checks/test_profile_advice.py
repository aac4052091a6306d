"""The advice of a profile: the largest gaps first, and each sentence by its part."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gradus.checks.profile import Row
from gradus.checks.profile_advice import advice, gaps
from gradus.runtime.activity import ACTIVITIES

SETTING = SimpleNamespace(micro_tokens=4096, recompute=False, precision="float32", save_every=25)
RECIPE = SimpleNamespace(setting=SETTING)


def told(*rows: Row, whole: float = 1.0, device: str = "cpu") -> tuple[str, ...]:
    return advice(rows, whole, RECIPE, device)


def test_the_largest_gaps_first_and_no_sum_of_parts():
    rows = (Row("sampling", 1.0), Row("sampling/decode", 0.9, floor=0.7), Row("sampling/rest", 0.1), Row("judging", 0.3))
    assert [row.name for row in gaps(rows)] == ["judging", "sampling/decode", "sampling/rest"]


def test_at_most_two_and_none_that_is_small():
    rows = [Row("judging", 0.2), Row("other", 0.3), Row("saving", 0.25), Row("environment", 0.04)]
    assert [text.partition(":")[0] for text in told(*rows)] == ["other", "saving"]
    assert told(Row("judging", 0.04)) == ()
    assert told(Row("judging", 0.0), whole=0.0) == ()


@pytest.mark.parametrize(
    ("row", "device", "said"),
    [
        (Row("sampling/decode", 0.5, tokens=100, calls=10, floor=0.1), "cpu", "has 10 rows on average and takes 50 ms; its products need 10 ms"),
        (Row("sampling/decode", 0.5, tokens=1000, calls=10, floor=0.1), "cpu", "Attention to the tokens so far"),
        (Row("sampling/decode", 0.5, tokens=1000, calls=10, floor=0.1), "cuda", "--players.policy.engine VLLM"),
        (Row("sampling/decode", 0.5, tokens=1000, calls=10, floor=0.4), "cpu", "close to the peak of the machine"),
        (Row("updating/backward", 0.5, tokens=3000, calls=1, floor=0.1), "cpu", "3,000 rows on average, near the limit --micro_tokens 4096"),
        (Row("updating/forward", 0.5, tokens=300, calls=1, floor=0.1), "cuda", "far below the limit"),
        (Row("updating/forward", 0.5, tokens=300, calls=1, floor=0.1), "cuda", "--precision bfloat16 is faster"),
        (Row("log-probs/forward", 0.5, tokens=300, calls=1, floor=0.1), "cpu", "reads fewer signals"),
        (Row("judging", 0.5), "cpu", "this part has no floor. A faster reward function helps"),
        (Row("saving", 0.5), "cpu", "every 25 steps"),
        (Row("updating/optimiser", 0.5), "cpu", "larger mini-batches"),
    ],
)
def test_a_sentence_for_each_part(row, device, said):
    (text,) = told(row, device=device)
    assert said in text


@pytest.mark.parametrize("name", [name for name in ACTIVITIES if not name.startswith(("waits", "evaluating"))])
def test_every_activity_has_its_advice(name):
    (text,) = told(Row(name, 0.5))
    assert "close to the peak" not in text
