"""The measurement of PromptPG: the worker's targets, and the three numbers of the claim."""

from __future__ import annotations

import pytest

from benchmarks.prompt_pg import summary
from benchmarks.tables_worker import dialogues, target
from gradus.tasks.maths.tables import KINDS, tables, verify
from gradus.types import Key


def one(kind, index=0):
    return tables(kinds=kind).source.draw([index], None, Key(3))[0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_is_right_with_an_example_of_the_kind_alone(kind):
    problem, same = one(kind), one(kind, 1)
    for other in (one(k, 2) for k in KINDS if k != kind):
        assert verify(problem, target((same, other), problem)) == verify(problem, target((other, same), problem)) == 1.0
        assert verify(problem, target((other, other), problem)) == 0.0


def test_half_of_the_dialogues_have_an_example_of_the_kind():
    rows = dialogues(400, seed=1)
    starts = {"value": " of ", "total": " in all?", "mean": "mean of ", "most": "most "}

    def kind_of(question):
        return next(k for k in ("mean", "most", "total", "value") if starts[k] in question)

    found = []
    for row in rows:
        *shots, question = row["prompt"].split("\n\n")
        assert len(shots) == 2
        found.append(kind_of(question.split("\n")[-1]) in [kind_of(shot.split("\n")[-2]) for shot in shots])
    assert abs(sum(found) / 400 - 0.5) < 0.1  # 4 deviations of a fair coin


def test_the_three_numbers_of_the_claim():
    def seed(right, other):
        return {"random": {"right": other, "same_kind": 0.4}, "likeliest": {"right": right, "same_kind": 0.9}}

    found = summary([seed(0.8, 0.5), seed(0.9, 0.4)], 0.1, 0.85, 0.5)
    # differences 0.3 and 0.5: mean 0.4, deviation 0.1414, half width 12.706 * 0.1414 / sqrt(2) = 1.27
    assert (found["figure"], found["verdict"]) == (0.4, "not seen")
    assert found["interval"] == pytest.approx([-0.8706, 1.6706], abs=1e-3)
    assert found["same_kind"] == {"random": 0.4, "likeliest": 0.9}
    assert found["spread"] == {"likeliest": 0.0707, "random": 0.0707}
    assert found["parts"] == {"right": "not seen", "same_kind": "seen", "spread": "not seen"}


@pytest.mark.parametrize(("same_kind", "spread", "said"), [(0.85, 1.0, "seen"), (0.95, 1.0, "not seen"), (0.85, 0.5, "not seen")])
def test_a_claim_is_seen_if_all_its_parts_are(same_kind, spread, said):
    figures = [
        {"random": {"right": 0.3 + n / 100, "same_kind": 0.4}, "likeliest": {"right": 0.6 + n / 100, "same_kind": 0.9}} for n in range(3)
    ]
    found = summary(figures, 0.1, same_kind, spread)  # the difference is 0.3 at every seed, both deviations are 0.01
    assert (found["parts"]["right"], found["verdict"]) == ("seen", said)
