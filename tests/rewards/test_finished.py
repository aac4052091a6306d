"""The gate of answers that were cut."""

from __future__ import annotations

import pytest

from gradus.rewards.finished import Finished
from gradus.rewards.verified import Verified
from gradus.types import Ended
from tests.rewards.judged import score, trajectory


@pytest.mark.parametrize(
    ("ended", "value"),
    [
        (Ended.STOP, 1.0),
        (Ended.ENVIRONMENT, 1.0),
        (Ended.LENGTH, 0.0),
        (Ended.CONTEXT, 0.0),
        (Ended.TRUNCATED, 0.0),
        (Ended.FAILED, 0.0),
    ],
)
def test_by_how_it_ended(ended, value):
    ((judgement,),) = score(Finished(), [trajectory().but(ended=ended)])
    assert judgement.reward == value
    assert dict(judgement.components) == {"finished": value}


def test_as_a_gate_it_pays_no_cut_answer():
    rows = [trajectory().but(ended=ended) for ended in (Ended.STOP, Ended.LENGTH)]
    (judged,) = score(Verified() * Finished(), rows, verify=lambda problem, completion: 0.5)
    assert [j.reward for j in judged] == [0.5, 0.0]
    assert [j.components["verified"] for j in judged] == [0.5, 0.5]
