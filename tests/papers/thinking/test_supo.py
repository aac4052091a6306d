"""SUPO: advantages over rollouts by hand, the mask, and GRPO without summaries. The contexts are in tests/rollouts/test_summaries.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.supo import Answered, supo
from gradus.recipe.core import changes
from gradus.rollouts.episodes import Episodes
from gradus.testing.methods import (
    TOY_EPISODES,
    check_micro_batches,
    check_same_update,
    loss_and_gradient,
    steps_of,
    toy_group,
)
from gradus.types import Frozen


def pieces(reward: float, contexts: int, unfinished: bool = False):
    """A rollout of several contexts with two actions each."""
    (t,) = toy_group(reward).trajectories
    return t.but(contexts=tuple(replace(t.contexts[0]) for _ in range(contexts)), links=Frozen(unfinished=unfinished))


def group(*rollouts):
    return toy_group(0).but(trajectories=tuple(t.but(id=f"g/{i}") for i, t in enumerate(rollouts)))


def test_advantages_are_over_rollouts() -> None:
    made = group(pieces(1, 3), pieces(0, 1))
    found = supo.credit.assign([made], {})[0]
    # mean .5, not .75 as over the four contexts; all actions of all contexts of a rollout have its advantage
    assert [c.advantages.tolist() for c in found] == [[1.0] * 6, [-1.0] * 2]
    longer = supo.credit.assign([group(pieces(1, 4), pieces(0, 1))], {})[0]
    assert [c.advantages[0] for c in longer] == [1, -1]


def test_a_rollout_without_an_answer_has_no_gradient_and_counts_in_the_mean() -> None:
    made = group(pieces(1, 2), pieces(0, 1), pieces(0, 1, True), pieces(0, 1, True))
    found = supo.credit.assign([made], {})[0]
    assert [c.advantages[0] for c in found] == pytest.approx([3**0.5, -(3**-0.5), -(3**-0.5), -(3**-0.5)])
    assert [None if c.weights is None else c.weights.tolist() for c in found] == [None, None, [0, 0], [0, 0]]
    rows = made.but(trajectories=tuple(t.but(weights=c.weights) for t, c in zip(made.trajectories, found, strict=True)))
    _, slopes, _ = loss_and_gradient(supo.objective, [rows], [-1.0] * 10, advantages=[1.0, -1.0, -1.0, -1.0])
    assert slopes == pytest.approx([-1 / 6] * 4 + [1 / 6] * 2 + [0.0] * 4)  # N = 6: the tokens of the answered rollouts


def test_a_truncated_toy_episode_does_not_move_the_policy() -> None:
    for _, groups in steps_of(supo.but(rollout__play__max_turns=2), steps=1, task=TOY_EPISODES):
        cut = [t for g in groups for t in g.trajectories if t.links["unfinished"]]
        assert cut
        assert all(not t.weights.any() for t in cut)


def test_without_summaries_and_mask_it_is_grpo() -> None:
    policy = supo.objective["policy"]
    base = grpo.but(
        rollout=Episodes(max_turns=100),
        objective__kl=None,
        players__reference=None,
        objective__policy__trust=policy.trust,
        objective__policy__average=TokenMean(),
        update__count=2,
    )
    check_same_update(supo.but(credit=GroupRelative(), objective__policy__average=TokenMean()), base, task=TOY_EPISODES)
    assert {"rollout", "credit", "update.count", "objective.kl"} <= set(changes(grpo, supo))
    check_micro_batches(supo.but(rollout__limit=6, rollout__play__max_turns=6))
    assert supo.credit == Answered(GroupRelative())
