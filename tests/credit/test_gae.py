"""Generalised advantage estimation: by hand, its two limits, rewards inside a trajectory, whitening."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.credit.gae import GAE, LengthAdaptiveGAE, action_rewards, discounted, gae, whiten
from gradus.testing.methods import toy_group, toy_trajectory
from gradus.types import Context, Ended, Group, Problem, Trajectory
from gradus.types.contexts import Seen
from gradus.types.control import EndValues
from gradus.types.pieces import piece_links
from gradus.types.signals import Values

ROWS = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=12)


def test_by_hand():
    # gamma .5, lam .5, r = 1 0 2, V = 2 4 0: d_2 = 2, d_1 = 0 + 0 - 4, d_0 = 1 + 2 - 2; A_2 = 2, A_1 = -4 + .25 * 2, A_0 = 1 - .25 * 3.5
    found = gae(np.array([1.0, 0, 2]), np.array([2.0, 4, 0]), gamma=0.5, lam=0.5)
    assert found.tolist() == [0.125, -3.5, 2.0]


def test_a_truncated_end_goes_on_with_the_last_value():
    assert gae(np.array([0.0]), np.array([1.0]), gamma=0.5, lam=0.9, last_value=4.0).tolist() == [1.0]  # 0 + .5 * 4 - 1


@given(ROWS, st.floats(0, 1))
def test_lam_zero_is_the_one_step_error(rows, gamma):
    rewards, values = np.array(rows).T
    np.testing.assert_allclose(gae(rewards, values, gamma=gamma, lam=0.0), rewards + gamma * np.append(values[1:], 0) - values)


@given(ROWS, st.floats(0, 1))
def test_lam_one_is_the_return_less_the_value(rows, gamma):
    rewards, values = np.array(rows).T
    np.testing.assert_allclose(gae(rewards, values, gamma=gamma, lam=1.0), discounted(rewards, gamma=gamma) - values, atol=1e-9)


@given(ROWS, st.floats(0, 1), st.floats(0, 1))
def test_the_recursion_is_the_sum(rows, gamma, lam):
    rewards, values = np.array(rows).T
    errors = rewards + gamma * np.append(values[1:], 0) - values
    expected = [sum((gamma * lam) ** k * errors[t + k] for k in range(len(errors) - t)) for t in range(len(errors))]
    np.testing.assert_allclose(gae(rewards, values, gamma=gamma, lam=lam), expected, atol=1e-9)


def test_discounted_by_hand():
    assert discounted(np.array([1.0, 0, 4]), gamma=0.5).tolist() == [2.0, 2.0, 4.0]


def test_rows_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="must have the same shape"):
        gae(np.zeros(2), np.zeros(3), gamma=1, lam=1)


def test_rewards_at_actions_stand_there_and_the_rest_at_the_end():
    # .25 at the first action, .5 at the second, reward 1: .25 remains for the last
    made = toy_trajectory([1, 2, 3], reward=1.0)
    context = replace(made.contexts[0], rewards=((0, "step", 0.25), (1, "step", 0.5)))
    assert action_rewards(made.but(contexts=(context,))).tolist() == [0.25, 0.5, 0.25]
    assert action_rewards(made).tolist() == [0, 0, 1]


def test_actions_are_counted_over_contexts():
    a, b = toy_trajectory([1, 2]).contexts[0], toy_trajectory([3]).contexts[0]
    made = toy_trajectory([1], reward=1.0).but(contexts=(a, replace(b, rewards=((0, "step", 3.0),))))
    assert action_rewards(made).tolist() == [0, 0, 1]  # 3 at the last action, less the 2 that the reward does not have


def test_whitening_is_over_all_rows():
    # 0 0 and 3 3 3 3: mean 2, deviation sqrt 2
    rows = whiten([np.zeros(2), np.full(4, 3.0)])
    np.testing.assert_allclose(np.concatenate(rows), np.array([-2, -2, 1, 1, 1, 1]) / np.sqrt(2))
    assert [r.tolist() for r in whiten([np.ones(2), np.ones(1)])] == [[0, 0], [0]]
    assert whiten([]) == []
    # the mean of three 0.1 is 0.10000000000000002: their rounding must not be stretched to a deviation of 1
    assert [r.tolist() for r in whiten([np.full(2, 0.1), np.full(1, 0.1)])] == [[0, 0], [0]]


def test_it_reads_the_critic_alone():
    assert GAE().needs == (Values(player="critic"), EndValues(player="critic"))


def test_assigned_rows_are_those_of_each_trajectory():
    made = toy_group(1.0, 0.0, lengths=[1, 2])
    signals = {Values(player="critic"): {"g/0": np.array([0.5]), "g/1": np.array([0.25, 0.5])}}
    ((first, second),) = GAE(gamma=1.0, lam=0.0, whitened=False).assign([made], signals)
    assert (first.advantages.tolist(), first.returns.tolist()) == ([0.5], [1.0])
    assert (second.advantages.tolist(), second.returns.tolist()) == ([0.25, -0.5], [0.5, 0.0])


def test_lam_grows_with_the_answer():
    rule = LengthAdaptiveGAE(alpha=0.05)
    assert [rule.lam(n) for n in (1, 20, 40, 200)] == [0, 0, 0.5, 0.9]  # 1 - 1/2, 1 - 1/10
    # 40 tokens, reward 1 at the end, values 0: A_t = .5^(39 - t); with 20 tokens only the last one sees the reward
    signals = {Values(player="critic"): {"g/0": np.zeros(40), "g/1": np.zeros(20)}}
    ((long, short),) = LengthAdaptiveGAE(whitened=False).assign([toy_group(1, 1, lengths=[40, 20])], signals)
    np.testing.assert_allclose(long.advantages, 0.5 ** np.arange(39, -1, -1.0))
    assert short.advantages.tolist() == [0.0] * 19 + [1.0]
    assert short.returns.tolist() == short.advantages.tolist()


def test_with_one_length_it_is_gae_with_that_lam():
    rng = np.random.default_rng(2)
    made = toy_group(1, 0, lengths=[30, 30])
    signals = {Values(player="critic"): {t.id: rng.normal(size=30) for t in made.trajectories}}
    ours, plain = (rule.assign([made], signals)[0] for rule in (LengthAdaptiveGAE(), GAE(lam=1 - 1 / 1.5)))
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_allclose(a.advantages, b.advantages)
        np.testing.assert_allclose(a.returns, b.returns)


def played(ended: Ended, trailing: bool = True) -> Trajectory:
    """Two actions with reward 1 each in a world of arrays; `trailing`: the observation after the last action is shown."""
    count = 3 if trailing else 2
    rows = Seen("state", "array", np.zeros((count, 1), np.float32), np.arange(0, 2 * count, 2, np.int32), np.ones(count, np.int32))
    chosen = np.array([False, True, False, True, False][: 4 + trailing])
    context = Context(np.zeros(len(chosen), np.int32), chosen, rewards=((0, "environment", 1.0), (1, "environment", 1.0)), seen=(rows,))
    return Trajectory("t", Problem("p", "world", text=""), (context,), reward=2.0, ended=ended)


@pytest.mark.parametrize(
    ("trajectory", "advantages"),
    [
        # gamma .5, lam 1, V = 2 4, value at the end 6: d_1 = 1 + 3 - 4 = 0, d_0 = 1 + 2 - 2 = 1, A = 1 + 0, 0
        (played(Ended.TRUNCATED), [1.0, 0.0]),
        (played(Ended.LENGTH), [1.0, 0.0]),
        # ended for good: d_1 = 1 - 4 = -3, A = 1 - 1.5, -3
        (played(Ended.ENVIRONMENT), [-0.5, -3.0]),
        # cut, but nothing is shown after the last action, as in an answer of text that reached its limit
        (played(Ended.TRUNCATED, trailing=False), [-0.5, -3.0]),
        (played(Ended.LENGTH, trailing=False), [-0.5, -3.0]),
    ],
)
@pytest.mark.parametrize("rule", [GAE(gamma=0.5, lam=1.0, whitened=False), LengthAdaptiveGAE(alpha=1e12, gamma=0.5, whitened=False)])
def test_a_cut_episode_goes_on_with_the_value_of_its_end_and_an_ended_one_does_not(trajectory, advantages, rule):
    end = np.array([6.0]) if len(trajectory.contexts[0].tokens) == 5 else np.zeros(0)
    signals = {Values(player="critic"): {"t": np.array([2.0, 4.0])}, EndValues(player="critic"): {"t": end}}
    ((found,),) = rule.assign([Group("g", (trajectory,))], signals)
    np.testing.assert_allclose(found.advantages, advantages, atol=1e-9)
    np.testing.assert_allclose(found.returns, np.add(advantages, [2.0, 4.0]), atol=1e-9)


@pytest.mark.parametrize(("lam", "expected"), [(1.0, [0.3, 0.1, 0.0]), (0.5, [0.25, 0.1, 0.0])])
def test_a_cut_answer_takes_its_last_value_as_the_value_after_the_cut(lam, expected):
    # errors .4 - .2, .5 - .4 and .5 - .5
    cut = toy_trajectory([2, 3, 4], ended=Ended.LENGTH, links=piece_links(3, True))
    signals = {Values(player="critic"): {"t": np.array([0.2, 0.4, 0.5])}, EndValues(player="critic"): {"t": np.zeros(0)}}
    ((found,),) = GAE(1.0, lam, whitened=False).assign([Group("g", (cut,))], signals)
    np.testing.assert_allclose(found.advantages, expected, atol=1e-12)
    ((found,),) = GAE(0.5, 0.0, whitened=False).assign([Group("g", (cut,))], signals)
    np.testing.assert_allclose(found.advantages, [0.0, -0.15, -0.25], atol=1e-12)  # gamma .5: the last error is (.5 - 1) * .5
    done = cut.but(links=piece_links(1, False))  # a finished answer at its limit has the value 0 after it
    ((found,),) = GAE(1.0, 1.0, whitened=False).assign([Group("g", (done,))], signals)
    np.testing.assert_allclose(found.advantages, [-0.2, -0.4, -0.5], atol=1e-12)
