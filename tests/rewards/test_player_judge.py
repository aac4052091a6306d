"""A player as judge: prompts, several texts, and prompts that do not fit."""

from __future__ import annotations

import asyncio

import pytest

from gradus.rewards.player_judge import TOO_LONG, PlayerJudge, prompt_of
from gradus.rewards.verdicts import Case, YesNo
from gradus.testing.methods import TOY, scripted_world
from gradus.types import Problem, UserError

TEXT = Problem("p/0", "p", text="q")
CASES = [Case(f"c{i}", TEXT, (text,)) for i, text in enumerate(("good", "bad", "odd"))]
FORM = YesNo(template="{answer}?")


def decided(judge, say, cases=CASES, **options):
    prompts = []

    def speak(ask):
        prompts.append(policy.text(ask.parent.sequence))
        return say(ask, prompts[-1])

    world, policy = scripted_world(TOY, speak, **options)
    world.players["judge"] = world.players["policy"]
    return asyncio.run(judge.decide(FORM, cases, world)), prompts, world


def test_the_judge_reads_the_template_alone():
    found, prompts, world = decided(PlayerJudge(), lambda ask, prompt: {"good?": "yes", "bad?": "no"}.get(prompt, "hm"))
    assert found == [(1.0,), (0.0,), None]
    assert prompts == ["good?", "bad?", "odd?"]
    assert set(world.spent) == {"probe", "probe/judge"}


def test_several_texts_vote():
    texts = iter(["yes", "no", "hm", "yes"])
    found, _, _ = decided(PlayerJudge(samples=4, temperature=1.0), lambda ask, prompt: next(texts), CASES[:1])
    assert found == [(2 / 3,)]


def test_a_prompt_that_does_not_fit_fails():
    found, prompts, _ = decided(PlayerJudge(), lambda ask, prompt: "yes", [CASES[0], Case("c", TEXT, ("long" * 9,))], context_length=20)
    assert found == [(1.0,), TOO_LONG]
    assert prompts == ["good?"]


def test_prompts_and_refusals():
    assert prompt_of(FORM, CASES[0]) == "good?"
    chat = Problem("p", "p", ({"role": "user", "content": "q"},))
    assert prompt_of(FORM, Case("c", chat, ("x",))) == ({"role": "user", "content": "x?"},)
    with pytest.raises(UserError, match="samples"):
        PlayerJudge(samples=0)
