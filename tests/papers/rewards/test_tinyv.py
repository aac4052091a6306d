"""TinyV: repaired rewards and the number of calls by hand, silent groups, and GRPO if the rule makes no error."""

from __future__ import annotations

import asyncio
import itertools

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.tinyv import VERDICT, silent, tinyv
from gradus.recipe.core import changes
from gradus.rewards.cascade import Cascade
from gradus.rewards.judged import Judged
from gradus.rewards.scripted_judge import ScriptedJudge
from gradus.rewards.verdicts import Case
from gradus.testing.methods import TOY, check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Group, Problem


def judged(say, *completions):
    """The rewards, and the prompts of the verifier. The rule accepts only the completion "right"."""
    asked = []
    world, policy = scripted_world(TOY, lambda ask: say(asked.append(policy.text(ask.parent.sequence)) or asked[-1]))
    world.players["verifier"] = world.players["policy"]
    problem = toy_trajectory([2]).problem
    rows = tuple(toy_trajectory([2], name=f"t/{i}").but(completion=c, problem=problem) for i, c in enumerate(completions))
    ((*found,),) = asyncio.run(Cascade(tinyv.reward.then, RULE).score([Group("g", rows)], {}, world))
    return [j.reward for j in found], asked


class _Rule:
    name, needs = "rule", ()

    async def score(self, groups, signals, world):
        from gradus.types.parts import Judgement

        return [[Judgement(float(t.completion == "right")) for t in g.trajectories] for g in groups]


RULE = _Rule()


def test_rejected_answers_alone_reach_the_verifier():
    rewards, asked = judged(lambda prompt: "True" if "answer: other\n" in prompt else "False", "right", "so = other", "bad", "worse")
    assert rewards == [1.0, 1.0, 0.0, 0.0]
    assert len(asked) == 3
    assert "Model answer: other\n" in asked[0]  # the final answer alone
    assert not any("right" in prompt for prompt in asked)


def test_texts_without_a_verdict_and_answers_without_an_end():
    rewards, asked = judged(lambda prompt: "hm", "bad", "1+1=", "")
    assert rewards == [0.0, 0.0, 0.0]
    assert len(asked) == 1


def test_silent_groups():
    assert silent(0.5, 0.5, 4) == pytest.approx(0.75**4) == pytest.approx(0.3164, abs=1e-4)
    assert silent(0.5, 0.0, 4) == 0.0625
    every = list(itertools.product((0, 1), repeat=3))  # by counting: two right answers of 3 on average, no rejection
    assert silent(0.5, 0.0, 3) == sum(not any(row) for row in every) / len(every)


def test_the_prompt_and_the_words():
    prompt = VERDICT.prompt(Case("c", Problem("p", "p", text="1/2?", answer="1/2"), ("0.5",)))
    assert prompt.startswith("Question: 1/2?\nReference answer: 1/2\nModel answer: 0.5\n")
    assert [VERDICT.read(text, None) for text in ("True", "false.", "both", "not true, so False")] == [(1.0,), (0.0,), None, (0.0,)]


def test_without_errors_of_the_rule_it_is_grpo():
    scripted = tinyv.but(reward=Cascade(Judged(ScriptedJudge())))
    base = grpo.but(objective__kl__coefficient=0.001, update__count=2)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (scripted, base))
    assert torch.equal(one, other)
    fooled = tinyv.but(reward=Cascade(Judged(ScriptedJudge(fooled=0.5))))
    assert not torch.equal(weights_after(fooled, steps=3)["policy.logits"], other)
    assert set(changes(grpo, tinyv)) == {"reward", "players.verifier", "objective.kl.coefficient", "update.count"}
    check_micro_batches(tinyv)
