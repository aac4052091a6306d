"""The mixture that is given, that trials choose, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradus.curricula.mixture import ByMixture
from gradus.curricula.surrogate import seed_mixtures
from gradus.papers.bases.grpo import grpo
from gradus.testing.methods import ToySource, toy_task
from gradus.types import UserError


class Armed(ToySource):
    """Three data sets."""

    arms = ("a", "b", "c")

    def draw_arm(self, arm, indices, level, key):
        return self.draw([self.arms.index(arm) + 3 * i for i in indices], level, key)


def armed():
    return replace(toy_task(grpo), source=Armed())


def test_trials_choose_the_mixture():
    best = np.array([0.2, 0.5, 0.3])
    trials = tuple((w, float(1 - ((np.array(w) - best) ** 2).sum())) for w in seed_mixtures(3))
    assert ByMixture(trials=trials).mixture("abc") == pytest.approx(best, abs=0.02)
    assert ByMixture(trials=tuple((tuple(3 * v for v in w), s) for w, s in trials)).mixture("abc") == pytest.approx(
        ByMixture(trials=trials).mixture("abc")
    )
    assert ByMixture(weights=(1, 0, 3)).mixture("abc").tolist() == [0.25, 0.0, 0.75]
    assert ByMixture().mixture("abcd").tolist() == [0.25] * 4


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"weights": (0.0, 0.0)}, "one number must be above 0"),
        ({"weights": (1.0, -1.0)}, "at least 0"),
        ({"weights": (float("nan"), 1.0)}, "must be finite"),
        ({"weights": (1.0,), "trials": (((1.0,), 0.5),)}, "both `weights` and `trials`"),
        ({"ridge": 0.0}, "ByMixture.ridge"),
    ],
)
def test_what_cannot_be_is_refused(wrong, said):
    with pytest.raises(UserError, match=said):
        ByMixture(**wrong)


def test_a_mixture_for_other_data_sets_is_refused_before_the_run():
    with pytest.raises(UserError, match=r"2 numbers for 3 arms \(a, b, c\)"):
        ByMixture(weights=(1.0, 1.0)).check_task(armed())
    with pytest.raises(UserError, match='names "d", which the task does not have'):
        ByMixture(arms=("a", "d")).check_task(armed())
