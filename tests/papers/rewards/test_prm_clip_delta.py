"""Clip and Delta by hand, where step rewards go, the two judges of steps, the limit, and what repeated steps earn."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.credit.gae import action_rewards, discounted
from gradus.papers.bases.ppo import ppo
from gradus.papers.rewards.prm_clip_delta import LearnedScores, RefinedSteps, TrueEquations, clipped, deltas, holds, prm_clip_delta, refined
from gradus.rewards.verified import Verified
from gradus.testing.methods import TOY, check_different_update, check_same_update, scripted_world, toy_trajectory
from gradus.types import Failed, Group, UserError
from gradus.types.parts import Judgement
from gradus.types.signals import Values
from gradus.types.spans import Separated

Q = np.array([0.2, 0.9, 0.5, 0.8])


def returns(rewards):
    return discounted(rewards, gamma=1.0)


def test_delta_by_hand():
    assert deltas(Q) == pytest.approx([-0.7, 0.4, -0.3, 0.8])
    assert deltas(Q).sum() == pytest.approx(0.2)
    assert returns(deltas(Q)) == pytest.approx(Q)
    assert deltas(Q, "dropped") == pytest.approx([-0.7, 0.4, 0.5, 0.0])  # the other form of the end
    assert deltas(Q, "dropped").sum() == pytest.approx(0.2)
    assert deltas(np.array([0.4])).tolist() == [0.4]
    assert deltas(np.array([0.4]), "dropped").tolist() == [0.0]
    assert deltas(np.zeros(0)).tolist() == deltas(np.zeros(0), "dropped").tolist() == []


def test_clip_by_hand():
    assert clipped(Q, 0.5) == pytest.approx([-0.3, 0, 0, 0])
    both = refined(Q, "clip_delta", 0.5)
    assert both == pytest.approx([-0.3, 0, 0, 0])
    assert both.sum() == pytest.approx(-0.3)
    assert refined(Q, "clip_delta", 0.85) == pytest.approx([-0.65, 0.35, -0.3, -0.05])  # clipped: -.65, 0, -.35, -.05
    assert refined(Q, "none", 0.5).tolist() == Q.tolist()


def test_ten_copies_of_a_good_step():
    more = np.concatenate([Q, np.full(10, 0.9)])
    assert refined(more, "none", 0.5).sum() - refined(Q, "none", 0.5).sum() == pytest.approx(9.0)
    assert refined(more, "clip", 0.5).sum() - refined(Q, "clip", 0.5).sum() == 0
    assert refined(more, "clip_delta", 0.5).sum() == pytest.approx(-0.3)
    assert refined(more, "delta", 0.5).sum() == pytest.approx(0.2)


def test_equations():
    assert holds("4*6+3", 27)
    assert holds("12-5", 7)
    assert not holds("7+5", 13)
    assert not any(holds(text, 0) for text in ("", "-", "7++5", "1" * 10))


LETTERS = " 0123456789+-*=;"
WORLD = SimpleNamespace(text=lambda tokens, player: "".join(LETTERS[t] for t in tokens))
MARKS = Separated(";")


def said(text, reward=1.0, name="t"):
    return toy_trajectory([LETTERS.index(c) for c in text], reward=reward, name=name).but(completion=text)


def judged(part, text, verdict=1.0, values=None):
    t = said(text)
    scores, ends = part.scorer.scores(t, {} if values is None else {Values(player="prm"): {"t": np.array(values)}}, WORLD)
    return part._judged(t, Judgement(verdict), scores, ends, part.eta), scores, ends


def test_a_step_is_paid_at_its_last_token_and_the_verdict_at_the_last_one():
    part = RefinedSteps(TrueEquations(MARKS), "none", alpha=0.5)
    found, scores, ends = judged(part, "1+1=2;2+2=5;9")
    assert (scores.tolist(), ends.tolist()) == ([0.9, 0.1], [5, 11])  # the last step has no equation
    assert found.reward == pytest.approx(1 + 0.5)
    assert found.steps == ((0, 5, "step", pytest.approx(0.45)), (0, 11, "step", pytest.approx(0.05)))
    assert dict(found.components) == {"verified": 1.0, "steps": 2.0, "scores": pytest.approx(1.0)}
    t = said("1+1=2;2+2=5;9")
    paid = t.but(reward=found.reward, contexts=(replace(t.contexts[0], rewards=tuple(s[1:] for s in found.steps)),))
    assert action_rewards(paid) == pytest.approx([0, 0, 0, 0, 0, 0.45, 0, 0, 0, 0, 0, 0.05, 1.0])


def test_a_learned_judge_reads_where_the_next_step_begins():
    values = np.zeros(12)
    values[6], values[11] = np.log(3), -np.log(3)
    _, scores, ends = judged(RefinedSteps(LearnedScores(marking=MARKS)), "1+1=2;2+2=5;", values=values)
    assert scores == pytest.approx([0.75, 0.25])
    assert ends.tolist() == [5, 11]


def test_an_answer_without_steps_has_only_its_verdict_and_a_failure_stays():
    found, scores, _ = judged(RefinedSteps(TrueEquations(MARKS)), "9", 0.0)
    assert (found.reward, found.steps, len(scores)) == (0.0, (), 0)
    broken = Judgement(Failed("broken"))
    assert RefinedSteps()._judged(said("9"), broken, np.zeros(0), np.zeros(0, int), 0.5) is broken


def test_eta_is_the_mean_of_the_batch_if_it_is_not_given():
    """Scores .9 and .1, mean .5: Clip pays 0 and -.4."""
    part = RefinedSteps(TrueEquations(MARKS), "clip", alpha=1.0, eta=None)
    world, _ = scripted_world(TOY, lambda ask: "b", reward=Verified())
    world.text = WORLD.text
    task = replace(TOY, verify=lambda problem, completion: 1.0)
    world.task = task
    groups = [Group("g", (said("1+1=2;", name="a"), said("1+1=3;", name="b")))]
    ((good, bad),) = asyncio.run(part.score(groups, {}, world))
    assert (good.steps[0][3], bad.steps[0][3]) == (pytest.approx(0), pytest.approx(-0.4))
    groups = [Group("g", (said("1+1=2;", name="a"), said("1+1=3;", name="b"), said("1+1=4;", name="c")))]
    ((_, bad, _),) = asyncio.run(part.score(groups, {}, world))
    assert bad.steps[0][3] == pytest.approx(0.1 - 1.1 / 3)  # the mean of .9, .1 and .1, not the median


def test_with_alpha_zero_it_is_ppo():
    check_same_update(prm_clip_delta.but(reward__alpha=0.0), ppo.but(credit__coefficient=0.1))
    check_different_update(prm_clip_delta, ppo)


def test_unknown_words_are_refused():
    with pytest.raises(UserError, match="refine is 'both'"):
        RefinedSteps(refine="both")
    with pytest.raises(UserError, match="last is 'none'"):
        RefinedSteps(last="none")
