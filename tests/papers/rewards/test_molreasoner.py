"""MolReasoner: the grades by hand, captions, and GRPO at the limit."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.molreasoner import MoleculeReward, caption_likeness, molreasoner
from gradus.recipe.core import changes
from gradus.rewards.overlap import bleu
from gradus.rewards.verified import Verified
from gradus.tasks.text.molecules import ChainLikeness, molecules
from gradus.testing.methods import check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Group, Problem, UserError


def rewards(reward: MoleculeReward, due: str, *answers: str) -> list[float]:
    problem = Problem("p", "molecules", text="q", answer=due)
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=problem, completion=c) for i, c in enumerate(answers))
    world, _ = scripted_world(molecules(), lambda ask: "")
    (found,) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return [j.reward for j in found]  # type: ignore[misc]


def said(text: str) -> str:
    return f"<think>t</think><answer>{text}</answer>"


def test_the_grades_by_hand() -> None:
    assert MoleculeReward().value(False, (0.6, 0.4, 0.5, 0.5)) == pytest.approx(1.25)
    assert rewards(MoleculeReward(), "[C][C][O]", said("[C][C][O]"), said("[O][C][C]"), said("[C][F][C]"), said("x"), "none") == [2.0, 2.0, 0.0, 0.0, 0.0]
    found = ChainLikeness().likeness(Problem("p", "m", text="", answer="[C][C][O]"), said("[C][O]"))
    due = 0.5 + 1.5 * (found["fingerprints"] + found["fragments"] + found["groups"] + bleu("[C][O]", "[C][C][O]")) / 4
    assert rewards(MoleculeReward(), "[C][C][O]", said("[C][O]")) == [pytest.approx(due)]
    assert bleu("[C][O]", "[C][C][O]") > 0  # of characters, so short molecules have runs of four


def test_a_valid_molecule_earns_at_least_the_floor() -> None:
    assert 0.5 <= rewards(MoleculeReward(), "[C][C][C]", said("[F][F]"))[0] < 2.0
    assert rewards(MoleculeReward(graded=0.0), "[C][C][C]", said("[F][F]")) == [0.5]


def test_captions_by_hand() -> None:
    # words 3 of 4 equal in order: pairs 2 of 3, no run of four
    a, b = "a b c x", "a b c d"
    assert caption_likeness(a, b) == pytest.approx(((3 / 4 * 2 / 3) ** 0.5 + 0 + 3 / 4 + 2 / 3 + 3 / 4) / 5)
    reward = MoleculeReward(caption=True)
    assert rewards(reward, b, said(a), said(b), said(b.upper()), "none") == [pytest.approx(0.5 + 1.5 * caption_likeness(a, b)), 2.0, 2.0, 0.0]


def test_with_the_verdict_it_is_grpo() -> None:
    base = grpo.but(objective__kl__coefficient=0.001, setting__temperature=0.7)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (molreasoner.but(reward=Verified()), base)))
    assert {"reward", "objective.kl.coefficient"} <= set(changes(grpo, molreasoner))
    check_micro_batches(molreasoner)
    with pytest.raises(UserError, match=r"MoleculeReward\.floor"):
        MoleculeReward(floor=-1)
