from __future__ import annotations

import torch
from torch.testing import assert_close

from gradus.policies.fused import rms_norm, rotate


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
