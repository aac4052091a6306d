"""MathSmith: form, length and agreement by hand, the solver's prompt, majority labels, and GRPO at the limit."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.data.mathsmith import Forged, ForgedProblem, form, mathsmith, written
from gradus.recipe.core import changes
from gradus.rewards.downstream import AgreedAnswers, Downstream, ReplyLength
from gradus.rewards.verified import Verified
from gradus.testing.methods import TOY, check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, UserError
from gradus.types.players import Player


def text(steps: int, problem: str = "1+1") -> str:
    return f"<rationale>{' '.join(f'Step {i} x' for i in range(1, steps + 1))}</rationale> <problem>{problem}</problem>"


@pytest.mark.parametrize(("steps", "value"), [(1, 0.76), (5, 1.0), (7, 0.88), (10, 0.7), (14, 0.7)])
def test_the_form_by_hand(steps: int, value: float) -> None:
    assert form(text(steps)) == pytest.approx(value)


def test_a_missing_part_and_repeated_labels() -> None:
    assert [form(t) for t in (text(5).replace("<problem>", ""), "<problem>1</problem>", "<rationale>Step 1</rationale>", "")] == [0.0] * 4
    assert form("<rationale>Step 1 STEP 1 step 2</rationale><problem>1</problem>") == pytest.approx(0.7 + 0.3 * 2 / 5)


def judged(reward: ForgedProblem, *completions: str, say=lambda ask: "=4"):
    asked = []
    world, policy = scripted_world(TOY, lambda ask: asked.append(policy.text(ask.parent.sequence)) or say(len(asked) - 1))
    world.players["solver"] = world.players["policy"]
    rows = tuple(toy_trajectory([2], name=f"t/{i}").but(completion=c) for i, c in enumerate(completions))
    ((*found,),) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return found, asked, rows


def solver(most: int) -> ForgedProblem:
    measures = Frozen(length=ReplyLength(most), agreement=AgreedAnswers(2))
    return ForgedProblem(Downstream(measures, player="solver", template="{text}", samples=3))


def test_the_reward_by_hand() -> None:
    # five steps: 1; answers of 3 tokens ("=4" and the end token) of 12: 0.7 / 4; agreement: 0.3
    (one, bad, none), asked, _ = judged(solver(12), text(5), "<problem>1+1</problem>", text(5).replace("<problem>", ""))
    assert one.reward == pytest.approx(1.475)
    assert one.components == {"form": 1.0, "length": 0.25, "agreement": 1.0}
    assert (bad.reward, dict(bad.components)) == (0.0, {"form": 0.0, "length": 0.0, "agreement": 0.0})
    assert (none.reward, none.components["length"]) == (0.0, 0.0)
    assert asked == ["1+1"] * 6  # the solver reads the problem alone; without a problem it is not asked


@pytest.mark.parametrize(("said", "agree"), [("445", 1.0), ("456", 0.0)])
def test_agreement_of_three_answers(said: str, agree: float) -> None:
    ((one,), _, _) = judged(solver(12), text(5), say=lambda i: f"={said[i]}")
    assert one.components["agreement"] == agree


def test_forged_problems_are_labelled_by_the_majority() -> None:
    found, _, rows = judged(solver(12), text(5), text(2, "2+2"), "none", say=lambda i: ["a=4", "b=4", "=5", "=1", "=2", "=3"][i])
    groups = [Group("g", tuple(t.but(extra=j.extra) for t, j in zip(rows, found, strict=True)))]
    assert Forged().rows(groups) == [{"prompt": "1+1", "answer": "4", "solution": "a=4"}]
    assert [row["prompt"] for row in Forged(least=1).rows(groups)] == ["1+1", "2+2"]
    assert Forged().rows([g.but(aside=True) for g in groups]) == []
    assert Forged().provides == {"solution"}


def test_with_the_verdict_it_is_grpo() -> None:
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (mathsmith.but(reward=Verified()), grpo))
    assert torch.equal(one, other)
    assert set(changes(grpo, mathsmith)) == {"reward", "players.solver"}
    check_micro_batches(mathsmith)


def test_the_papers_numbers_and_what_is_refused() -> None:
    solved = mathsmith.reward.solved
    assert (solved.samples, solved.temperature, solved.max_tokens) == (3, 0.3, 32768)
    assert dict(mathsmith.reward.weights) == {"length": 0.7, "agreement": 0.3}
    assert (solved.measures["length"], solved.measures["agreement"]) == (ReplyLength(32768), AgreedAnswers(2))
    assert mathsmith.players["solver"] == Player()
    with pytest.raises(UserError, match=r"ForgedProblem\.steps"):
        ForgedProblem(steps=0)
    with pytest.raises(UserError, match='unknown measure "f2"'):
        ForgedProblem(weights=Frozen(f2=1.0))


def test_the_text_between_tags() -> None:
    assert [written(t, "p") for t in ("so <p> a </p><p>b</p>", "a", "</p><p>", "<p> 1+1", "<p> </p>", "")] == ["a", "", "", "", "", ""]


def test_other_weights_and_measures() -> None:
    ((one,), _, _) = judged(ForgedProblem(solver(12).solved, weights=Frozen(agreement=0.0)), text(5))
    assert one.reward == pytest.approx(1 + 0.25)  # a measure without a weight has the weight 1
