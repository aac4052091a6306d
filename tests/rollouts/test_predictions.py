"""Predictions of pass rate, length and notions: what is read, what is refused, and that written predictions are read."""

from __future__ import annotations

import pytest

from gradus.rollouts.predictions import Json, Numbers, SelfPrediction, singular


@pytest.mark.parametrize("form", [Json(), Numbers()])
def test_a_written_prediction_is_read(form) -> None:
    for found in (SelfPrediction(6, 120, ("sum", "carry")), SelfPrediction(0, 1, ())):
        assert form.read(form.write(found)) == found


def test_the_last_json_counts() -> None:
    text = '<meta>{"pass_rate": 1}</meta> {"math_notion": ["cosines", "sum"], "pass_rate": 6, "solution_length": 80}'
    assert Json().read(text) == SelfPrediction(6, 80, ("cosines", "sum"))
    assert Json().read('{"math_notion": "sum, carry", "pass_rate": 8}') == SelfPrediction(8, None, ("sum", "carry"))


def test_a_written_json_keeps_the_reasoning() -> None:
    text = 'so <meta>{"pass_rate": 1}</meta> {"math_notion": ["sum"], "pass_rate": 6} end'
    made = Json().write(SelfPrediction(2, 9, ("sum",)), text)
    assert made == 'so <meta>{"pass_rate": 1}</meta> {"math_notion": ["sum"], "pass_rate": 2, "solution_length": 9}'
    assert Json().write(SelfPrediction(2, 9), "no json")[0] == "{"


@pytest.mark.parametrize("text", ["", "no json", "{broken", "{'pass_rate': 1}", "[1]"])
def test_what_is_no_json(text: str) -> None:
    assert Json().read(text) is None


@pytest.mark.parametrize("rate", ["0.5", "9", "-1", "true", '"4"', "null"])
def test_a_pass_rate_is_a_whole_number_from_0_to_8(rate: str) -> None:
    assert Json().read(f'{{"pass_rate": {rate}, "solution_length": 5}}') == SelfPrediction(None, 5, ())


def test_numbers() -> None:
    assert Numbers().read("6 120 carry") == SelfPrediction(6, 120, ("carry",))
    assert Numbers().read("7+5=12") == SelfPrediction(7, 5, ())
    assert [Numbers().read(text) for text in ("", "6", "9 12", "6 x")] == [None] * 4


def test_singular_forms() -> None:
    assert [singular(w) for w in ("Cosines", "identities", "boxes", "glass", "Series")] == ["cosine", "identity", "box", "glass", "series"]
