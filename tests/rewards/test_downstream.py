"""The reward of a written text by a frozen player: measures by hand, what the player reads, and texts that cannot be read."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.rewards.downstream import AgreedAnswers, Downstream, MacroF1, Reply, ReplyLength, RightShare
from gradus.testing.methods import TOY, scripted_world, toy_trajectory, train_toy
from gradus.types import Frozen, Group, Problem, UserError
from gradus.types.answers import macro_f1
from gradus.types.players import Copy, Player


def replies(*said, expected=None):
    return [Reply(text, 4, e) for text, e in zip(said, expected or [None] * len(said), strict=True)]


def test_macro_f1_by_hand():
    assert macro_f1("aabb", "abbb") == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert macro_f1("aabb", ["a", None, "b", "x"]) == pytest.approx(2 / 3)  # 2 TP / (2 TP + FN): 2/3 for both
    assert macro_f1("aabb", "aaaa") == pytest.approx((2 * 2 / 6 + 0) / 2)
    assert macro_f1("", "") == 0.0
    assert MacroF1().value(replies("=a", "so =b", "b", "=b", expected=["a", "a", "b", "b"])) == pytest.approx(0.7333, abs=1e-4)


def test_share_agreement_and_length_by_hand():
    assert RightShare().value(replies("1+1=2", "3", expected=["2", "2"])) == 0.5
    assert [AgreedAnswers(2).value(replies(*map(str, said))) for said in ([4, 4, 5], [4, 5, 6])] == [1.0, 0.0]
    assert AgreedAnswers(2).value(replies("=", "=", "4")) == 0.0  # replies without an answer do not agree
    assert ReplyLength(16).value([Reply("", 4), Reply("", 8)]) == 6 / 16


def judged(reward, *completions, problem=None, speak=lambda ask: "b"):
    """The judgements of texts, and the prompts that the player read."""
    asked = []

    def say(ask):
        asked.append(ask)
        return speak(ask)

    world, _ = scripted_world(TOY, say)
    problem = problem or Problem("p", "toy", text="hidden", meta=Frozen(questions=(("x", "b"), ("y", "c"))))
    rows = tuple(toy_trajectory([2], name=f"t/{i}").but(problem=problem, completion=text) for i, text in enumerate(completions))
    (row,) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return row, [world.text(ask.parent.sequence) for ask in asked], asked


def test_the_player_reads_the_text_and_one_question():
    (one, two), prompts, asked = judged(Downstream(player="policy", max_tokens=3), " first ", "second")
    assert prompts == ["first\nx", "first\ny", "second\nx", "second\ny"]
    assert (one.reward, two.reward) == (0.5, 0.5)
    assert (one.components, one.extra["written"], one.extra["replies"]) == ({"right": 0.5}, "first", ["b", "b"])
    assert all(a.sampling.temperature == 0 and a.sampling.max_tokens == 3 and not a.request.trained for a in asked)
    chat = Problem("p", "toy", messages=({"role": "user", "content": "hidden"},), meta=Frozen(questions=(("x", "b"),)))
    _, prompts, _ = judged(Downstream(player="policy"), "first", problem=chat)
    assert prompts == ["first\nx"]


def test_without_questions_the_text_is_the_question():
    reward = Downstream(Frozen(length=ReplyLength(10), same=AgreedAnswers(2)), player="policy", samples=3)
    (one, two), prompts, _ = judged(reward, " 1+1 ", " ", problem=Problem("p", "toy", text="hidden"))
    assert prompts == ["1+1"] * 3
    assert one.components == {"length": pytest.approx(0.2), "same": 1.0}  # "b" and its end token
    assert one.reward == pytest.approx(0.2 + 1)
    assert two.reward == 0.0


def test_a_text_that_is_too_long_for_the_player_earns_nothing():
    world, _ = scripted_world(TOY, lambda ask: "b", context_length=6)
    row = toy_trajectory([2]).but(problem=Problem("p", "toy", text="q", meta=Frozen(questions=(("x", "b"),))), completion="long text")
    ((found,),) = asyncio.run(Downstream(player="policy").score([Group("g", (row,))], {}, world))
    assert (found.reward, found.extra["replies"]) == (0.0, [])


def test_a_frozen_player_does_not_change():
    task = replace(TOY, provides=TOY.provides | {"questions"})
    recipe = grpo.but(reward=Downstream(player="follower", template="{text}"), players__follower=Player(Copy("policy")))
    run = train_toy(recipe, task=task, steps=2)
    start = train_toy(recipe, task=task, steps=1).players["follower"].policy.network.logits
    assert (run.players["follower"].policy.network.logits == start).all()
    assert run.players["follower"].updates == 0


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match="measures is empty"):
        Downstream(Frozen(), player="follower")
    with pytest.raises(UserError, match=r"lacks \{text\}"):
        Downstream(template="{question}", player="follower")
    with pytest.raises(UserError, match=r"AgreedAnswers\.least"):
        AgreedAnswers(0)
