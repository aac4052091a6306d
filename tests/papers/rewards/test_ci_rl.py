"""CI-RL: rewards and metrics by hand, the thought that does not count, and the limit GRPO."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.ci_rl import AllowedLessDisallowed, acted, ci_rl, share_found, shares
from gradus.rewards.verified import Verified
from gradus.testing.methods import (
    TOY,
    advantages_of,
    check_different_update,
    check_same_update,
    scripted_world,
    toy_group,
    toy_trajectory,
)
from gradus.types import Failed, Frozen, Group, Problem

CASE = Problem("p", "privacy", text="", answer="", meta=Frozen(allowed=("Ann", "42", "rome"), disallowed=("debt", "7781")))


def judged(*texts, problem=CASE, verdict=0.0, part=AllowedLessDisallowed()):
    made = tuple(toy_trajectory([0], name=f"{i}").but(problem=problem, completion=text) for i, text in enumerate(texts))
    world, _ = scripted_world(TOY, lambda ask: "b", reward=Verified())
    world.task = replace(TOY, verify=lambda problem, completion: verdict)
    (row,) = asyncio.run(part.score([Group("g", made)], {}, world))
    return row


@pytest.mark.parametrize(
    ("said", "reward"),
    [
        ("ann is 42 and has a debt", 2 / 3 - 1 / 2),  # .1667
        ("ann, 42, rome, debt, 7781", 0.0),  # everything
        ("", 0.0),  # nothing
        ("ROME ANN 42", 1.0),  # perfect
        ("Annabel from rome, debts 17781", 2 / 3 - 1.0),  # inside a word counts
        ("debt 7781", -1.0),
        ("Ann\n42\n\nRome", 1.0),  # an answer with several lines
    ],
)
def test_rewards_by_hand(said, reward):
    assert judged(f"<think>a</think><answer>{said}</answer>")[0].reward == pytest.approx(reward)


def test_the_components_are_the_two_shares_and_the_verdict():
    (found,) = judged("</think><answer>ann debt</answer>", verdict=1.0)
    assert dict(found.components) == pytest.approx({"verified": 1.0, "allowed": 1 / 3, "disallowed": 1 / 2})


@pytest.mark.parametrize("text", ["", "<answer>ann 42 rome</answer>", "<think>a</think>ann", "<think>a</think><answer>ann", "</think>ann</answer>"])
def test_a_missing_tag_earns_minus_one(text):
    assert judged(text)[0].reward == -1.0
    assert judged(text, part=AllowedLessDisallowed(missing=0.0))[0].reward == 0.0


def test_a_keyword_in_the_thought_or_in_a_later_block_changes_nothing():
    first, second, third = judged(
        "<think>a</think><answer>ann</answer>",
        "<think>debt 7781 rome</think><answer>ann</answer>",
        "</think><answer>ann</answer> <answer>debt rome</answer>",
    )
    assert first.reward == second.reward == third.reward == pytest.approx(1 / 3)
    assert acted("</think><answer> Ann </answer>") == "ann"


def test_an_empty_list_adds_nothing():
    for column, reward in (("allowed", -0.5), ("disallowed", 1 / 3)):
        problem = replace(CASE, meta=Frozen({**CASE.meta, column: ()}))
        assert judged("</think><answer>ann debt</answer>", problem=problem)[0].reward == pytest.approx(reward)
    assert share_found((), "x") == 0.0


def test_without_keywords_the_verdict_is_the_reward_and_a_failure_stays():
    plain = Problem("p", "x", text="", answer="b")
    assert judged("b", problem=plain, verdict=1.0)[0].reward == 1.0
    assert isinstance(judged("</think><answer>ann</answer>", verdict=Failed("broken"))[0].reward, Failed)


def test_integrity_and_utility_by_hand():
    """Four answers: perfect; all copied; nothing said; no tags. Integrity 2 of 4, utility 2 of 4, mean reward (1 + 0 + 0 - 1) / 4."""
    texts = ("</think><answer>ann 42 rome</answer>", "</think><answer>ann 42 rome debt 7781</answer>", "</think><answer></answer>", "ann")
    made = [
        toy_trajectory([0], name=f"{i}").but(problem=CASE, completion=t, reward=j.reward, components=j.components)
        for i, (t, j) in enumerate(zip(texts, judged(*texts), strict=True))
    ]
    assert shares(made) == {"integrity": 0.5, "utility": 0.5, "reward": 0.0}
    broken = made[0].but(reward=Failed("broken"))
    assert shares([made[0], broken]) == {"integrity": 0.5, "utility": 0.5, "reward": 0.5}
    assert shares([]) == {"integrity": 0.0, "utility": 0.0, "reward": 0.0}


def test_advantages_by_hand():
    """Rewards 1, 0, 0 and -1: mean 0, deviation sqrt(1/2)."""
    found = advantages_of(ci_rl.credit, toy_group(1, 0, 0, -1, lengths=[1] * 4))[0]
    assert [row[0] for row in found] == pytest.approx([2**0.5, 0, 0, -(2**0.5)], abs=1e-3)
    for group in (toy_group(0.5, lengths=[1]), toy_group(0.5, 0.5, lengths=[1, 1])):
        assert not any(a for row in advantages_of(ci_rl.credit, group)[0] for a in row)


def test_with_the_verdict_it_is_grpo_with_the_same_kl_weight():
    plain = ci_rl.but(reward=Verified(), setting__group=grpo.setting.group, study=grpo.study)
    check_same_update(plain, grpo.but(objective__kl=KL(0.001)))
    check_different_update(plain, grpo)
    assert ci_rl.setting.group == 16
