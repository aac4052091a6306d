"""The divergence of a model from another player, over the whole vocabulary, against whole logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus import load_recipe
from gradus.objectives.kl import Distillation
from gradus.policies import logprobs
from gradus.policies.lm import LanguageModel
from gradus.policies.opened import their_logits
from gradus.policies.transformers_model import Foreign
from gradus.testing.methods import toy_run, train_toy
from gradus.training.launch import go
from gradus.types import UserError
from gradus.types.players import Copy, Player
from gradus.types.readers import DivergenceFrom, LogProbRow
from gradus.types.signals import EntropyOf, LogProb
from tests.policies.contexts import mixed
from tests.policies.shapes import fields, ours, theirs

CONTEXTS = mixed(np.random.default_rng(0))
WANTS = tuple(DivergenceFrom("teacher", way) for way in ("reverse", "forward"))
MODELS = {
    "built": lambda shape: LanguageModel(ours(shape, torch.float64), None, ()),
    "foreign": lambda shape: LanguageModel(Foreign(theirs(fields(shape)).double()), None, ()),
}


def pair(kind: str, teacher: str = "qwen3", teaches: str = "built") -> tuple[LanguageModel, LanguageModel]:
    student, other = MODELS[kind]("llama"), MODELS[teaches](teacher)
    student.others.update(policy=student, teacher=other)
    return student, other


def exactly(student: LanguageModel, teacher: LanguageModel) -> dict:
    p = student.evaluate(CONTEXTS, [LogProbRow()])[LogProbRow()]
    q = teacher.evaluate(CONTEXTS, [LogProbRow()])[LogProbRow()].detach()
    return dict(zip(WANTS, ((p.exp() * (p - q)).sum(1), (q.exp() * (q - p)).sum(1)), strict=True))


@pytest.mark.parametrize("rows", [3, 128])
@pytest.mark.parametrize(("kind", "teaches"), [("built", "built"), ("foreign", "built"), ("built", "foreign")])
def test_rows_and_gradients_are_those_of_whole_logits(kind, teaches, rows, monkeypatch):
    monkeypatch.setattr(logprobs, "_CELLS", 1)
    monkeypatch.setattr(logprobs, "_ROWS", rows)
    student, teacher = pair(kind, teaches=teaches)
    weights = [p for p in student.network.parameters() if p.requires_grad]
    plain = exactly(student, teacher)
    found = student.evaluate(CONTEXTS, [*WANTS, LogProb(), EntropyOf()])
    up = torch.linspace(-1, 2, len(found[LogProb()]), dtype=torch.float64)
    for want in WANTS:
        assert_close(found[want], plain[want], atol=1e-9, rtol=0)
        mine, due = (torch.autograd.grad((r[want] * up).sum(), weights, retain_graph=True, allow_unused=True) for r in (found, plain))
        for a, b in zip(mine, due, strict=True):
            assert_close(a, b, atol=1e-6, rtol=0)
    assert all(p.grad is None for p in teacher.network.parameters())


def test_other_rows_do_not_change():
    student, _ = pair("built")
    alone = student.evaluate(CONTEXTS, [LogProb(), EntropyOf()])
    beside = student.evaluate(CONTEXTS, [LogProb(), WANTS[0], EntropyOf()])
    assert_close(beside[LogProb()], alone[LogProb()], atol=1e-12, rtol=0)
    assert_close(beside[EntropyOf()], alone[EntropyOf()], atol=1e-12, rtol=0)


def test_tokens_that_only_the_teacher_has_are_left_out():
    _, teacher = pair("built")
    opened = teacher.opened([c for c in CONTEXTS if c.actions], frozenset())
    whole, most = opened.predicted(slice(0, 3)), teacher.vocabulary
    assert torch.equal(their_logits(opened, most - 5, slice(0, 3)), whole[:, :-5])
    with pytest.raises(UserError, match="the other player has only"):
        their_logits(opened, most + 1, slice(0, 3))


def test_an_unknown_player_is_refused():
    student, _ = pair("built")
    with pytest.raises(UserError, match="does not offer DivergenceFrom, which needs divergence:reverse:judge; add a language model with the same tokenizer"):
        student.evaluate(CONTEXTS, [DivergenceFrom("judge")])
    with pytest.raises(UserError, match="direction is"):
        DivergenceFrom("teacher", "sideways")  # type: ignore[arg-type]


def distilled(**fields):
    return load_recipe("reinforce").derive(
        "distilled", "Only the divergence from a teacher.", objective={"teacher": Distillation(**fields)}, players__teacher=Player(model=Copy("policy"))
    )


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_a_toy_student_comes_to_its_teacher(direction):
    recipe = distilled(direction=direction)
    run = toy_run(recipe, steps=20)
    with torch.no_grad():
        run.players["teacher"].policy.network.logits.mul_(0.5)
    seen = []
    run.on_step = lambda run, metrics, groups: seen.append(metrics["distillation"])
    go(run)
    assert seen[0] > 0.05
    assert seen[-1] < seen[0] / 3


def test_the_micro_batch_changes_nothing():
    weights = [train_toy(distilled(), micro=micro).players["policy"].policy.network.logits for micro in (1, None)]
    assert_close(weights[0], weights[1], atol=1e-12, rtol=0)
