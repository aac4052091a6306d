from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from gradus.policies.divergence import Other
from gradus.policies.logprobs import logits_logprobs, token_logprobs, token_rows


def inputs(dtype=torch.float64, actions=7, width=5, vocab=11):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(actions, width, dtype=dtype, generator=generator).requires_grad_()
    weight = torch.randn(vocab, width, dtype=dtype, generator=generator).requires_grad_()
    targets = torch.randint(0, vocab, (actions,), generator=generator)
    temperature = torch.linspace(0.5, 1.7, actions, dtype=dtype)
    return hidden, weight, targets, temperature


def test_by_hand():
    # logits (ln 1, ln 3): p = 1/4, 3/4; at temperature 1/2 they double: p = 1/10, 9/10
    weight = torch.tensor([[0.0], [math.log(3)]])
    logprobs, entropy = token_logprobs(torch.ones(2, 1), weight, torch.tensor([0, 1]), torch.tensor([1.0, 0.5]))
    assert_close(logprobs, torch.tensor([math.log(1 / 4), math.log(9 / 10)]))
    # -(1/4 ln 1/4 + 3/4 ln 3/4) = 0.562335; -(0.1 ln 0.1 + 0.9 ln 0.9) = 0.325083
    assert_close(entropy, torch.tensor([0.562335, 0.325083]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("cells", [1, 22, 1 << 22])  # 1, 2 and all actions at a time
def test_chunks_are_the_plain_formula(cells):
    hidden, weight, targets, temperature = inputs()
    plain = logits_logprobs(hidden @ weight.T, targets, temperature)
    chunked = token_logprobs(hidden, weight, targets, temperature, cells=cells)
    assert_close(chunked, plain, atol=1e-12, rtol=0)
    up = torch.linspace(-1, 2, 7, dtype=torch.float64)
    gradients = [torch.autograd.grad((a * up).sum() + (b * up.flip(0)).sum(), (hidden, weight)) for a, b in (chunked, plain)]
    assert_close(gradients[0], gradients[1], atol=1e-12, rtol=0)


def test_gradients_are_those_of_finite_differences():
    hidden, weight, targets, temperature = inputs(actions=3, vocab=4)
    assert torch.autograd.gradcheck(lambda h, w: token_logprobs(h, w, targets, temperature, cells=4), (hidden, weight))
    assert torch.autograd.gradcheck(lambda h, w: token_logprobs(h, w, targets, temperature)[1], (hidden, weight))
    assert torch.autograd.gradcheck(lambda h, w: token_logprobs(h, w, targets, temperature, entropy=False)[0], (hidden, weight))


def test_softened_logits():
    # logit 2 becomes 3 tanh(2 / 3) = 1.748348, against 0: log p = -ln(1 + e^-1.748348) = -0.160469
    found, _ = token_logprobs(torch.tensor([[2.0]]), torch.tensor([[1.0], [0.0]]), torch.tensor([0]), torch.ones(1), cap=3.0)
    assert_close(found, torch.tensor([-0.160469]), atol=1e-6, rtol=0)
    hidden, weight, targets, temperature = inputs()
    plain = logits_logprobs(1.5 * torch.tanh(hidden @ weight.T / 1.5), targets, temperature)
    assert_close(token_logprobs(hidden, weight, targets, temperature, cells=22, cap=1.5), plain, atol=1e-12, rtol=0)
    hidden, weight, targets, temperature = inputs(actions=3, vocab=4)
    assert torch.autograd.gradcheck(lambda h, w: token_logprobs(h, w, targets, temperature, cells=4, cap=1.5), (hidden, weight))


def test_extreme_logits_stay_finite():
    hidden = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0], [0.0]], requires_grad=True)
    logprobs, entropy = token_logprobs(hidden, weight, torch.tensor([0, 0]), torch.ones(2))
    assert_close(logprobs, torch.tensor([0.0, -2e4]))
    assert_close(entropy, torch.zeros(2))
    (logprobs.sum() + entropy.sum()).backward()
    assert bool(torch.isfinite(hidden.grad).all() and torch.isfinite(weight.grad).all())


def test_bfloat16_gives_float32():
    hidden, weight, targets, temperature = inputs(torch.float32)
    exact = token_logprobs(hidden, weight, targets, temperature)[0]
    rough = token_logprobs(hidden.bfloat16(), weight.bfloat16(), targets, temperature)[0]
    assert rough.dtype == torch.float32
    assert (rough - exact).abs().max() < 0.1
    assert not torch.equal(rough, exact)


def other(direction, *, vocab=11, actions=7, cap=None):
    """Another model with a width of its own, and its logits at the temperature of the actions."""
    generator = torch.Generator().manual_seed(1)
    states, head = (torch.randn(n, 3, dtype=torch.float64, generator=generator) for n in (actions, vocab))
    logits = states @ head.T / torch.linspace(0.5, 1.7, actions, dtype=torch.float64).unsqueeze(1)
    return Other(lambda part: logits[part].clone(), direction), logits


def exactly(direction, logits, theirs):
    p, q = logits.log_softmax(1), theirs.log_softmax(1)
    return (p.exp() * (p - q)).sum(1) if direction == "reverse" else (q.exp() * (q - p)).sum(1)


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_a_divergence_by_hand(direction):
    # p = 1/4, 3/4 and q = 1/2, 1/2: KL(p || q) = 1/4 ln 1/2 + 3/4 ln 3/2 = 0.130812; KL(q || p) = 1/2 ln 2 + 1/2 ln 2/3 = 0.143841
    expected = {"reverse": 0.130812, "forward": 0.143841}[direction]
    weight = torch.tensor([[0.0], [math.log(3)]])
    it = Other(lambda part: torch.zeros(1, 2)[part], direction)
    found = token_rows(torch.ones(1, 1), weight, torch.tensor([0]), torch.ones(1), others=[it])[2][0]
    assert_close(found, torch.tensor([expected]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("cap", [None, 1.5])
@pytest.mark.parametrize("cells", [11, 44, 1 << 22])  # 1, 2 and all actions at a time
@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_a_divergence_and_its_gradient_are_those_of_whole_logits(direction, cells, cap):
    hidden, weight, targets, temperature = inputs()
    it, theirs = other(direction)
    soft = hidden @ weight.T if cap is None else cap * torch.tanh(hidden @ weight.T / cap)
    plain = [*logits_logprobs(soft, targets, temperature), exactly(direction, soft / temperature.unsqueeze(1), theirs)]
    logprobs, entropy, (apart,) = token_rows(hidden, weight, targets, temperature, cells=cells, cap=cap, others=[it])
    assert_close([logprobs, entropy, apart], plain, atol=1e-12, rtol=0)
    up = torch.linspace(-1, 2, 7, dtype=torch.float64)
    alone = [torch.autograd.grad((rows * up).sum(), (hidden, weight), retain_graph=True) for rows in (apart, plain[2])]
    assert_close(alone[0], alone[1], atol=1e-6, rtol=0)
    assert_close(alone[0], alone[1], atol=1e-12, rtol=0)
    total = [torch.autograd.grad((a * up).sum() + b.sum() + (c * up.flip(0)).sum(), (hidden, weight)) for a, b, c in ((logprobs, entropy, apart), plain)]
    assert_close(total[0], total[1], atol=1e-12, rtol=0)


def test_both_directions_at_once_and_a_gradient_check():
    hidden, weight, targets, temperature = inputs(actions=3, vocab=4)
    others = [other(direction, vocab=4, actions=3)[0] for direction in ("reverse", "forward")]
    assert torch.autograd.gradcheck(lambda h, w: token_rows(h, w, targets, temperature, cells=8, others=others)[2], (hidden, weight))


@pytest.mark.parametrize("direction", ["reverse", "forward"])
def test_a_divergence_from_itself_is_zero_without_gradient(direction):
    hidden, weight, targets, temperature = inputs()
    mine = (hidden @ weight.T / temperature.unsqueeze(1)).detach()
    found = token_rows(hidden, weight, targets, temperature, others=[Other(lambda part: mine[part].clone(), direction)])[2][0]
    assert_close(found, torch.zeros_like(found), atol=1e-12, rtol=0)
    for gradient in torch.autograd.grad(found.sum(), (hidden, weight)):
        assert_close(gradient, torch.zeros_like(gradient), atol=1e-12, rtol=0)


def test_memory_holds_no_more_logits_with_another_model():
    # a third array of the size of the chunk is in memory, so the chunk has two thirds of the rows
    sizes = []
    hidden, weight, targets, temperature = inputs(actions=12)
    it = Other(lambda part: (sizes.append(part.stop - part.start), torch.zeros(part.stop - part.start, 11, dtype=torch.float64))[1], "reverse")
    token_rows(hidden, weight, targets, temperature, cells=66, others=[it])
    assert sizes == [4, 4, 4]
