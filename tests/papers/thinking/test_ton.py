"""TON: the share of empty thoughts, the form, equal rewards of both forms, and GRPO without the first stage."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.ton import ThinkForm, ThoughtDropout, dropped, ton
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import TOY, check_micro_batches, scripted_world, weights_after
from gradus.types import Frozen, Key, Request, UserError
from tests.rewards.judged import score, trajectory

FULL, EMPTY = "<think>2+2=4</think><answer>4</answer>", "<think>\n\n</think><answer>4</answer>"


def test_half_of_the_thoughts_are_empty() -> None:
    world, _ = scripted_world(TOY, lambda ask: "", reward=Verified())
    part = ThoughtDropout(form="{thought}|{answer}", empty="", mark="=")
    requests = [Request(p) for p in TOY.source.draw(range(1000), None, Key(0))]
    groups = asyncio.run(part.run([part_of(r) for r in requests], world))
    texts = [t.completion for g in groups for t in g.trajectories]
    assert {t.split("|")[0] for t in texts} == {"", "x"}
    assert sum(t.startswith("|") for t in texts) / 1000 == pytest.approx(0.5, abs=0.04)
    assert all(t.source == "expert" for g in groups for t in g.trajectories)
    again = asyncio.run(part.run([part_of(r) for r in requests], world))
    assert [g.trajectories[0].completion for g in again] == [g.trajectories[0].completion for g in groups]
    for share in (0.0, 1.0):
        (group,) = asyncio.run(ThoughtDropout(share, form="{thought}|", empty="", mark="=").run([part_of(requests[0])], world))
        assert group.trajectories[0].completion == ("x|" if share == 0 else "|")


def part_of(request: Request) -> Request:
    return replace(request, problem=replace(request.problem, meta=Frozen(solution="x=b")))


def test_texts_by_hand() -> None:
    form = "<think>{thought}</think><answer>{answer}</answer>"
    assert dropped("2+2=4 #### 4", form=form, mark="####") == "<think>2+2=4 </think><answer>4</answer>"
    assert dropped("2+2=4 #### 4", form=form, mark="####", empty="\n\n") == EMPTY
    assert dropped("4", form=form, mark="####") == "<think></think><answer>4</answer>"
    assert dropped("7+5=12 =12", form="{thought} ={answer}", mark=" =", empty="") == " =12"


def judged(*texts: str, verify=lambda p, c: 1.0):
    (found,) = score(ton.reward, [trajectory(text) for text in texts], verify=verify)
    return found


def test_the_form() -> None:
    good = [FULL, EMPTY, "<think>\na\n</think> \n <answer>b</answer>"]
    bad = ["", "4", "<think>a<answer>b</answer>", "<think>a</think><answer>b", "x" + FULL, FULL + "x", "<answer>b</answer>"]
    (found,) = score(ThinkForm(), [trajectory(text) for text in (*good, *bad)])
    assert [j.reward for j in found] == [1.0] * 3 + [0.0] * 7


def test_both_forms_earn_the_same() -> None:
    full, empty, broken = judged(FULL, EMPTY, "4")
    assert full.reward == empty.reward == 2.0
    assert broken.reward == 1.0
    assert [j.reward for j in judged(FULL, EMPTY, verify=lambda p, c: 0.0)] == [1.0, 1.0]


def test_without_the_first_stage_it_is_grpo() -> None:
    plain = ton.but(schedule=ConstantSchedule(), reward=Verified())
    ours, theirs = (weights_after(r, steps=3)["policy.logits"] for r in (plain, grpo.but(credit__scale="sample")))
    assert ours.sub(theirs).abs().max() < 1e-9
    assert {path.split(".")[0] for path in changes(grpo, ton)} >= {"reward", "credit", "objective", "schedule"}
    check_micro_batches(plain)
    stages = ton.schedule.stages
    assert list(stages) == ["dropout", "think_or_not"]
    assert stages["dropout"].recipe.rollout == ThoughtDropout(0.5)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="dropout"):
        ThoughtDropout(1.5)
