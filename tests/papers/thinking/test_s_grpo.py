"""S-GRPO: the halving reward and the serial advantages by hand, what is trained, and GRPO at the limit without exits."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.credit.groups import GroupRelative
from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.s_grpo import EarlyExit, halved, s_grpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.selection.filters import MeanReward
from gradus.testing.methods import TOY, advantages_of, check_micro_batches, check_same_update, scripted_world, steps_of, toy_group
from gradus.types import Frozen, Key, Request, UserError


def traced(rewards, traces):
    group = toy_group(*rewards)
    rows = (t.but(links=Frozen(trace=k)) for t, k in zip(group.trajectories, traces, strict=True))
    return group.but(trajectories=tuple(rows))


def test_rewards_and_advantages_by_hand() -> None:
    right = [0, 1, 1, 0, 1]
    assert halved(right).tolist() == [0, 1, 0.5, 0, 0.25]
    assert EarlyExit().values(traced(right, [0] * 5)).tolist() == [0, 1, 0.5, 0, 0.25]
    found = advantages_of(s_grpo.credit, traced([0, 1, 0.5, 0, 0.25], [0] * 5))[0]  # mean 0.35
    assert [row[0] for row in found] == pytest.approx([-0.35, 0.65, 0.15, -0.35, -0.1])
    assert halved([1, 1], decay=4.0).tolist() == [1, 0.25]
    assert halved([0, 0]).tolist() == [0, 0]


def test_every_thought_is_its_own_group() -> None:
    group = traced([1, 1, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1])
    assert EarlyExit().values(group).tolist() == [1, 0.5, 0, 1, 0.5, 0]
    rows = advantages_of(s_grpo.credit, traced([1, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]))[0]
    assert [row[0] for row in rows] == pytest.approx([2 / 3, -1 / 3, -1 / 3, 0, 0, 0])
    plain = EarlyExit().values(toy_group(1, 1, 0))  # answers without a link, as in an evaluation
    assert plain.tolist() == [1, 1, 0]


def test_one_thought_with_its_exits() -> None:
    # the verifier of the toy task compares the first letter: "b" is right
    def speak(ask):
        return "" if "exit" in ask.request.tags else "bcdefg"

    world, _ = scripted_world(TOY, speak, reward=EarlyExit())
    asked = [Request(p) for p in TOY.source.draw([0], None, Key(0))]
    (group,) = asyncio.run(s_grpo.rollout.run(asked, world))
    assert group.rewards.tolist() == [1, 0.5, 0.25, 0.125, 0.0625, 0.03125]
    (rows,) = s_grpo.credit.assign([group], {})
    assert sum(c.advantages[0] for c in rows) == pytest.approx(0)
    whole = group.trajectories[-1].contexts[0]
    for t, credited in zip(group.trajectories, rows, strict=True):
        (context,) = t.contexts
        cut = t.links["cuts"][t.links["exit"]] if t.links["exit"] < 5 else 6
        assert context.sequence[: 1 + cut].tolist() == whole.sequence[: 1 + cut].tolist()
        assert len(credited.advantages) == cut + 1  # the prefix and the end token, none of the inserted tokens


def test_groups_without_a_right_answer_are_left_out() -> None:
    wrong, right = toy_group(0, 0, key="a"), toy_group(0, 0.03125, key="b")
    kept, dropped = s_grpo.selection.keep([wrong, right], Key(0))
    assert ([g.key for g in kept], [g.key for g in dropped]) == (["b"], ["a"])


def test_without_exits_it_is_grpo() -> None:
    plain = s_grpo.but(rollout__places__count=0, reward=Verified(), credit=GroupRelative(scale="none"))
    base = grpo.but(objective__kl=None, players__reference=None, credit__scale="none", selection=MeanReward(low=1e-9))
    check_same_update(plain, base)
    assert set(changes(grpo, s_grpo)) == {"rollout", "reward", "selection", "credit", "objective.kl", "players.reference"}
    check_micro_batches(s_grpo)


def test_a_step_trains_exits() -> None:
    (_, groups), *_ = steps_of(s_grpo.but(rollout__text="h", rollout__mark="g", rollout__limit=2), steps=1, prompts=6, group=2)
    rows = [t for g in groups for t in g.trajectories]
    assert any(t.links["exit"] < len(t.links["cuts"]) and t.advantages is not None and np.any(t.advantages) for t in rows)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="decay"):
        EarlyExit(decay=0.5)
