"""A player as judge: prompts, several texts, soft verdicts by hand, and prompts that do not fit."""

from __future__ import annotations

import asyncio
import math

import pytest

from gradus.rewards.judged import Judged
from gradus.rewards.player_judge import TOO_LONG, PlayerJudge, prompt_of
from gradus.rewards.verdicts import Better, Case, YesNo
from gradus.testing.methods import TOY, scripted_world
from gradus.types import Problem, UserError
from gradus.types.players import Player

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


def test_a_soft_verdict_by_hand():
    # log-probabilities: yes -0.2, no -2: yes is likelier, so 0.8187; then yes -3, no -0.5: 1 - 0.6065
    world, _ = scripted_world(TOY, lambda ask: "")
    world.players["judge"] = world.players["policy"]
    rows = iter([[-0.1, -0.1, 0.0, 0.0], [-2.0, 0.0, 0.0], [-3.0, 0, 0, 0], [-0.5, 0, 0]])
    asked = []

    async def score(contexts, want, player):
        import numpy as np

        asked.extend((world.text(c.sequence, player), c.actions) for c in contexts)
        return [np.array(next(rows), np.float32) for _ in contexts]

    world.score = score
    found = asyncio.run(PlayerJudge(soft=True).decide(FORM, CASES[:2], world))
    assert found == [(pytest.approx(math.exp(-0.2)),), (pytest.approx(1 - math.exp(-0.5)),)]
    assert asked == [("good?yes", 4), ("good?no", 3), ("bad?yes", 4), ("bad?no", 3)]  # the end token counts


def test_a_soft_verdict_of_a_real_policy():
    from gradus import load_recipe
    from gradus.testing.methods import train_toy

    rows = []
    recipe = load_recipe("grpo").derive(
        "soft", "x", reward=Judged(PlayerJudge(soft=True), YesNo(template="{answer}", yes="a", no="b")), players__judge=Player()
    )
    train_toy(recipe, steps=1, watch=lambda run, row, groups: rows.extend(t.reward for g in groups for t in g.trajectories))
    assert rows
    assert all(0 < r < 1 for r in rows)


def test_prompts_and_refusals():
    assert prompt_of(FORM, CASES[0]) == "good?"
    chat = Problem("p", "p", ({"role": "user", "content": "q"},))
    assert prompt_of(FORM, Case("c", chat, ("x",))) == ({"role": "user", "content": "x?"},)
    with pytest.raises(UserError, match="soft"):
        asyncio.run(PlayerJudge(soft=True).decide(Better(), [Case("c", TEXT, ("x", "y"))], decided(PlayerJudge(), lambda *a: "", [])[2]))
    with pytest.raises(UserError, match="samples"):
        PlayerJudge(samples=0)
