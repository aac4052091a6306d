"""The batch: ids and counts by hand, slices, subsets, sources."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.testing.methods import toy_batch, toy_group, toy_trajectory
from gradus.types import Frozen, Group, prompt_context
from gradus.types.batch import Counts, make_batch, only, segment_sum
from gradus.types.signals import LogProb, LogProbs

SIGNAL = LogProbs(player="other")


def two_groups():
    """g: answers of 1 and 3 tokens; h: an answer of 2. Signals count the rows."""
    rows = {SIGNAL: {"g/0": np.array([0.0]), "g/1": np.array([1.0, 2, 3]), "h/0": np.array([4.0, 5])}}
    return toy_batch(toy_group(1, 0, lengths=[1, 3], key="g"), toy_group(1, lengths=[2], key="h"), advantages=[10, 20, 30], signals=rows)


def test_rows_by_hand():
    made = two_groups()
    assert made.actions == 6
    assert made.context.tolist() == made.trajectory.tolist() == [0, 1, 1, 1, 2, 2]
    assert made.group.tolist() == [0, 0, 0, 0, 1, 1]
    assert made.position.tolist() == [0, 0, 1, 2, 0, 1]
    assert made.in_trajectory.tolist() == [1, 3, 3, 3, 2, 2]
    assert made.in_group.tolist() == [4, 4, 4, 4, 2, 2]
    assert made.advantages.tolist() == [10, 20, 20, 20, 30, 30]
    assert bool(made.returns.isnan().all())
    assert made.signals[SIGNAL].tolist() == [0, 1, 2, 3, 4, 5]
    assert made.counts == {"policy": Counts(actions=6, trajectories=3, groups=2, contexts=3)}
    assert made.old_logprobs is None


def test_positions_run_on_over_the_contexts_of_a_trajectory():
    a, b = toy_trajectory([1, 2]).contexts[0], toy_trajectory([3]).contexts[0]
    made = toy_batch(Group("g", (toy_trajectory([1]).but(contexts=(a, b)), toy_trajectory([4], name="u"))))
    assert made.context.tolist() == [0, 0, 1, 2]
    assert made.trajectory.tolist() == [0, 0, 0, 1]
    assert made.position.tolist() == [0, 1, 2, 0]
    assert made.in_trajectory.tolist() == [3, 3, 3, 1]


def test_what_is_not_trained_on_is_left_out():
    made = toy_batch(Group("g", (toy_trajectory([1, 2], trained=False), toy_trajectory([3], name="u"))))
    assert [t.id for t in made.trajectories] == ["u"]
    assert made.counts["policy"].actions == 1


def test_a_trajectory_without_action_is_left_out():
    none = toy_trajectory([1]).but(contexts=(prompt_context([1, 2]),))
    assert make_batch([Group("g", (none,))]).actions == 0


def test_behaviour_log_probabilities_are_nan_where_there_are_none():
    given = toy_trajectory([1, 2], name="e")
    given = given.but(contexts=(replace(given.contexts[0], logprobs=None),))
    made = toy_batch(Group("g", (toy_trajectory([1], logprobs=[-0.5]), given)))
    assert made.behaviour_logprobs[0] == -0.5
    assert bool(made.behaviour_logprobs[1:].isnan().all())


def test_a_slice_renumbers_contexts_and_keeps_everything_else():
    made = replace(two_groups(), old={LogProb(): torch.arange(6.0)})
    piece, rows = made.slice([2, 0])
    assert rows.tolist() == [4, 5, 0]
    assert piece.context.tolist() == [0, 0, 1]
    assert piece.trajectory.tolist() == [2, 2, 0]
    assert piece.signals[SIGNAL].tolist() == piece.old_logprobs.tolist() == [4, 5, 0]
    assert piece.contexts == (made.contexts[2], made.contexts[0])
    assert piece.counts == made.counts
    assert piece.in_group.tolist() == [2, 2, 4]


def test_a_subset_is_counted_anew():
    made = replace(two_groups(), old={LogProb(): torch.arange(6.0)})
    part = made.subset([1, 2])
    assert [t.id for t in part.trajectories] == ["g/1", "h/0"]
    assert part.counts == {"policy": Counts(actions=5, trajectories=2, groups=2, contexts=2)}
    assert part.in_group.tolist() == [3, 3, 3, 2, 2]
    assert part.trajectory.tolist() == [0, 0, 0, 1, 1]
    assert part.signals[SIGNAL].tolist() == part.old_logprobs.tolist() == [1, 2, 3, 4, 5]
    assert part.advantages.tolist() == [20, 20, 20, 30, 30]


def test_a_subset_in_another_order_keeps_rows_with_their_trajectories():
    part = two_groups().subset([2, 0])
    assert [t.id for t in part.trajectories] == ["h/0", "g/0"]
    assert part.signals[SIGNAL].tolist() == [4, 5, 0]


def test_sources_are_told_apart_and_counted_apart():
    expert = toy_trajectory([5, 5], name="e", source="expert")
    made = toy_batch(Group("g", (toy_trajectory([1], name="a"), expert)), Group("h", (toy_trajectory([2, 2, 2], name="b"),)))
    assert made.counts == {"policy": Counts(4, 2, 2, 2), "expert": Counts(2, 1, 1, 1)}
    mine, rows = made.of("expert")
    assert rows.tolist() == [1, 2]
    assert mine.trajectory.tolist() == [1, 1]
    assert mine.in_group.tolist() == [2, 2]
    everything, rows = toy_batch(toy_group(1)).of("policy")
    assert rows is None
    assert everything.actions == 2


def test_streams_follow_the_slice():
    made = toy_group(1, 0, lengths=[1, 2])
    marked = tuple(
        t.but(contexts=(replace(t.contexts[0], streams=Frozen(mark=np.full((t.actions, 2), i, np.float32))),))
        for i, t in enumerate(made.trajectories)
    )
    whole = toy_batch(made.but(trajectories=marked))
    assert whole.stream("mark").tolist() == [[0, 0], [1, 1], [1, 1]]
    assert whole.slice([1])[0].stream("mark").tolist() == [[1, 1], [1, 1]]
    assert whole.stream("mark").dtype == torch.float64


@pytest.mark.parametrize(("given", "message"), [(None, "t has no advantages"), (np.zeros(3), "2 actions but 3 advantages")])
def test_advantages_must_fit(given, message):
    with pytest.raises(ValueError, match=message):
        make_batch([Group("g", (toy_trajectory([1, 2]).but(advantages=given),))])


def test_segment_sums_and_their_gradient():
    values = torch.tensor([1.0, 2, 4, 8], requires_grad=True)
    sums = segment_sum(values, torch.tensor([2, 0, 2, 1]), 4)
    assert sums.tolist() == [2, 8, 5, 0]
    sums.backward(torch.tensor([1.0, 10, 100, 1000]))
    assert values.grad.tolist() == [100, 1, 100, 10]


def test_a_mask_sets_weights_and_keeps_counts():
    batch = toy_batch(toy_group(1, 0, lengths=[3, 2]))
    made = only(batch, torch.tensor([False, True, False, True, False]))
    assert made.weight.tolist() == [0, 1, 0, 1, 0]
    assert [t.weights.tolist() for t in made.trajectories] == [[0, 1, 0], [1, 0]]
    assert made.counts == batch.counts
