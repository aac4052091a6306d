"""StreamBP: gradients of SFT, GRPO and DPO in chunks against plain autograd of a whole forward pass, and the numbers of the docstring."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.terms import evaluate, separable
from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.systems.streambp import streambp
from gradus.policies.lm import LanguageModel
from gradus.recipe.core import changes
from gradus.testing.methods import toy_group
from gradus.types import Key
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs
from gradus.updates.minibatches import gradient
from tests.policies.test_pack import decoder, plain_logprobs

REFERENCE = LogProbs(player="reference")


def batch(source="policy"):
    """Two pairs of answers of unequal lengths, with advantages, and log-probabilities of a reference."""
    groups = [toy_group(1, 0, lengths=[9, 13], key="a"), toy_group(0, 1, lengths=[5, 20], key="b")]
    rng = np.random.default_rng(3)
    reference = {t.id: -rng.uniform(1, 6, t.actions) for g in groups for t in g.trajectories}
    credited = [g.but(trajectories=tuple(t.but(advantages=np.full(t.actions, rng.normal()), source=source) for t in g.trajectories)) for g in groups]
    return make_batch(credited, {REFERENCE: reference}, dtype=torch.float64)


def plainly(recipe, made, dtype):
    """The gradient by autograd through the decoder's own forward pass, one context at a time, with the loss in one piece."""
    network = decoder(dtype)
    loss, _ = evaluate(recipe.objective, {LogProb(): plain_logprobs(network, made.contexts).to(made.weight)}, made)
    loss.backward()
    return float(loss.detach()), [p.grad for p in network.parameters()]


@pytest.mark.parametrize("recipe", [sft, grpo, dpo], ids=["sft", "grpo", "dpo"])
@pytest.mark.parametrize("chunks", [1, 4, 7])  # the batch has 44 rows, and 44 is no multiple of 7
def test_gradients_are_those_of_plain_autograd(recipe, chunks):
    made = batch("expert" if recipe is sft else "policy")
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        model = LanguageModel(decoder(dtype), None, (), recompute=chunks)
        metrics = gradient(model, made, recipe.objective, 4096, Key())
        loss, due = plainly(recipe, made, dtype)
        largest = max(float(g.abs().max()) for g in due)
        assert largest > 1e-3
        assert metrics
        for p, g in zip(model.trunk.parameters(), due, strict=True):
            assert_close(p.grad, g, atol=tolerance * max(1, largest), rtol=0)
        rows = model.evaluate(made.contexts, (LogProb(),))
        assert float(evaluate(recipe.objective, {LogProb(): rows[LogProb()].detach().to(made.weight)}, made)[0]) == pytest.approx(loss, abs=tolerance)


def test_dpo_needs_a_pass_without_gradients_first_and_the_others_do_not():
    assert [separable(recipe.objective) for recipe in (sft, grpo, dpo)] == [True, True, False]


def test_the_slope_of_a_pair_is_a_constant():
    """beta sigmoid(-beta m) times the gradient of log pi(y_l) - log pi(y_w), divided by the number of pairs."""
    made = batch()
    network = decoder()
    rows = plain_logprobs(network, made.contexts)
    lengths = [c.actions for c in made.contexts]
    sums = [row.sum() for row in rows.split(lengths)]
    before = [float(np.sum(found)) for found in np.split(np.asarray(made.signals[REFERENCE]), np.cumsum(lengths)[:-1])]
    loss = 0.0
    for better, worse in ((0, 1), (3, 2)):
        margin = float(sums[better].detach()) - before[better] - float(sums[worse].detach()) + before[worse]
        loss = loss + 0.1 / (1 + np.exp(0.1 * margin)) * (sums[worse] - sums[better]) / 2
    due = torch.autograd.grad(loss, list(network.parameters()))
    model = LanguageModel(decoder(), None, (), recompute=4)
    gradient(model, made, dpo.objective, 4096, Key())
    for p, g in zip(model.trunk.parameters(), due, strict=True):
        assert_close(p.grad, g, atol=1e-10, rtol=0)


def test_the_recipe_is_grpo_in_eight_chunks():
    assert changes(grpo, streambp) == {"setting.backward_chunks": 8}
