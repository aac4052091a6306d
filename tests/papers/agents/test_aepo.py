"""AEPO: the budget, the penalty for branchings in a row, the factor of the advantage, the open clip, and the limits at which it is ARPO."""

from __future__ import annotations

import asyncio
import math
from collections import Counter

import numpy as np
import pytest
import torch

from gradus.credit.groups import GroupRelative
from gradus.objectives.trust import Clip
from gradus.papers.agents.aepo import BalancedBranches, MoreIfUnsure, OpenTop, RareBranches, aepo, budget, entropy_gap
from gradus.papers.agents.arpo import arpo
from gradus.recipe.core import changes
from gradus.rollouts.branches import STREAM, Branches, chance
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods import toy_group
from gradus.testing.methods.compare import check_bound_acts
from gradus.testing.methods.scripted import follow_demonstration, scripted_world
from gradus.types import Group, Request, UserError
from gradus.types.signals import Entropy

TASK = search_qa(2, people=40, calculator=True)


def group_of(rollout, *, count=16, first=0.5, later=0.5):
    """A judged group whose entropy shares are `first` in the first segment and `later` in the others; and the notes."""
    world, _ = scripted_world(TASK, follow_demonstration, reward=aepo.reward)

    async def score(contexts, want, player="policy"):
        rows = [c.streams.get("turn", np.zeros(c.actions)) for c in contexts]  # a sample alone has no turns yet
        began = [int(c.parent[0].actions > 0) if c.parent is not None else 0 for c in contexts]
        return [np.where((row if row.any() else np.full(c.actions, b)) > 0, later, first) for c, row, b in zip(contexts, rows, began, strict=True)]

    world.score = score
    (problem,) = TASK.source.draw([0], 2, world.seed)
    (group,) = asyncio.run(rollout.run([Request(problem, count=count)], world))
    return group, world.notes


def test_the_budget_by_hand() -> None:
    assert [budget(16, gap) for gap in (0.0, 1.0, -1.0)] == [8, 12, 4]  # 16 / (1 + exp(-gap)): 8, 11.70, 4.30
    assert [budget(16, gap, beta=100.0) for gap in (1.0, -1.0)] == [16, 1]
    assert budget(1, -9.0) == 1
    assert budget(16, 1.0, beta=0.0) == 8


def test_the_gap_by_hand() -> None:
    rows = np.array([0.5, 0.7, 0.1, 0.3, 0.2])
    assert entropy_gap(rows, np.array([0, 0, 1, 1, 2])) == pytest.approx(0.6 - 0.2)
    assert entropy_gap(rows, np.array([0, 0, 1, 1, 2]), tokens=1) == pytest.approx(0.5 - 0.15)
    assert entropy_gap(rows, np.zeros(5, int)) == 0.0  # no tool step


def test_the_probability_by_hand() -> None:
    rollout = aepo.rollout.branches
    free = [max(0.0, 1 - rollout.penalty * row) for row in (0, 2, 5, 7)]
    assert [chance(0.5, base=rollout.base, weight=rollout.weight) * f for f in free] == pytest.approx([0.6, 0.36, 0.0, 0.0])


def test_the_penalty_acts_on_a_path_that_branched_just_before() -> None:
    """With the probability 1 and the penalty 1, a path that branched cannot branch again after its next segment."""
    free, closed = (group_of(RareBranches(share=0.25, base=1.0, total="sum", penalty=p), count=16)[0] for p in (0.0, 1.0))

    def lines(group: Group) -> Counter[str]:
        return Counter(t.links.get("parent", "") for t in group.trajectories)

    assert max(t.links.get("shared", 0) for t in free.trajectories) >= 2
    once = [t for t in closed.trajectories if "parent" in t.links and t.links["shared"] == 2]
    parents = {t.id: t for t in closed.trajectories}
    for t in once:  # whoever branched after turn 2 did not branch after turn 1
        assert parents[t.links["parent"]].links.get("shared", 0) != 1
        assert not any(u.links.get("parent") == t.links["parent"] and u.links["shared"] == 1 for u in closed.trajectories if "parent" in u.links)
    assert sum(lines(free).values()) == sum(lines(closed).values()) == 16


@pytest.mark.parametrize(("gap", "roots"), [(0.0, 8), (1.0, 12), (-1.0, 4)])
def test_the_trial_sets_the_number_of_roots(gap: float, roots: int) -> None:
    rollout = BalancedBranches(branches=Branches(base=1.0, weight=0.0, total="mean"))
    group, notes = group_of(rollout, first=1.0 if gap >= 0 else 0.0, later=1.0 - gap if gap >= 0 else -gap)
    assert len(group.trajectories) == 16
    assert notes["roots"] == roots / 16
    assert sum("parent" not in t.links for t in group.trajectories) == roots
    assert len({t.id for t in group.trajectories}) == 16
    assert "parent" not in group.trajectories[0].links  # the trial
    for number, t in enumerate(group.trajectories):
        assert set(t.stream(STREAM)[-1:].tolist()) == {number}


def test_one_episode_is_the_trial() -> None:
    group, _ = group_of(BalancedBranches(), count=1)
    assert len(group.trajectories) == 1


def test_the_factor_by_hand() -> None:
    group = toy_group(1.0, 0.0)
    one, two = group.trajectories
    draw = np.tile([0.1, 0.3], (one.actions + two.actions + 1) // 2)[: one.actions + two.actions]
    rows = {one.id: draw[: one.actions], two.id: draw[one.actions :]}
    z = (draw - draw.mean()) / draw.std()
    found = np.concatenate(MoreIfUnsure(0.3).factors([group], {Entropy(): rows})[0])
    assert found == pytest.approx(1 + 0.3 * z)
    if abs(z).max() == pytest.approx(1.0):
        assert 2 * found[:2] == pytest.approx([1.4, 2.6])
    assert (np.concatenate(MoreIfUnsure(2.0).factors([group], {Entropy(): rows})[0]) >= 0).all()
    assert np.concatenate(MoreIfUnsure(2.0).factors([group], {Entropy(): rows})[0]).min() == 0.0
    even = {t.id: np.full(t.actions, 0.2) for t in group.trajectories}
    assert np.concatenate(MoreIfUnsure().factors([group], {Entropy(): even})[0]).tolist() == [1.0] * len(draw)


def test_with_a_0_the_credit_is_arpo_s() -> None:
    group = toy_group(1.0, 0.0)
    rows = {t.id: np.linspace(0.0, 1.0, t.actions) for t in group.trajectories}
    plain = [c.advantages.tolist() for c in GroupRelative().assign([group], {})[0]]
    found = [c.advantages.tolist() for c in aepo.but(credit__factor=MoreIfUnsure(0.0)).credit.assign([group], {Entropy(): rows})[0]]
    assert found == plain
    assert [c.advantages.tolist() for c in aepo.credit.assign([group], {Entropy(): rows})[0]] != plain


def found(trust, log_ratios, advantages):
    """The losses, and the gradient of each by its log-ratio."""
    at = torch.tensor(log_ratios, dtype=torch.float64, requires_grad=True)
    losses, _ = trust.losses(at, torch.tensor(advantages, dtype=torch.float64), None)
    losses.sum().backward()
    return losses.tolist(), at.grad.tolist()


def test_the_open_clip_by_hand() -> None:
    assert found(OpenTop(), [math.log(2.0)], [1.0]) == (pytest.approx([-1.28]), pytest.approx([-1.28]))
    assert found(Clip(0.2, 0.28), [math.log(2.0)], [1.0]) == (pytest.approx([-1.28]), [0.0])  # ARPO
    assert found(OpenTop(), [math.log(0.5)], [-1.0]) == found(Clip(0.2, 0.28), [math.log(0.5)], [-1.0]) == (pytest.approx([0.8]), [0.0])
    at, pushes = [math.log(r) for r in (0.5, 0.9, 1.1, 1.2, 3.0, 0.5)], [1.0, -1.0, 2.0, 0.0, -1.0, 0.0]
    assert found(OpenTop(), at, pushes) == found(Clip(0.2, 0.28), at, pushes)
    _, metrics = OpenTop().losses(torch.tensor([math.log(2.0), 0.0]), torch.tensor([1.0, 1.0]), None)
    assert metrics["clip_share"].total / metrics["clip_share"].count == 0.5


def test_its_changes_to_arpo() -> None:
    assert set(changes(arpo, aepo)) == {"rollout", "credit", "objective.policy.trust"}
    assert aepo.rollout.branches == RareBranches(penalty=0.2, **{**vars(arpo.rollout), "total": "mean"})
    with pytest.raises(UserError, match="beta"):
        BalancedBranches(beta=-1.0)
    with pytest.raises(UserError, match="a"):
        MoreIfUnsure(-0.1)


@pytest.mark.nightly
def test_ratios_leave_the_bounds() -> None:
    check_bound_acts(aepo.but(reward=arpo.reward, credit=GroupRelative()), updates=8, learning_rate=0.05)
