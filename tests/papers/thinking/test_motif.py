"""MOTIF: scores of continuations and points for the form by hand, who is trained, and GRPO at the limit of one round."""

from __future__ import annotations

import asyncio

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.motif import ContinuedSuccess, motif, tag_points
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.notes import Notes, Rounds
from gradus.testing.methods import TOY, check_same_update, scripted_world, steps_of, toy_trajectory
from gradus.types import Failed, Group, Key, UserError

GOOD = "<reasoning>\nx\n</reasoning>\n<answer>\ny\n</answer>\n"
PLAIN = Notes(first="", later="{}", last="{}")


def judged(part, finals, first="note"):
    world, _ = scripted_world(TOY, lambda ask: finals[ask.request.tags[-1]] if 3 in ask.request.tags else "z", reward=Verified())
    (problem,) = TOY.source.draw([0], None, Key(0))  # the answer is "b"
    t = toy_trajectory([2]).but(completion=first, problem=problem)
    ((found,),) = asyncio.run(part.score([Group("g", (t,))], {}, world))
    return found


def test_four_continuations_by_hand() -> None:
    # right in the answer, right in the answer, right only elsewhere, wrong
    finals = ["<answer>b</answer>", "x<answer>b</answer>", "b<answer>c</answer>", "<answer>c</answer>"]
    found = judged(ContinuedSuccess(notes=PLAIN), finals)
    assert found.components["continued"] == found.reward == 1.25
    assert judged(ContinuedSuccess(notes=PLAIN), ["b", "c", "c", "c"]).reward == 0.5  # without tags the whole text is the answer
    good = judged(ContinuedSuccess(notes=PLAIN), finals, GOOD)
    assert good.reward == pytest.approx(1.25 + 0.5 + 0.5 + 0.5)
    assert judged(ContinuedSuccess(notes=PLAIN, form=0.0), finals, GOOD).reward == 1.25


def test_points_for_the_form() -> None:
    assert tag_points(GOOD) == 0.5
    assert tag_points(GOOD + "0123456789") == pytest.approx(0.5 - 0.02)
    assert tag_points(GOOD.replace("<answer>\n", "")) == pytest.approx(0.375)
    assert tag_points(GOOD + GOOD) == 0
    assert tag_points("none") == 0
    loose = judged(ContinuedSuccess(notes=PLAIN), ["c"] * 4, "<reasoning>x</reasoning> <answer>y</answer>")
    assert (loose.components["loose"], loose.components["strict"], loose.components["tags"]) == (0.5, 0.0, 0.0)


def test_a_continuation_without_a_verdict_is_a_failure() -> None:
    class Broken:
        needs = ()

        async def score(self, groups, signals, world):
            from gradus.types.parts import Judgement

            return [[Judgement(Failed("broken")) for _ in g.trajectories] for g in groups]

    assert isinstance(judged(ContinuedSuccess(notes=PLAIN, reward=Broken()), ["b"] * 4).reward, Failed)


def test_only_the_first_round_is_trained() -> None:
    (_, groups), *_ = steps_of(motif.but(players__policy=None), steps=1)
    rows = [t for g in groups for t in g.trajectories]
    assert all(len(t.contexts) == 1 and t.advantages is not None and len(t.advantages) == t.actions for t in rows)
    assert motif.rollout.test == Rounds(all=True)


def test_with_one_round_it_is_grpo() -> None:
    one = motif.but(
        rollout=Rounds(1, PLAIN),
        reward=ContinuedSuccess(1, 1, PLAIN, form=0.0),
        players__policy=None,
        study=grpo.study,
        setting__temperature=1.0,
    )
    check_same_update(one, grpo.but(objective__kl=None, players__reference=None))
    assert {path.split(".")[0] for path in changes(grpo, motif)} == {"rollout", "reward", "objective", "players", "study", "setting"}
    assert (motif.reward.continuations, motif.reward.rounds, motif.rollout.count) == (4, 3, 3)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="continuations"):
        ContinuedSuccess(continuations=0)
