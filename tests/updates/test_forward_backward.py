"""Rows without gradient and gradients carried back: in order, each context once, and only where there is something to carry."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from gradus.testing.methods import BigramPolicy, toy_batch, toy_group
from gradus.types import Key
from gradus.types.signals import EntropyOf, LogProb
from gradus.updates.forward_backward import backward, carry, passes


def contexts():
    return toy_batch(toy_group(1, 0, 0.5, lengths=[1, 3, 2])).contexts


@pytest.mark.parametrize("micro", [1, 2, 3])
def test_rows_come_by_micro_batch_without_a_graph(micro):
    policy, given = BigramPolicy(Key(3), micro=micro), contexts()
    whole = BigramPolicy(Key(3)).evaluate(given, (LogProb(),))[LogProb()].detach()
    found = list(passes(policy, given, (LogProb(),), 0, Key()))
    assert [chosen for chosen, _ in found] == policy.micro_batches(given, 0)
    assert torch.equal(torch.cat([rows[LogProb()] for _, rows in found]), whole)
    assert not any(rows[LogProb()].requires_grad for _, rows in found)


@pytest.mark.parametrize("micro", [1, 2, 3])
def test_what_is_carried_is_the_gradient_of_the_weighted_sum(micro):
    # the loss sum_t (t + 1) log pi_t, t counted over all contexts: its derivative by row t is t + 1
    given, policies = contexts(), (BigramPolicy(Key(3)), BigramPolicy(Key(3), micro=micro))
    rows = policies[0].evaluate(given, (LogProb(),))[LogProb()]
    weights = torch.arange(1, 7, dtype=torch.float64)
    (rows * weights).sum().backward()
    starts = [0, 1, 4, 6]

    def slopes(chosen, found):
        assert not found[LogProb()].requires_grad
        return {LogProb(): torch.cat([weights[starts[i] : starts[i + 1]] for i in chosen])}

    carry(policies[1], given, (LogProb(), EntropyOf()), 0, Key(), slopes)
    assert_close(policies[1].network.logits.grad, policies[0].network.logits.grad, rtol=0, atol=1e-14)


def test_without_slopes_nothing_is_carried():
    policy = BigramPolicy(Key(3))
    carry(policy, contexts(), (LogProb(),), 0, Key(), lambda chosen, rows: None)
    assert policy.network.logits.grad is None
    backward({LogProb(): torch.zeros(2)}, {LogProb(): torch.ones(2)})  # rows without a graph are passed over


def test_a_policy_may_bring_its_own_way():
    class Own(BigramPolicy):
        def passes(self, contexts, wants, micro_tokens, key):
            yield [0], {"own": micro_tokens}

        def carry(self, contexts, wants, micro_tokens, key, slopes):
            slopes([0], {"own": micro_tokens})

    seen = []
    assert list(passes(Own(), contexts(), (), 5, Key())) == [([0], {"own": 5})]
    carry(Own(), contexts(), (), 7, Key(), lambda chosen, rows: seen.append(rows))
    assert seen == [{"own": 7}]
