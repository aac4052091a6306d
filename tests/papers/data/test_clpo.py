"""CLPO: labels, rewrites, the groups that are trained on, the weight of the KL term, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.clpo import ByDifficulty, Restructured, ScriptedRewrite, WrittenRewrite, clpo, difficulty, labelled, rewrite
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.selection.filters import Mixed
from gradus.tasks.text.string_ops import FUNCTIONS, rewritten, string_ops, verify
from gradus.testing.methods import (
    TOY,
    check_micro_batches,
    check_resumes,
    loss_and_gradient,
    scripted_world,
    toy_group,
    weights_after,
)
from gradus.types import Frozen, Key, Problem, Request, UserError


def test_labels_by_hand() -> None:
    found = [difficulty(a) for a in (0, 0.25, 0.3, 0.5, 0.7, 0.75)]
    assert found == ["hard", "hard", "hard", "medium", "medium", "easy"]


def played(rollout, rights, answers=None, task=TOY, written="a"):
    """Groups of 4 answers; `rights` has the numbers of right answers to the originals, `answers` those to the rewrites, in order."""
    counts, order, prompts = {}, {}, []

    def speak(ask):
        request = ask.request
        if "rewrite" in request.tags:
            prompts.append((policy.text(ask.parent.sequence), request.trained))
            return written
        kind = "new" if "rewritten" in request.tags else "old"
        at = order.setdefault((kind, request.problem.id), sum(name[0] == kind for name in order))
        counts[kind, at] = counts.get((kind, at), 0) + 1
        due = (rights if kind == "old" else answers)[at]
        return str(request.problem.answer) if counts[kind, at] <= due else "x"

    world, policy = scripted_world(task, speak, reward=Verified())
    problems = [replace(p, id=f"p{i}", text="c", answer="d") for i, p in enumerate(TOY.source.draw(range(len(rights)), None, Key(0)))]
    groups = asyncio.run(rollout.run([Request(p, count=4) for p in problems], world))
    return groups, asyncio.run(world.aside()), world, prompts


def test_a_batch_trains_on_the_groups_with_mixed_answers() -> None:
    """Originals 0, 0.5 and 1, rewrites 0.25 and 1: two groups are trained on."""
    groups, others, world, prompts = played(clpo.rollout, (0, 2, 4), (1, 4))
    assert [g.accuracy for g in (*groups, *others)] == [0.0, 0.5, 1.0, 0.25, 1.0]
    kept, dropped = clpo.selection.keep([*groups, *others], Key())
    assert [g.accuracy for g in kept] == [0.5, 0.25]
    assert len(dropped) == 3
    assert [{t.links["difficulty"] for t in g.trajectories} for g in (*groups, *others)] == [{"hard"}, {"medium"}, {"easy"}, {"hard"}, {"medium"}]
    assert all(g.aside and t.trained for g in others for t in g.trajectories)
    assert world.notes["rewritten"] == pytest.approx(2 / 3)
    assert world.notes["rewritten/mixed"] == 0.5
    (hard, trained), (medium, _) = prompts
    assert ("more simply" in hard, "other words" in medium, "The answer d" in hard) == (True, True, True)
    assert not trained  # the tokens of a rewrite


def test_rewrites_without_a_checking_task() -> None:
    deaf = replace(TOY, proposed=None)
    world, _ = scripted_world(deaf, lambda ask: "b")
    problem = Problem("p", "toy", text="c to d", answer="D")
    assert [rewrite(problem, text, world) for text in ("", " ", "c to  d", "so d it is")] == [None] * 4
    made = rewrite(problem, " an  indeed ", world)
    assert made is not None
    assert (made.text, made.answer, made.id) == ("an indeed", "D", "p-rewritten")
    chat = rewrite(Problem("p", "toy", messages=({"role": "user", "content": "q"},), answer=1), "r", world)
    assert chat is not None
    assert (chat.question, chat.text) == ("r", None)
    _, others, world, _ = played(clpo.rollout, (0, 0), (), task=deaf, written="d")  # both contain the answer
    assert (others, world.notes["rewritten"]) == ([], 0.0)


def test_a_rewrite_of_string_ops_keeps_the_answer() -> None:
    for p in string_ops().source.draw(range(30), 4, Key(0)):
        simple, longer = rewritten(p, "step"), rewritten(p, " twice ")
        assert simple is not None
        assert longer is not None
        assert (simple.question.count("("), longer.question.count("(")) == (3, 6)
        for made in (simple, longer):
            value = made.question
            *names, word = value.rstrip(")").split("(")
            for name in reversed(names):
                word = FUNCTIONS[name](word)
            assert verify(made, f"={word}") == 1.0
            assert made.id != p.id
            assert "solution" not in made.meta
        assert rewritten(p, "other") is None
    (single,) = string_ops().source.draw([0], 1, Key(0))
    assert rewritten(single, "step") is None


def test_the_kl_weight_by_hand() -> None:
    """The gradient of the KL term of a hard answer is half of that of another one."""
    def gradient(term, label):
        group = labelled(toy_group(1, 0), label)
        given = {term.needs[0]: {t.id: [0.0, 0.0] for t in group.trajectories}}
        return loss_and_gradient({"kl": term}, [group], [0.5] * 4, advantages=[1, -1], signals=given)[1]

    ours = clpo.objective["kl"]
    assert gradient(ours, "hard") == pytest.approx(gradient(KL(0.0005), "hard"))
    assert gradient(ours, "easy") == gradient(ours, "medium") == pytest.approx(gradient(KL(0.001), "easy"))
    assert gradient(ours, "hard") != pytest.approx(gradient(ours, "easy"))


def test_without_labels_it_is_grpo_on_mixed_groups() -> None:
    ours = clpo.but(rollout=Restructured(hard=-1, medium=-1), setting__group=8)
    base = grpo.but(selection=Mixed(), objective__kl=KL(0.001), setting__group=8)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (ours, base))
    assert torch.equal(one, other)
    assert not torch.equal(weights_after(clpo.but(setting__group=8), steps=3)["policy.logits"], one)
    check_micro_batches(clpo)
    check_resumes(clpo, steps=2, after=1)


def test_the_papers_numbers_and_what_is_refused() -> None:
    assert clpo.rollout == Restructured(Auto(), WrittenRewrite(), hard=0.3, medium=0.7)
    assert clpo.objective["kl"] == KL(0.001, weight=ByDifficulty(Frozen(hard=0.5)))
    assert (clpo.selection, clpo.setting.group) == (Mixed(), 4)
    assert isinstance(clpo.rollout.test, Auto)
    assert asyncio.run(ScriptedRewrite().texts([(None, "hard"), (None, "medium")], None)) == ["step", "twice"]
    with pytest.raises(UserError, match=r"which is above Restructured\.medium"):
        Restructured(hard=0.8)
    with pytest.raises(UserError, match=r"does not contain \{problem\}"):
        WrittenRewrite(hard="simpler")
