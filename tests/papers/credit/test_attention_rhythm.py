from __future__ import annotations

import numpy as np
import torch
from torch.testing import assert_close

from gradus.papers.bases.grpo import grpo
from gradus.papers.credit.attention_rhythm import (
    PlanAndAnchor,
    Rhythm,
    attention_rhythm,
    coupled,
    largest,
)
from gradus.policies.lm import LanguageModel
from gradus.testing.methods import advantages_of, toy_group, train_toy, weights_after
from gradus.types import Context, prompt_context
from gradus.types.attention import fai, waad
from gradus.types.signals import Read
from tests.policies.shapes import ours

SIGNAL = Read(reads=Rhythm())


def chain(length: int) -> torch.Tensor:
    """Every position attends to the one before it, the first to itself."""
    found = torch.zeros(length, length, dtype=torch.float64)
    found[torch.arange(length), (torch.arange(length) - 1).clamp(min=0)] = 1
    return found


def first(length: int) -> torch.Tensor:
    found = torch.zeros(length, length, dtype=torch.float64)
    found[:, 0] = 1
    return found


def test_local_and_global_heads_are_told_apart_by_distance():
    heads = torch.stack([first(30), chain(30), first(30) * 0.5 + chain(30) * 0.5])
    reply = torch.arange(3, 30)
    found = Rhythm().of(heads, reply)  # 30 percent of three heads, rounded up: one local, one global
    assert_close(found[:, 0], waad(chain(30), reply, window=10))
    assert_close(found[:, 1], fai(first(30), reply, near=10, far=50))


def test_gamma_by_hand():
    """Anchors 2 and 5 of six tokens. Token 2 looks back little and follows a large step at 1: dominated. Token 5 looks back far."""
    distances, influence = np.array([1.0, 5.0, 1.0, 1.0, 1.0, 4.0]), np.array([0.0, 0.0, 9.0, 0.0, 0.0, 8.0])
    # steps 4 4 0 0 3 0, median 1.5; median distance 1; of the equal steps 0 and 1 the earlier is the argmax
    gamma = coupled(distances, influence, amp=1.5, alpha=0.5, share=2 / 6)
    assert gamma.tolist() == [1.25, 1.0, 1.25, 1.0, 1.0, 1.5]
    # anchors 1 and 3; 1 looks back far, and its step 4 is the largest before 3: both parts add up, 1 + 0.5 + 0.25
    added = coupled(np.array([3.0, 5.0, 1.0, 1.0, 1.0, 1.0]), np.array([0.0, 9.0, 0.0, 8.0, 0.0, 0.0]), amp=1.5, alpha=0.5, share=2 / 6)
    assert added.tolist() == [1.0, 1.75, 1.0, 1.25, 1.0, 1.0]
    assert PlanAndAnchor("local", share=2 / 6).gamma(distances, influence).tolist() == [1.5, 1.5, 1.0, 1.0, 1.0, 1.0]
    assert PlanAndAnchor("global", share=2 / 6).gamma(distances, influence).tolist() == [1.0, 1.0, 1.5, 1.0, 1.0, 1.5]


def test_an_anchor_that_also_introduces_a_later_one_has_both_gains():
    """Token 1 is a free anchor (it looks back far) and the preplan token of the dominated anchor 2: 1 + 0.5 + 0.25."""
    distances, influence = np.array([1.0, 9.0, 1.0, 1.0, 1.0]), np.array([0.0, 9.0, 8.0, 0.0, 0.0])
    distances[0] = 2.0  # steps 7 8 0 0 0: the largest before token 2 is that at 1
    assert coupled(distances, influence, amp=1.5, alpha=0.5, share=0.4).tolist() == [1.0, 1.75, 1.25, 1.0, 1.0]


def test_a_token_that_introduces_two_anchors_has_its_part_once():
    """Both 2 and 3 look back little and follow the largest step, 8 at token 1: the introductory tokens are a set."""
    distances, influence = np.array([2.0, 9.0, 1.0, 1.0, 1.0]), np.array([0.0, 0.0, 9.0, 8.0, 0.0])
    assert coupled(distances, influence, amp=1.5, alpha=0.5, share=0.4).tolist() == [1.0, 1.25, 1.25, 1.25, 1.0]


def test_shares_are_rounded_up_and_ties_go_to_the_earlier():
    assert largest(np.array([1.0, 3.0, 3.0, 2.0, 3.0]), 0.4).tolist() == [1, 2]
    assert largest(np.array([1.0]), 0.4).tolist() == [0]


def test_negative_advantages_are_never_scaled():
    group = toy_group(1, 0, lengths=[5, 5])
    rows = np.stack([np.array([2.0, 9.0, 1.0, 1.0, 1.0]), np.array([0.0, 9.0, 8.0, 0.0, 0.0])], 1)
    signals = {attention_rhythm.credit.factor.needs[0]: {t.id: rows for t in group.trajectories}}
    assert advantages_of(attention_rhythm.credit, group, signals=signals) == [[[1.0, 1.75, 1.25, 1.0, 1.0], [-1.0] * 5]]
    later = attention_rhythm.but(credit__factor__only_positive=False, credit__factor__reads__far=100)  # the later version of the paper
    signals = {later.credit.factor.needs[0]: next(iter(signals.values()))}
    assert advantages_of(later.credit, group, signals=signals) == [[[1.0, 1.75, 1.25, 1.0, 1.0], [-1.0, -1.75, -1.25, -1.0, -1.0]]]


def test_the_clip_acts():
    """16 updates per batch: after the first the ratio leaves 1."""
    assert attention_rhythm.update.count == 16
    assert train_toy(attention_rhythm, steps=1).metrics[0]["ratio"] != 1.0


def test_an_amplitude_of_1_is_grpo():
    plain = grpo.but(objective__kl=None, players__reference=None, update__count=16)
    assert_close(weights_after(attention_rhythm.but(credit__factor__amp=1.0)), weights_after(plain), rtol=0, atol=0)


def test_the_weights_act():
    moved, plain = (train_toy(attention_rhythm.but(credit__factor__amp=amp), steps=2) for amp in (1.5, 1.0))
    pairs = zip(moved.players["policy"].parameters, plain.players["policy"].parameters, strict=True)
    assert any(not torch.equal(a, b) for a, b in pairs)


def test_the_rows_do_not_depend_on_what_stands_beside():
    model = LanguageModel(ours("llama", torch.float64), None, ())
    rng = np.random.default_rng(0)
    prompt = prompt_context(rng.integers(3, 90, 6))
    contexts = [Context(rng.integers(3, 90, n).astype(np.int32), np.ones(n, bool), parent=(prompt, 6)) for n in (4, 31, 17)]
    want = Rhythm()
    together = model.evaluate(contexts, (want,))[want]
    alone = torch.cat([model.evaluate([c], (want,))[want] for c in contexts])
    assert torch.equal(together, alone)
    assert together.shape == (52, 2)
    assert not together.requires_grad
    assert (together[:, 0] > 0).all()
    assert (together[:4, 1] == 0).all()  # no token is ten later
    assert (together[4:20, 1] > 0).all()
