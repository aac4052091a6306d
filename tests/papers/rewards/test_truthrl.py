"""TruthRL: three values and their advantages by hand, abstentions, truthfulness, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.truthrl import Ternary, truthrl
from gradus.rewards.verified import Verified
from gradus.study.truthfulness import Truthfulness
from gradus.testing.methods import TOY, advantages_of, check_micro_batches, toy_group, weights_after
from gradus.types import Failed, Frozen
from gradus.types.answers import abstains


def answers(*pairs, known=None):
    group = toy_group(*(right for right, _ in pairs))
    meta = Frozen(known=known) if known else Frozen()
    return [t.but(completion=text, problem=replace(t.problem, meta=meta)) for t, (_, text) in zip(group.trajectories, pairs, strict=True)]


def credited(*rewards):
    return [a[0] for a in advantages_of(truthrl.credit, toy_group(*rewards))[0]]


def test_three_values_by_hand() -> None:
    """1, 0, -1, -1: mean -0.25, deviation sqrt(0.6875) = 0.8292. Binary: 1, -1, -1, -1."""
    found = answers((1, "=kast"), (0, "=idk"), (0, "=veld"), (0, "=oren"))
    rewards = [r for r, _ in Ternary().paid(found)]
    assert rewards == [1, 0, -1, -1]
    assert [c["uncertain"] for _, c in Ternary().paid(found)] == [0, 1, 0, 0]
    assert credited(*rewards) == pytest.approx([1.5076, 0.3015, -0.9045, -0.9045], abs=5e-5)
    binary = [r for r, _ in Ternary(abstained=-1.0).paid(found)]
    assert binary == [1, -1, -1, -1]
    assert credited(*binary)[1] < 0


def test_an_abstention_among_wrong_answers() -> None:
    found = answers((0, "I don't know"), (0, "=veld"), (0, "=oren"), (0, "=mira"))
    assert credited(*(r for r, _ in Ternary().paid(found))) == pytest.approx([1.7321, -0.5774, -0.5774, -0.5774], abs=5e-5)
    assert credited(*(r for r, _ in Ternary(abstained=-1.0).paid(found))) == [0.0] * 4


def test_abstentions_are_read_from_the_final_answer() -> None:
    assert all(abstains(t) for t in ("=idk", "idk", "IDK.", "#### I do not know", "\\boxed{I don't know}", "answer: not sure", "=dont know"))
    assert not any(abstains(t) for t in ("=kast", "idkx", "", "I don't know. #### kast", "=i know", "idk\nanswer: veld"))
    assert Ternary().paid(answers((1, "=idk")))[0] == (1.0, {"uncertain": 0.0})  # where "idk" is the right answer, it is right


def test_the_variant_with_knowledge() -> None:
    part = Ternary(unknown=1.0)
    assert [part.paid(answers((0, "=idk"), known=k))[0][0] for k in ("no", "yes", None)] == [1.0, 0.0, 0.0]
    assert part.paid(answers((0, "=veld"), known="no"))[0][0] == -1.0


def test_failed_verdicts_stay_failures() -> None:
    class Given:
        needs = ()

        async def score(self, groups, signals, world):
            from gradus.types.parts import Judgement

            return [[Judgement(Failed("late")), Judgement(1.0)] for _ in groups]

    group = toy_group(0, 1)
    ((failed, right),) = asyncio.run(Ternary(Given()).score([group], {}, SimpleNamespace()))
    assert isinstance(failed.reward, Failed)
    assert right.reward == 1.0


def test_without_abstentions_it_is_grpo() -> None:
    base = grpo.but(objective__kl__coefficient=0.001)
    plus_minus = base.but(reward=2 * Verified() - 1)
    ours, exact, binary = (weights_after(r, steps=3, task=TOY)["policy.logits"] for r in (truthrl, plus_minus, base))
    assert torch.equal(ours, exact)  # toy answers never abstain
    assert_close(ours, binary, rtol=0, atol=1e-9)
    check_micro_batches(truthrl)
    assert truthrl.study == Truthfulness()
    assert (truthrl.reward, truthrl.objective["kl"].coefficient) == (Ternary(Verified(), 1.0, 0.0, -1.0, None), 0.001)
