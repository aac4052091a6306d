"""Bootstrapped targets: numbers by hand, and what a done row does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradus.credit.bellman import Bellman, Expectile, NStep, SoftBellman, bootstrapped, n_step
from gradus.types import Context, Ended, Frozen, Group, Problem, Trajectory, UserError
from gradus.types.control import EndValues, NextAction, NextQOfAll, NumberOf, QValues
from gradus.types.signals import Values


def rows(reward, done) -> Trajectory:
    n = len(reward)
    streams = Frozen(reward=np.array(reward, np.float32), done=np.array(done), key=np.full(n, 5, np.uint64))
    context = Context(np.zeros(2 * n, np.int32), np.tile([False, True], n), streams=streams)
    return Trajectory("t", Problem("p", "w", text="s"), (context,), reward=0.0, source="replay")


def assigned(rule, trajectory, signals):
    ((found,),) = rule.assign([Group("g", (trajectory,))], {s: {"t": np.array(v, np.float64)} for s, v in signals.items()})
    return found


def test_a_done_row_has_no_future_and_a_truncated_one_has():
    found = bootstrapped(np.array([1.0, 1.0]), np.array([False, True]), np.array([10.0, 10.0]), gamma=0.9)
    assert found.tolist() == [10.0, 1.0]  # 1 + .9 x 10, 1
    with pytest.raises(ValueError, match="must have the same shape"):
        bootstrapped(np.zeros(2), np.zeros(2, bool), np.zeros(3), gamma=0.9)


def test_soft_targets_by_hand():
    """alpha = e^0 = 1; least of (4, 2) minus 1 x 0.5 = 1.5, so y = 1 + .5 x 1.5 = 1.75; the done row keeps its reward."""
    rule = SoftBellman(gamma=0.5)
    action = NextAction(player="policy")
    signals = {action: [[0.3, 0.5], [0.1, 9.0]], QValues(player="target", of=action): [[4, 2], [7, 8]], NumberOf(player="temperature"): [0.0, 0.0]}
    assert set(rule.needs) == set(signals)
    found = assigned(rule, rows([1, 3], [False, True]), signals)
    assert found.returns.tolist() == [1.75, 3.0]
    assert found.advantages.tolist() == [0.0, 0.0]
    plain = SoftBellman(gamma=0.5, entropy=False)
    assert assigned(plain, rows([1, 3], [False, True]), signals).returns.tolist() == [2.0, 3.0]
    fixed = SoftBellman(gamma=0.5, temperature=None, alpha=2.0)
    assert assigned(fixed, rows([1, 3], [False, True]), signals).returns.tolist() == [1.5, 3.0]  # 1 + .5 (2 - 2 x .5)
    warm = assigned(rule, rows([1, 3], [False, True]), {**signals, NumberOf(player="temperature"): [math.log(2), math.log(2)]})
    assert warm.returns == pytest.approx([1.5, 3.0], abs=1e-12)


def test_targets_of_choices_by_hand():
    """Target values 1 5, critic's 3 2: plain takes 5; double takes action 0, worth 1."""
    signals = {NextQOfAll(player="target"): [[[1, 5]]], NextQOfAll(player="policy"): [[[3, 2]]]}
    assert assigned(Bellman(gamma=0.5), rows([1], [False]), signals).returns.tolist() == [1.5]
    assert assigned(Bellman(gamma=0.5, double=False), rows([1], [False]), signals).returns.tolist() == [3.5]
    assert Bellman(double=False).needs == (NextQOfAll(player="target"),)


def test_an_expectile_by_hand():
    """Q 2 5 (least of two heads), V 3: below weighs 1 - tau, above tau."""
    signals = {QValues(player="target"): [[2, 4], [5, 6]], Values(player="value"): [3, 3]}
    found = assigned(Expectile(tau=0.8), rows([0, 0], [False, False]), signals)
    assert found.returns.tolist() == [2, 5]
    assert found.weights == pytest.approx([0.2, 0.8], abs=1e-12)


def test_its_minimum_is_the_expectile():
    """At the minimum of sum w (V - Q)^2 the weighted errors cancel: for Q 0 and 1 and tau .8, V = .8."""
    q = np.array([0.0, 1.0])
    v = 0.8
    weights = np.abs(0.8 - (q < v))
    assert float((weights * (v - q)).sum()) == pytest.approx(0.0, abs=1e-12)


def test_n_steps_by_hand():
    """gamma .5, r = 1 2 4, V = 8 16 32, end 64: n 2: 1 + 1 + .25 x 32 = 10; 2 + 2 + .25 x 64 = 20; 4 + .5 x 64 = 36."""
    r, v = np.array([1.0, 2, 4]), np.array([8.0, 16, 32])
    assert n_step(r, v, gamma=0.5, n=2, last_value=64.0).tolist() == [10, 20, 36]
    assert n_step(r, v, gamma=0.5, n=1, last_value=64.0).tolist() == [9, 18, 36]
    assert n_step(r, v, gamma=0.5, n=9).tolist() == [3, 4, 4]


@pytest.mark.parametrize(("ended", "last"), [(Ended.ENVIRONMENT, 4.0), (Ended.TRUNCATED, 4.0)])
def test_n_steps_need_arrays_after_the_last_action_to_go_on(ended, last):
    context = Context(np.zeros(2, np.int32), np.array([False, True]), rewards=((0, "environment", 4.0),))
    trajectory = Trajectory("t", Problem("p", "w", text="s"), (context,), reward=4.0, ended=ended)
    found = assigned(NStep(n=3, gamma=0.5), trajectory, {Values(player="critic"): [1.0], EndValues(player="critic"): []})
    assert (found.returns.tolist(), found.advantages.tolist()) == ([last], [last - 1])


def test_ranges():
    for wrong in (lambda: SoftBellman(gamma=1.5), lambda: Expectile(tau=1.0), lambda: NStep(n=0), lambda: Bellman(gamma=-1)):
        with pytest.raises(UserError):
            wrong()
