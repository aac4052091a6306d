"""LeDex: both rewards by hand, segments that do not mix, the failing test, the rounds, and PPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.credit.gae import gae
from gradus.environments.program_edits import fix_of
from gradus.papers.agents.ledex import ExplainedFix, FailingTest, SegmentGAE, code_reward, cosine, explanation_reward, ledex
from gradus.papers.bases.ppo import ppo
from gradus.recipe.core import changes
from gradus.search.revised import Revised
from gradus.tasks.code.code_repair import code_repair, rewritten
from gradus.testing.methods import check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Key, Request
from gradus.types.control import EndValues
from gradus.types.signals import Values
from tests.sandbox.isolated import isolated

TASK = code_repair(level=1, form="function", reward="share")


def test_rewards_of_the_row() -> None:
    assert code_reward(0.6, 1.0) == pytest.approx(3.0, abs=1e-9)
    assert code_reward(0.2, 0.0) == pytest.approx(-4.0, abs=1e-9)
    assert (code_reward(0.0, 0.0), code_reward(1.0, 1.0)) == (-5.0, 5.0)
    assert [explanation_reward(s) for s in (0.7, 0.4, 1.0)] == pytest.approx([0.0, -5.0, 5.0], abs=1e-9)
    assert explanation_reward(0.0) == -5.0  # clipped


def test_cosines_by_hand() -> None:
    assert cosine("ab", "ab") == pytest.approx(1.0)
    # a, b, ab against a, c, ac: one of three n-grams is shared
    assert cosine("ab", "ac") == pytest.approx(1 / 3)
    assert cosine("", "ab") == cosine("ab", "cd") == 0.0


def two_steps(explanation: float, total: float, spans: list[int]) -> Group:
    row = toy_trajectory([2] * len(spans), reward=total)
    (context,) = row.contexts
    marked = replace(context, streams=Frozen({**context.streams, "span": np.array(spans, np.int32)}))
    return Group("g", (row.but(contexts=(marked,), components=Frozen(explanation=explanation)),))


def advantages(group: Group, values: list[float], **fields) -> list[float]:
    rule = SegmentGAE(whitened=False, lam=0.5, **fields)
    signals = {Values(player="critic"): {group.trajectories[0].id: np.array(values)}, EndValues(player="critic"): {}}
    return rule.assign([group], signals)[0][0].advantages.tolist()


def test_each_segment_has_its_own_reward_by_hand() -> None:
    # explanation 2 at action 1, fix 5 - 2 = 3 at action 3; lam 0.5; values 1, 1, 1, 1
    # action 3: 3 - 1 = 2; action 2: 0 + 1 - 1 + 0.5 * 2 = 1; action 1: 2 - 1 = 1; action 0: 0 + 0.5 * 1 = 0.5
    found = advantages(two_steps(2.0, 5.0, [0, 0, 1, 1]), [1.0] * 4)
    assert found == pytest.approx([0.5, 1.0, 1.0, 2.0])
    other = advantages(two_steps(2.0, -3.0, [0, 0, 1, 1]), [1.0, 1.0, 7.0, 9.0])  # another fix
    assert other[:2] == found[:2]
    assert other[2:] != found[2:]


def test_each_segment_is_whitened_by_itself() -> None:
    # unwhitened 0.5, 1 and 1, 2: each segment has two values, so its whitened values are -1 and 1
    rule = SegmentGAE(lam=0.5)
    group = two_steps(2.0, 5.0, [0, 0, 1, 1])
    signals = {Values(player="critic"): {group.trajectories[0].id: np.ones(4)}, EndValues(player="critic"): {}}
    credited = rule.assign([group], signals)[0][0]
    assert credited.advantages == pytest.approx([-1.0, 1.0, -1.0, 1.0])
    assert credited.returns == pytest.approx([1.5, 2.0, 2.0, 3.0])  # unwhitened advantage + value


def test_without_an_explanation_reward_the_last_action_has_it_all() -> None:
    # values 0 and lam 0.5: the fix gets 5 and 2.5, and the explanation, which ends before it, gets 0
    group = two_steps(0.0, 5.0, [0, 0, 1, 1])
    assert advantages(group, [0.0] * 4) == pytest.approx([0.0, 0.0, 2.5, 5.0])


def test_with_one_segment_it_is_gae() -> None:
    group = two_steps(0.0, 5.0, [0, 0, 0, 0])
    due = gae(np.array([0, 0, 0, 5.0]), np.array([1.0, 2.0, 3.0, 4.0]), gamma=1.0, lam=0.5)
    assert advantages(group, [1.0, 2.0, 3.0, 4.0]) == pytest.approx(due.tolist())


@isolated
def test_every_trajectory_of_the_fine_tuning_passes_all_tests() -> None:
    for p in TASK.source.draw(range(4), 1, Key(0)):
        assert TASK.verify(p, p.meta["solution"]) == 1.0


@isolated
def test_rewards_of_replies_by_hand() -> None:
    (p,) = TASK.source.draw([0], 1, Key(0))
    solution = p.meta["solution"]
    wrong = f"<explanation>{p.meta['explanation']}</explanation><fix>\n{p.question.split(chr(10), 1)[1].rsplit(chr(10), 1)[0]}\n</fix>"
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=p, completion=c) for i, c in enumerate((solution, wrong, "no")))
    world, _ = scripted_world(TASK, lambda ask: "")
    right, same, none = asyncio.run(ExplainedFix().score([Group("g", rows)], {}, world))[0]
    assert right.reward == pytest.approx(10.0)
    assert same.components["explanation"] == pytest.approx(5.0)
    assert 0.0 <= same.components["verified"] < 1.0
    assert same.components["fix"] == pytest.approx(5 * (same.components["code_bleu"] + same.components["verified"]) - 5)
    assert same.reward == pytest.approx(same.components["explanation"] + same.components["fix"])
    assert none.reward == -10.0


@isolated
def test_the_failing_test_and_the_rounds() -> None:
    (p,) = TASK.source.draw([0], 1, Key(0))
    name = p.meta["function"]
    wrong = f"<explanation>e</explanation><fix>\ndef {name}(x):\n return 99\n</fix>"
    replies = iter([wrong, wrong, p.meta["solution"]])
    world, policy = scripted_world(TASK, lambda ask: next(replies), reward=ExplainedFix())
    search = Revised(rounds=3, feedback=FailingTest())
    (group,) = asyncio.run(search.run([Request(p)], world))
    assert group.trajectories[0].right  # after two revisions; a right answer is not revised
    assert policy.batches == [1, 1, 1]
    row = group.trajectories[0].but(completion=wrong)
    issue, *program, told = FailingTest().text(row, world).split("\n")
    assert issue == p.meta["issue"]
    assert "\n".join(program) == fix_of(wrong)
    assert told.startswith(f"{name}(-7) is 99, not ")
    assert FailingTest().text(row.but(completion="nothing"), world) is None
    broken = wrong.replace("return 99", "return y")
    assert "is an error, not" in FailingTest().text(row.but(completion=broken), world)
    assert rewritten(p, broken)


def test_without_segments_it_is_ppo() -> None:
    base = ppo.but(credit__coefficient=0.05)
    ours, theirs = (weights_after(r, steps=2) for r in (ledex, base))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert {"rollout", "reward", "credit.coefficient", "credit.rule", "search"} >= set(changes(ppo, ledex))
    assert (ledex.search, ledex.credit.coefficient) == (Revised(rounds=3, feedback=FailingTest()), 0.05)
    check_micro_batches(ledex)
