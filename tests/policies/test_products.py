"""Products with weights: values and gradients against torch's own, bits that do not depend on other rows, and when which library is used."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradus.policies import products
from gradus.policies.products import Linear, Matrix, linear, served, times, weight_gradient

NEEDS = pytest.mark.skipif(not products._available(), reason="this machine's products are PyTorch's own")


def some(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("shape", [(5,), (7, 3), (1,)])
@pytest.mark.parametrize(("inner", "outer"), [(160, 384), (384, 160), (128, 128), (24, 8)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_those_of_float64(shape: tuple[int, ...], inner: int, outer: int, bias: bool) -> None:
    x, weight, grad = some(*shape, inner), some(outer, inner, seed=1), some(*shape, outer, seed=2)
    added = some(outer, seed=3) if bias else None
    ours = [t.clone().requires_grad_() for t in (x, weight, *([added] if bias else []))]
    wide = [t.detach().double().requires_grad_() for t in ours]
    found, expected = linear(*ours), F.linear(*wide)
    found.backward(grad)
    expected.backward(grad.double())
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-5)
    for a, b in zip(ours, wide, strict=True):
        torch.testing.assert_close(a.grad.double(), b.grad, atol=2e-4, rtol=1e-5)
    torch.testing.assert_close(times(x, weight, added), found.detach(), atol=0, rtol=0)


def test_a_gradient_that_nobody_needs_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []
    real = products._by_onednn
    monkeypatch.setattr(products, "_available", lambda: True)
    monkeypatch.setattr(products, "_by_onednn", lambda x, w, b=None: calls.append(tuple(x.shape)) or F.linear(x, w, b))
    x, weight = some(9, 160), some(384, 160).requires_grad_()
    linear(x, weight).sum().backward()
    assert calls == [(9, 160), (160, 9)]  # the product and the weight's gradient; the narrower side gives the rows
    calls.clear()
    linear(x.clone().requires_grad_(), weight.detach()).sum().backward()
    assert calls == [(9, 160), (9, 384)]
    assert real is not products._by_onednn


@pytest.mark.parametrize(("inner", "outer"), [(160, 384), (384, 160), (160, 96)])
def test_the_gradient_of_a_weight_in_pieces_of_rows(inner: int, outer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_PIECE", 7)
    grad, x = some(30, outer), some(30, inner, seed=1)
    found = weight_gradient(grad, x)
    assert found.is_contiguous()
    torch.testing.assert_close(found, grad.t() @ x, atol=1e-4, rtol=1e-5)


@NEEDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("inner", "outer"), [(160, 480), (384, 160), (1024, 256)])
def test_a_row_has_the_same_bits_in_any_company(dtype: torch.dtype, inner: int, outer: int) -> None:
    weight, x = some(outer, inner, dtype=dtype), some(300, inner, dtype=dtype, seed=1)
    matrix = Matrix(weight.t())
    assert matrix.packed
    expected = x @ matrix
    for rows in (2, 8, 17, 64, 111):
        assert torch.equal(x[40 : 40 + rows] @ matrix, expected[40 : 40 + rows])
    assert torch.equal(times(x[:50], weight), expected[:50])  # decoding and update have the same bits
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert torch.equal(x @ Matrix(weight.t()), expected)
    finally:
        torch.set_num_threads(threads)


@NEEDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_rows_have_the_bits_of_few(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x = some(384, 160, dtype=dtype), some(40, 160, dtype=dtype, seed=1)
    expected = linear(x, weight)
    monkeypatch.setattr(products, "_MANY", 40)
    assert torch.equal(linear(x, weight), expected)
    assert torch.equal(times(expected, weight.t())[:39], times(expected[:39], weight.t()))


@NEEDS
def test_large_weights_of_float32_and_bfloat16_are_served() -> None:
    assert served(torch.zeros(128, 128))
    assert served(nn.Parameter(torch.zeros(128, 128, dtype=torch.bfloat16)))
    assert not served(torch.zeros(127, 128))  # too small
    assert not served(torch.zeros(128, 128, dtype=torch.float64))
    assert not served(torch.zeros(1, 1 << 14))
    assert not served(torch.zeros(128, 128, device="meta"))


def test_other_types_and_empty_rows() -> None:
    weight = some(160, 160)
    assert linear(torch.zeros(0, 160), weight).shape == (0, 160)
    assert weight_gradient(torch.zeros(0, 160), torch.zeros(0, 160)).abs().max() == 0
    wide = weight.double()
    assert torch.equal(linear(some(3, 160).double(), wide), F.linear(some(3, 160).double(), wide))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(some(3, 160), weight.requires_grad_()).dtype == torch.bfloat16


def test_the_module_is_torchs_with_another_product() -> None:
    module = Linear(160, 160)
    other = nn.Linear(160, 160)
    other.load_state_dict(module.state_dict())
    x = some(4, 160)
    torch.testing.assert_close(module(x), other(x), atol=1e-5, rtol=1e-5)
    assert isinstance(copy.deepcopy(module), nn.Linear)
    assert module.to(torch.float64)(x.double()).dtype == torch.float64


def test_a_matrix_multiplies_as_its_weight() -> None:
    for weight in (some(160, 160), some(12, 7), some(160, 160).double()):
        x = some(5, weight.shape[0]).to(weight.dtype)
        out = torch.empty(5, weight.shape[1], dtype=weight.dtype)
        found = Matrix(weight).into(x, out)
        torch.testing.assert_close(x @ Matrix(weight), x @ weight, atol=1e-4, rtol=1e-5)
        assert torch.equal(found, x @ Matrix(weight))
