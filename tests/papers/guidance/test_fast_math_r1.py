"""Fast-Math-R1: the three rewards by hand, their sum, the order of the stages, and GRPO as the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.guidance.fast_math_r1 import CURVES, AnswerBefore, CharacterCosine, CharacterLength, fast_math_r1
from gradus.papers.objectives.kimi_k1_5 import GroupLength
from gradus.rewards.length import CosineLength
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import check_same_update, toy_group, train_toy
from gradus.types import NOT_APPLICABLE, Failed, Frozen, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Judgement


class Given:
    """A reward that repeats the rewards of the trajectories."""

    needs = ()
    name = "verified"

    async def score(self, groups: Any, signals: Any, world: Any) -> Any:
        return [[Judgement(t.reward, Frozen(verified=t.reward) if isinstance(t.reward, float) else Frozen()) for t in g.trajectories] for g in groups]


class Run:
    step, steps = 0, 1


def judged(reward: Any, *answers: tuple[Any, str]) -> list[Any]:
    """The rewards of one group of answers: verdict and completion."""
    group = toy_group(*[0.0] * len(answers))
    made = group.but(trajectories=tuple(t.but(reward=r, completion=text) for t, (r, text) in zip(group.trajectories, answers, strict=True)))
    return list(asyncio.run(reward.score([made], {}, Run()))[0])


def test_the_cosine_by_hand() -> None:
    lengths = np.array([0.0, 15000.0, 30000.0, 60000.0])
    assert CURVES.values(lengths, np.ones(4, bool), CharacterCosine().limit).tolist() == pytest.approx([1.0, 0.55, 0.1, 0.1])
    assert CURVES.values(lengths, np.zeros(4, bool), CharacterCosine().limit).tolist() == pytest.approx([-1.0, -0.55, -0.1, -0.1])


def test_the_cosine_replaces_the_verdict() -> None:
    found = judged(CharacterCosine(replace(CURVES, reward=Given()), limit=4), (1.0, "ab"), (0.0, "ab"), (Failed("late"), "a"), (NOT_APPLICABLE, "a"))
    assert [j.reward for j in found[:2]] == pytest.approx([0.55, -0.55])
    assert dict(found[0].components) == {"verified": 1.0, "length": pytest.approx(0.55)}
    assert isinstance(found[2].reward, Failed)
    assert found[3].reward is NOT_APPLICABLE


@pytest.mark.parametrize(
    ("text", "value"),
    [(r"so \boxed{4} </think> 4", 1), (r"so </think> \boxed{4}", 0), (r"\boxed{4}", 0), (r"<think> 4 </think>", 0), ("", 0)],
)
def test_the_answer_before_the_end_of_the_thoughts(text: str, value: int) -> None:
    assert AnswerBefore().value(text) == value
    with pytest.raises(UserError, match="regular expression"):
        AnswerBefore(answer="(")


def test_the_sum_by_hand() -> None:
    """Characters 100, 200, 300, right, right, wrong: R_len is 0.5, 0, -0.5. The first has the form and u near 0: 1 + 1 + 0.5 = 2.5."""
    first = r"\boxed{4}</think>".ljust(100, ".")
    answers = ((1.0, first), (1.0, "." * 200), (0.0, "." * 300))
    parts = CharacterLength(CharacterCosine(replace(CURVES, reward=Given()), limit=10**9) + AnswerBefore())
    found = judged(parts, *answers)
    assert [j.components["length"] for j in found] == pytest.approx([0.5, 0.0, -0.5])
    assert [j.reward for j in found] == pytest.approx([2.5, 1.0, -1.5])
    assert [j.reward for j in judged(CharacterLength(Given()), (1.0, "ab"), (0.0, "cd"))] == [1.0, 0.0]  # equal lengths
    assert [j.reward for j in judged(GroupLength(Given()), *answers)] == [1.0, 1.0, 0.0]  # tokens: all have two


def test_the_stages() -> None:
    stages = fast_math_r1.schedule.stages
    assert list(stages) == ["imitate", "shorten"]
    assert (stages["imitate"].recipe, stages["shorten"].start) == (sft, "previous")
    assert fast_math_r1.reward == CharacterLength(CharacterCosine(CosineLength(right=(1.0, 0.1), wrong=(-1.0, -0.1), exceeds=None), limit=30000) + AnswerBefore())
    assert stages["shorten"].until == Steps(40)
    assert (fast_math_r1.objective["kl"].coefficient, fast_math_r1.optimizer.decay) == (0.04, "cosine")


def test_with_the_verdict_alone_the_second_stage_is_grpo() -> None:
    plain = fast_math_r1.but(schedule=ConstantSchedule(), reward=Verified(), optimizer=grpo.optimizer)
    check_same_update(plain, grpo)
    seen: list[Any] = []
    train_toy(fast_math_r1.but(schedule=ConstantSchedule()), steps=1, watch=lambda run, row, groups: seen.extend(groups))
    assert {round(t.value, 3) for g in seen for t in g.trajectories} - {0.0, 1.0}
