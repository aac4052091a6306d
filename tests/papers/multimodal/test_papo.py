"""PAPO: numbers of the perception term, its gradients, and the base at the limits of its fields."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.multimodal.papo import Perception, papo, perception
from gradus.policies.lm import LanguageModel
from gradus.policies.tiny import folder
from gradus.recipe.core import changes
from gradus.tasks.pictures.shapes import shapes
from gradus.testing.methods import check_bound_acts, toy_group
from gradus.types import Context, Key, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs, Viewed
from gradus.types.views import Masked
from gradus.updates.forward_backward import evaluated
from gradus.updates.minibatches import Minibatches


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


SEEN, MASKED = numbers(math.log(0.8), math.log(0.5), math.log(0.2)), numbers(math.log(0.4), math.log(0.5), math.log(0.4))  # r = 2, 1, 1/2


def neutral():
    """A batch of three actions whose advantages are zero."""
    made = toy_group(1.0, lengths=[3])
    return make_batch([made.but(trajectories=(made.trajectories[0].but(advantages=np.zeros(3)),))], dtype=torch.float64)


def test_the_term_by_hand():
    # paper: r - log r - 1 at 2, 1, 1/2; released: 1/r + log r - 1, the same numbers the other way round
    high, low = 1 - math.log(2), math.log(2) - 0.5  # 0.30685, 0.19315
    assert (round(high, 5), round(low, 5)) == (0.30685, 0.19315)
    assert_close(perception(SEEN, MASKED, form="paper"), numbers(high, 0.0, low))
    assert_close(perception(SEEN, MASKED, form="released"), numbers(low, 0.0, high))


def test_far_ratios_are_bounded_and_have_no_gradient():
    seen = numbers(-30.0, -15.0, -1.0).requires_grad_()
    terms = perception(seen, numbers(0.0, 0.0, 0.0), form="released")  # exp(15) - 16 and exp(20) - 21 are above 10
    assert_close(terms, numbers(10.0, 10.0, math.e - 2))
    terms.sum().backward()
    assert_close(seen.grad, numbers(0.0, 0.0, 1 - math.e))  # d/ds (exp(-s) + s - 1) = 1 - exp(-s)


def test_loss_and_gradients_by_hand():
    batch = neutral()
    seen, masked = SEEN.clone().requires_grad_(), MASKED.clone().requires_grad_()
    term = Perception(gamma=0.5, eta_seen=0.1, eta_masked=0.2)
    loss, metrics = term.loss({LogProb(): seen, term.masked: masked}, batch)
    # mean of the terms: (log 2 - 1/2 + 0 + 1 - log 2) / 3 = 1/6; entropies -mean log
    entropies = -(math.log(0.08) * 0.1 + math.log(0.08) * 0.2) / 3
    assert_close(loss, torch.tensor(-0.5 / 6 + entropies, dtype=torch.float64))
    assert metrics["kl_prcp"].mean == pytest.approx(1 / 6)
    loss.backward()
    # d term / d seen = 1 - 1/r = 1/2, 0, -1; with the other sign for the masked view
    assert_close(seen.grad, numbers(*(-0.5 * s - 0.1 for s in (0.5, 0.0, -1.0))) / 3)
    assert_close(masked.grad, numbers(*(0.5 * s - 0.2 for s in (0.5, 0.0, -1.0))) / 3)
    # more difference lowers the loss: descending moves the seen view up where r > 1
    assert seen.grad[0] < seen.grad[1] < seen.grad[2]


def test_a_constant_masked_view_has_the_value_and_no_gradient():
    batch = neutral()
    seen, masked = SEEN.clone().requires_grad_(), MASKED.clone().requires_grad_()
    free, held = (replace(Perception(), constant=c) for c in (False, True))
    values = [t.loss({LogProb(): seen, t.masked: masked}, batch)[0] for t in (free, held)]
    assert values[0] == values[1]
    values[1].backward()
    assert masked.grad is None
    old = replace(batch, old={held.masked: MASKED - 1})  # within an update of several steps: those of its start
    moved, _ = held.loss({LogProb(): seen, held.masked: masked}, old)
    assert moved != values[1]


@pytest.fixture(scope="module")
def model():
    return LanguageModel.load(folder("sighted"))


def answers(model, count=3):
    """Two groups of answers about two pictures, as a batch of GRPO's."""
    groups = []
    for number, problem in enumerate(shapes(3).source.draw(range(2), None, Key(5))):
        prompt = model.opening(problem.messages)
        made = toy_group(*range(count), lengths=[2] * count)
        at, sampled = (prompt, len(prompt.tokens)), np.full(2, -1.0, np.float32)
        tokens = [np.array([40 + i, 4], np.int32) for i in range(count)]
        contexts = [Context(t, np.ones(2, bool), sampled, np.zeros(2, np.int32), parent=at) for t in tokens]
        rows = tuple(t.but(id=f"{number}-{i}", contexts=(c,), advantages=np.full(2, float(i - 1))) for i, (t, c) in enumerate(zip(made.trajectories, contexts)))
        groups.append(made.but(key=str(number), trajectories=rows))
    return make_batch(groups)


def slopes_of(model, batch, objective):
    model.network.zero_grad()
    wants = tuple(dict.fromkeys(w for term in objective.values() for w in term.wants))
    rows = evaluated(model, batch.contexts, wants, Key(3))
    batch = replace(batch, signals={LogProbs(player="reference"): rows[LogProb()].detach() - 0.1})
    loss, metrics = evaluate(objective, dict(rows), batch)
    loss.backward()
    return loss.detach(), {n: p.grad.clone() for n, p in model.network.named_parameters() if p.grad is not None}, metrics


def test_without_its_terms_it_is_grpo(model):
    """Loss and every gradient, to the bit; and the method acts: with its terms the tower's gradient differs."""
    batch = answers(model)
    base = {**grpo.objective, "kl": papo.objective["kl"]}
    assert {**papo.objective, "policy": grpo.objective["policy"], "perception": None} == {**base, "perception": None}
    off = {**base, "perception": Perception(gamma=0, eta_seen=0, eta_masked=0)}
    loss, slopes, _ = slopes_of(model, batch, base)
    loss_off, slopes_off, _ = slopes_of(model, batch, off)
    assert loss == loss_off
    assert slopes.keys() == slopes_off.keys()
    assert all(torch.equal(slopes[n], slopes_off[n]) for n in slopes)
    loss_on, slopes_on, metrics = slopes_of(model, batch, dict(papo.objective))
    assert loss_on != loss
    assert metrics["kl_prcp"].mean > 0.01  # the masked view differs
    assert not torch.equal(slopes["tower.embeddings.patch_embedding.weight"], slopes_on["tower.embeddings.patch_embedding.weight"])


def test_a_mask_of_nothing_gives_zero_for_all_tokens(model):
    batch = answers(model)
    rows = evaluated(model, batch.contexts, (LogProb(), Viewed(LogProb(), Masked(0.0))), Key(3))
    seen, masked = rows.values()
    assert torch.equal(seen, masked)
    assert perception(seen, masked, form="released").tolist() == [0.0] * batch.actions


def test_one_masked_picture_per_prompt_is_encoded_once(model):
    batch = answers(model)
    with torch.no_grad():
        evaluated(model, batch.contexts, (LogProb(),), Key(3))
        before = model.trunk.encoded.count
        evaluated(model, batch.contexts, (LogProb(), Viewed(LogProb(), Masked(0.6, 12))), Key(4))
    assert model.trunk.encoded.count == before + 2  # two prompts of three answers


def test_the_published_numbers():
    term = papo.objective["perception"]
    assert (term.gamma, term.eta_seen, term.eta_masked, term.view) == (0.02, 0.05, 0.05, Masked(0.6, 14))
    assert papo.objective["kl"].coefficient == 0.01
    assert (papo.objective["policy"].trust, papo.update) == (Clip(0.2, 0.3), Minibatches(count=3))
    assert set(changes(grpo, papo)) == {"objective.policy.trust.high", "objective.kl.coefficient", "objective.perception", "update.count", "requires"}


def test_a_batch_is_cut_into_three_and_the_clip_acts():
    check_bound_acts(papo, updates=3)
    with pytest.raises(UserError, match=r"unknown form .*did you mean paper"):
        Perception(form="papers")
