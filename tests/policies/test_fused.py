from __future__ import annotations

import torch
from torch.testing import assert_close

from gradus.policies.fused import ACTIVATIONS, gated, rms_norm, rotate


def made(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def test_gradients_are_those_of_finite_differences():
    angles = made(5, 3, seed=1).detach()
    rotation = (angles.cos(), angles.sin())
    assert torch.autograd.gradcheck(lambda x, w: rms_norm(x, w, 1e-5), (made(2, 3, 4), made(4, seed=2)))
    assert torch.autograd.gradcheck(lambda x, w: rms_norm(x, w, 1e-5, True), (made(2, 3, 4), made(4, seed=2)))
    assert torch.autograd.gradcheck(lambda x: rotate(x, rotation), (made(5, 2, 6),))
    assert torch.autograd.gradcheck(
        lambda x: rotate(x, (2 * rotation[0], 2 * rotation[1])), (made(5, 2, 9),)
    )  # stretched; a part of the head


def test_rms_norm_is_the_formula():
    x, w = made(7, 8), made(8, seed=3)
    assert_close(rms_norm(x, w, 1e-2), x * (x.square().mean(-1, keepdim=True) + 1e-2).rsqrt() * w)
    assert_close(rms_norm(x, w - 1, 1e-2, True), rms_norm(x, w, 1e-2))


def test_rotation_by_a_quarter_turn():
    quarter = (torch.tensor([[0.0]]), torch.tensor([[1.0]]))  # cos 90 = 0, sin 90 = 1: (a, b) becomes (-b, a)
    assert_close(rotate(torch.tensor([[[2.0, 5.0]]]), quarter), torch.tensor([[[-5.0, 2.0]]]))
    assert_close(rotate(torch.tensor([[[2.0, 5.0, 7.0]]]), quarter), torch.tensor([[[-5.0, 2.0, 7.0]]]))  # what has no angle stays


def test_bfloat16_norm_is_rounded_once():
    x, w = made(4, 64).float(), torch.ones(64)
    narrow = x.bfloat16()
    assert torch.equal(rms_norm(narrow, w.bfloat16(), 1e-6), rms_norm(narrow.float(), w, 1e-6).bfloat16())


def test_weights_may_be_of_another_type_or_lie_apart():
    x, wide = made(7, 20).detach().float(), made(20, 2, seed=3).detach()
    for weight in (wide[:, 0], wide[:, 0].float(), wide.float()[:, 0], wide[:, 0].bfloat16()):
        assert_close(rms_norm(x, weight, 1e-5).double(), rms_norm(x.double(), weight.double(), 1e-5), atol=1e-5, rtol=1e-5)
    weight, apart = (w.requires_grad_() for w in (wide.float()[:, 0].contiguous(), wide.float()[:, 0]))
    for w in (weight, apart):
        rms_norm(x, w, 1e-5).square().sum().backward()
    assert_close(apart.grad, weight.grad)


def test_the_two_sides_of_a_gate_may_differ_in_type_and_rows():
    x = made(7, 20).detach().float()
    for up in (x[:1], x.double()):
        assert_close(gated(x, up, ACTIVATIONS["silu"]), ACTIVATIONS["silu"](x) * up)
