"""The memory of success: its counts, its predictions, its choices, and which problems it requests."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from gradus.curricula.rates import (
    InBand,
    Mean,
    Nearest,
    Posterior,
    Proportional,
    SuccessRates,
    answered,
    counts_of,
    drawn_by_weight,
    rank_correlation,
    ranks,
)
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.rollouts.ids import group_name
from gradus.testing.methods import ToySource, scripted_context
from gradus.types import Failed, Group, Key, Problem, Request, Trajectory, UserError


class Finite(ToySource):
    size = 6


def world(notes=None):
    notes = {} if notes is None else notes
    return SimpleNamespace(seed=Key(1), task=SimpleNamespace(level=None), group=4, note=lambda name, value: notes.setdefault(name, []).append(value))


def group(name, *rewards, **options):
    """One answer per reward to a problem with this id. A reward of 1 is right."""
    problem = Problem(name, "toy", text="a")
    made = (Trajectory(f"{name}/{i}", problem, (scripted_context("b"),), reward=r, **options) for i, r in enumerate(rewards))
    return Group(group_name(Request(problem)), tuple(made))


def ids(requests):
    return [r.problem.id for r in requests]


def counts(*rows):
    return np.array(rows, dtype=float).reshape(-1, 2)


def test_posterior_by_hand():
    # prior (1, 1): 2 right of 8 give Beta(3, 7)
    assert Posterior().expected(counts([0, 0], [2, 6])).tolist() == [0.5, 0.3]
    assert Posterior(2.0, 6.0).expected(counts([0, 0], [4, 0])).tolist() == [0.25, 0.5]


def test_draws_are_those_of_the_posterior():
    drawn = Posterior().drawn(np.tile([2.0, 6.0], (4000, 1)), Key(3))
    assert stats.kstest(drawn, stats.beta(3, 7).cdf).pvalue > 0.01
    assert stats.kstest(drawn, stats.beta(2, 6).cdf).pvalue < 1e-6
    flat = Posterior().drawn(np.zeros((4000, 2)), Key(3))
    assert flat == pytest.approx(Key(3).uniform(4000))  # Beta(1, 1) is uniform
    assert (Posterior().drawn(np.zeros((5, 2)), Key(4)) != flat[:5]).all()


def test_mean_by_hand():
    # the problem without an answer gets (0.25 + 0.75) / 2
    assert Mean().expected(counts([1, 3], [0, 0], [6, 2])).tolist() == [0.25, 0.5, 0.75]
    assert Mean(first=0.1).expected(counts([0, 0])).tolist() == [0.1]
    assert Mean().drawn(counts([1, 3]), Key()).tolist() == [0.25]


def test_the_nearest_by_hand():
    assert Nearest().pick(np.array([0.1, 0.45, 0.8]), 1, Key()).tolist() == [1]
    assert Nearest().pick(np.array([0.1, 0.45, 0.9, 0.6]), 2, Key()).tolist() == [1, 3]
    assert Nearest(1.0).pick(np.array([0.1, 0.45, 0.9, 0.6]), 2, Key()).tolist() == [2, 3]
    assert Nearest().pick(np.array([0.75, 0.25, 0.75]), 2, Key()).tolist() == [0, 1]  # the earlier of equals


def test_the_band_is_drawn_from_at_random_and_filled_by_distance():
    rates = np.array([0.1, 0.3, 0.5, 0.7, 0.8, 0.95])
    picks = [tuple(InBand().pick(rates, 2, Key(i))) for i in range(60)]
    assert set(picks) == {(1, 2), (1, 3), (2, 3)}
    assert InBand().pick(rates, 4, Key()).tolist() == [1, 2, 3, 4]
    assert InBand().pick(rates, 5, Key()).tolist() == [0, 1, 2, 3, 4]  # 0.1 is 0.2 away, 0.95 is 0.25 away


def test_indices_are_drawn_by_weight():
    weights = np.array([0.0, 1.0, 3.0, 0.0])
    assert np.bincount(drawn_by_weight(weights, 8000, Key(1)), minlength=4) / 8000 == pytest.approx([0, 0.25, 0.75, 0], abs=0.02)
    assert drawn_by_weight(weights, 0, Key(1)).tolist() == drawn_by_weight(np.zeros(3), 0, Key(1)).tolist() == []
    with pytest.raises(ValueError, match="all weights are 0"):
        drawn_by_weight(np.zeros(3), 1, Key(1))


def test_a_product_that_is_rounded_up_draws_the_last_index_with_a_weight():
    last = SimpleNamespace(uniform=lambda count: np.ones(count))
    assert drawn_by_weight(np.array([1.0, 2.0, 0.0]), 2, last).tolist() == [1, 1]


def test_proportional_draws_by_hand():
    picks = Proportional().pick(np.array([0.9, 0.5]), 6000, Key(2))
    assert np.mean(picks == 1) == pytest.approx(5 / 6, abs=0.02)  # 0.1 to 0.5
    picks = Proportional("variance").pick(np.array([0.5, 0.1, 1.0]), 6000, Key(2))
    assert np.bincount(picks, minlength=3) / 6000 == pytest.approx([0.25 / 0.34, 0.09 / 0.34, 0], abs=0.02)


def test_a_share_is_drawn_by_weight_and_the_rest_are_the_first():
    rates = np.array([0.0] * 7 + [0.5] + [1.0] * 2)
    assert Proportional("variance", share=0.5).pick(rates, 10, Key()).tolist() == sorted([0, 1, 2, 3, 4] + [7] * 5)
    assert Proportional("variance", share=0.5).pick(rates, 5, Key()).tolist() == [0, 1, 2, 7, 7]  # floor(2.5)
    assert Proportional("variance").pick(np.array([0.0, 1.0, 1.0]), 2, Key()).tolist() == [0, 1]  # all weights are 0


def test_only_own_answers_that_were_judged_count():
    groups = [group("a", 1.0, 0.0, 0.0), group("b", 1.0, Failed("no")), group("a", 1.0)]
    found = answered([*groups, group("c", 1.0, trained=False), group("d", 1.0, source="expert")])
    assert {name: row.tolist() for name, row in found.items()} == {"a": [2, 2], "b": [1, 0]}


def test_counts_decay_only_where_there_are_new_answers():
    part, state = SuccessRates(keep=0.5), SuccessRates().start()
    state = part.learn([group("a", 1, 1, 0, 0, 0, 0, 0, 0), group("b", 1)], [], world(), state)
    assert state["counts"] == {"a": [2, 6], "b": [1, 0]}
    state = part.learn([], [group("a", *[1] * 8)], world(), state)  # a dropped group counts too
    assert state["counts"] == {"a": [9, 3], "b": [1, 0]}
    assert Posterior().expected(counts_of(state["counts"], ["a", "b", "new"])).tolist() == [10 / 14, 2 / 3, 0.5]


@pytest.mark.parametrize(("keep", "due"), [(1.0, [5, 1]), (0.0, [3, 0])])
def test_all_answers_or_the_last_visit(keep, due):
    part, state = SuccessRates(keep=keep), SuccessRates().start()
    for rewards in ((1, 1, 0), (1, 1, 1)):
        state = part.learn([group("a", *rewards)], [], world(), state)
    assert state["counts"]["a"] == due


def test_ranks_and_their_correlation():
    values, others = Key(1).uniform(30).round(1), Key(2).uniform(30).round(1)
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [2.5, 0, 2.5, 1]
    assert rank_correlation(values, others) == pytest.approx(stats.spearmanr(values, others).statistic)
    assert rank_correlation([0.1, 0.2], [5, 9]) == 1
    assert rank_correlation([0.5, 0.5], [0, 1]) is None
    assert rank_correlation([], []) is None


def test_the_correlation_compares_predictions_made_before_the_answers():
    part, notes = SuccessRates(factor=1, pool=3), {}
    state = {**part.start(), "counts": {"toy/0": [0, 8], "toy/1": [8, 0], "toy/2": [4, 4]}}
    _, state = part.choose(ToySource(), 3, world(notes), state)
    assert state["expected"] == {"toy/0": 0.1, "toy/1": 0.9, "toy/2": 0.5}
    assert np.mean(notes["predicted_rate"]) == pytest.approx(0.5)
    state = part.learn([group("toy/0", 0, 0), group("toy/1", 1, 1)], [group("toy/2", 1, 0)], world(notes), state)
    assert notes["rank_correlation"] == [1.0]
    assert state["expected"] == {}


def test_no_answers_are_requested_for_other_candidates():
    part = SuccessRates(pool=3, factor=3)
    state = {**part.start(), "counts": {"toy/0": [0, 9000], "toy/1": [4500, 4500], "toy/2": [9000, 0]}}
    requests, after = part.choose(ToySource(), 1, world(), state)
    assert ids(requests) == ["toy/1"]
    assert [r.count for r in requests] == [4]
    assert after["drawn"] == 3
    assert after["counts"] == state["counts"]


@pytest.mark.parametrize("source", [ToySource(), Finite()], ids=["endless", "finite"])
def test_with_one_candidate_per_problem_it_is_shuffled_epochs(source):
    part, other = SuccessRates(factor=1, pool=None, group=2), ShuffledEpochs(group=2)
    state, due = part.start(), other.start()
    for count in (4, 3, 9):
        requests, state = part.choose(source, count, world(), state)
        wanted, due = other.choose(source, count, world(), due)
        assert requests == wanted
    assert state["drawn"] == due["drawn"]


@pytest.mark.parametrize("factor", [2, 100])
def test_every_candidate_occurs_once_and_a_pool_is_all_there_is(factor):
    part, state, seen = SuccessRates(factor=factor, pool=6), SuccessRates().start(), []
    for _ in range(12):
        requests, state = part.choose(ToySource(), 3, world(), state)
        assert len(requests) == len(set(ids(requests))) == 3
        seen += ids(requests)
    assert set(seen) == {f"toy/{i}" for i in range(6)}
    assert state["drawn"] == 12 * 6
    assert len(part.choose(ToySource(), 8, world(), state)[0]) == 8  # more than the pool holds


def test_later_steps_have_new_draws_and_equal_states_equal_ones():
    part, state = SuccessRates(pool=64, factor=16), SuccessRates().start()
    one, after = part.choose(ToySource(), 4, world(), state)
    assert ids(part.choose(ToySource(), 4, world(), state)[0]) == ids(one)
    assert ids(part.choose(ToySource(), 4, world(), after)[0]) != ids(one)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: InBand(0.7, 0.3), r"InBand.low is 0.7, which is above InBand.high \(0.3\); set `low` to 0.3 or less"),
        (lambda: Posterior(0.0), r"Posterior.alpha is 0.0; it must be above 0"),
        (lambda: Nearest(2.0), "Nearest.target is 2.0"),
        (lambda: Mean(-1.0), "Mean.first is -1.0"),
        (lambda: Proportional(share=2.0), "Proportional.share is 2.0"),
        (lambda: SuccessRates(factor=0), "SuccessRates.factor is 0; it must be 1 or more"),
        (lambda: SuccessRates(keep=1.5), "SuccessRates.keep is 1.5"),
        (lambda: SuccessRates(pool=0), "SuccessRates.pool is 0; it must be 1 or more"),
    ],
)
def test_wrong_numbers_are_refused(made, says):
    with pytest.raises(UserError, match=says):
        made()
