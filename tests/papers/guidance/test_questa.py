"""QuestA: the part of the solution in the prompt, which tokens are trained on, and GRPO on mixed groups as the limit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.questa import HARD, PartialSolution, first_part, questa
from gradus.rollouts.auto import Auto
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.schedules.constant import ConstantSchedule
from gradus.selection.filters import Mixed
from gradus.testing.methods import check_learns, check_micro_batches, train_toy, weights_after
from gradus.types import Frozen, Problem, Request, UserError

EIGHT = ". ".join(f"step {i}" for i in range(1, 9))
ONE = questa.but(schedule=ConstantSchedule(), rollout=PartialSolution(), setting__group=4)


def shown(share: float, solution: str = EIGHT, separator: str = ". ", **fields: Any) -> Any:
    problem = Problem("p", "toy", text="question", meta=Frozen(solution=solution) if solution else Frozen())
    return PartialSolution(share=share, separator=separator, **fields).changed(Request(problem), None).prompt


def test_the_hint_of_a_solution_with_eight_sentences() -> None:
    assert shown(0.5) == "question\nhint: step 1. step 2. step 3. step 4"
    assert shown(0.25) == "question\nhint: step 1. step 2"
    assert shown(0.0) is None  # the question itself, character by character
    assert shown(0.1) is None  # 0.8 sentences
    assert shown(1.0, form="{}?") == f"question\n{EIGHT}?"
    assert first_part("abcdefgh", 0.5, "") == "abcd"
    assert first_part("a b c", 1 / 3, " ") == "a"


def test_a_chat_and_what_is_refused() -> None:
    chat = Problem("p", "toy", messages=({"role": "user", "content": "q"},), meta={"solution": "a b"})
    made = PartialSolution().changed(Request(chat), "be brief").prompt
    assert made == ({"role": "system", "content": "be brief"}, {"role": "user", "content": "q\nhint: a"})
    with pytest.raises(UserError, match='has no "solution"'):
        shown(0.5, solution="")
    with pytest.raises(UserError, match=r"PartialSolution\.form"):
        PartialSolution(form="hint")
    with pytest.raises(UserError, match="share"):
        PartialSolution(share=1.5)


def test_the_hint_is_prompt_and_tests_have_none() -> None:
    """The number of actions is that of the answers alone; the token before the first action belongs to the longer prompt."""
    lengths: dict[float, set[int]] = {}
    for share in (0.0, 1.0):
        seen: list[Any] = []
        train_toy(ONE.but(rollout__share=share), steps=1, watch=lambda run, row, groups: seen.extend(groups))  # noqa: B023
        contexts = [c for g in seen for t in g.trajectories for c in t.contexts]
        assert all(c.actions == len(c.tokens) and c.chosen.all() for c in contexts)
        lengths[share] = {int(c.action_positions[0]) for c in contexts}
    assert min(lengths[1.0]) > max(lengths[0.0])
    assert isinstance(questa.rollout.test, Auto)


def test_the_stages() -> None:
    half, quarter = questa.schedule.stages["half"], questa.schedule.stages["quarter"]
    assert [dict(s.changes)["rollout.rollout.share"] for s in (half, quarter)] == [0.5, 0.25]
    assert (half.screen, quarter.screen) == (HARD, HARD)
    assert [HARD.keeps(right / 8) for right in (0, 1, 2)] == [True, True, False]
    assert questa.but(rollout__rollout__share=0.25).rollout == DynamicSampling(PartialSolution(share=0.25))


def test_without_a_hint_it_is_grpo_on_mixed_groups() -> None:
    plain = grpo.but(objective__kl=None, players__reference=None, objective__policy__average=TokenMean(), selection=Mixed(), setting__group=4)
    first, base = (weights_after(r, steps=2)["policy.logits"] for r in (ONE.but(rollout__share=0.0), plain))
    assert torch.equal(first, base)
    assert not torch.equal(weights_after(ONE.but(rollout__share=1.0), steps=2)["policy.logits"], base)
    check_micro_batches(ONE.but(rollout__share=1.0))
    check_learns(ONE.but(rollout__share=1.0))
