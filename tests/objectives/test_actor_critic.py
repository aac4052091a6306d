"""Terms of actor and critic: what each reads, and what it refuses. Numbers and gradients stand in tests/invariance/test_rows.py."""

from __future__ import annotations

import pytest

from gradus.objectives.actor_critic import Conservative, SoftPolicy, TDError, Temperature
from gradus.types import UserError
from gradus.types.control import Candidates, Drawn, DrawnAction, LogProbOfDrawn, NumberOf, Q, QGradient


def test_what_each_term_reads():
    assert TDError().wants == (Q(),)
    assert SoftPolicy().wants == (Drawn(), LogProbOfDrawn())
    assert SoftPolicy(critic="twin").needs == (QGradient(player="twin"), NumberOf(player="temperature"))
    assert SoftPolicy(temperature=None).needs == (QGradient(player="critic"),)
    assert Temperature().needs == (DrawnAction(player="policy"),)
    assert set(Conservative(candidates=3).needs) == {Candidates(player="policy", count=3, at=at) for at in ("now", "next")}


def test_ranges():
    for wrong in (lambda: SoftPolicy(alpha=-1.0), lambda: Conservative(-1.0), lambda: Conservative(candidates=0)):
        with pytest.raises(UserError):
            wrong()
