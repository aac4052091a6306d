"""The compiled kernels, every generation that this machine can run, against PyTorch's operations and against themselves."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies import kernels
from gradus.policies.compiled import fits
from gradus.policies.decoding import Fused, normed
from gradus.policies.fused import GATES, gated, rms_norm
from gradus.types import UserError
from tests.policies.test_engine import decoder

BUILT = [
    g
    for g in kernels.GENERATIONS.get(torch.backends.cpu.get_cpu_capability(), ("base",))
    if importlib.util.find_spec(f"gradus.policies.kernels._{g}")
]


@pytest.fixture(params=["v4", "v3", "base"])
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    if request.param not in BUILT:
        pytest.skip("not built, or not for this processor")
    found = importlib.util.find_spec(f"gradus.policies.kernels._{request.param}")
    assert found is not None
    assert found.origin is not None
    return kernels.checked(ctypes.CDLL(found.origin), found.origin)


def numbers(*shape: int, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) * scale


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("width", [5, 16, 72])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_residual_and_norms(library: ctypes.CDLL, width: int, threads: int, dtype: torch.dtype):
    x, y, bias, after, factor = (t.to(dtype) for t in (numbers(9, width), numbers(9, width, scale=3), *(numbers(width) for _ in range(3))))
    small = [t.float() for t in (bias, after, factor)]  # the kernels read vectors of one row in float32
    out, expected_x = torch.empty(9, width, dtype=dtype), x + normed(y + bias, after, 1e-5)
    addresses = [t.data_ptr() for t in (x, y, *small, out)]
    library.gradus_add_norm(*addresses, 9, width, 1e-5, threads, int(dtype == torch.bfloat16))
    near = {"atol": 4e-6, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.04, "rtol": 0.01}  # bfloat16: one step of the last bit
    torch.testing.assert_close(x, expected_x, **near)
    torch.testing.assert_close(out, normed(x, factor, 1e-5), **near)
    if dtype == torch.bfloat16:  # rounded at the same places, so nearly all numbers are equal
        assert (x == expected_x).float().mean() > 0.97
        assert (out == normed(x, factor, 1e-5)).float().mean() > 0.97


@pytest.mark.parametrize("width", [3, 16, 50])
@pytest.mark.parametrize(("kind", "activation"), [(0, F.silu), (1, lambda x: F.gelu(x, approximate="tanh"))])
def test_gated_activation_from_the_very_small_to_the_very_large(library: ctypes.CDLL, kind: int, activation, width: int):
    gate = torch.cat([torch.linspace(-130, 130, 7 * width - 4), torch.tensor([-1e-8, 1e-8, 0.0, -3e38])]).view(7, width)
    up, bias = numbers(7, width), numbers(2 * width, scale=0.1)
    joint, out = torch.cat([gate, up], 1), torch.empty(7, width)
    library.gradus_gated(joint.data_ptr(), bias.data_ptr(), out.data_ptr(), 7, width, kind, 1, 0)
    expected = activation(gate.double() + bias[:width].double()) * (up + bias[width:]).double()
    torch.testing.assert_close(out, expected.float(), atol=1e-6, rtol=2e-6)
    joint[0, 0] = torch.nan
    library.gradus_gated(joint.data_ptr(), bias.data_ptr(), out.data_ptr(), 7, width, kind, 1, 0)
    assert out[0, 0].isnan()
    assert not out[1:].isnan().any()


@pytest.mark.parametrize("width", [3, 16, 50])
def test_a_gated_activation_in_bfloat16_rounds_where_torch_does(library: ctypes.CDLL, width: int):
    joint, bias = numbers(40, 2 * width, scale=3).bfloat16(), numbers(2 * width, scale=0.1).bfloat16()
    joint[0, 0] = torch.nan
    out, wide = torch.empty(40, width, dtype=torch.bfloat16), bias.float()
    library.gradus_gated(joint.data_ptr(), wide.data_ptr(), out.data_ptr(), 40, width, 0, 1, 1)
    gate, up = (joint + bias).chunk(2, 1)
    expected = F.silu(gate) * up
    assert out[0, 0].isnan()
    assert not out[1:].isnan().any()
    assert (out == expected)[1:].float().mean() > 0.99
    torch.testing.assert_close(out[1:], expected[1:], atol=0.01, rtol=0.01)


@pytest.mark.parametrize("value", [1.0, 1.00390625, 1.01171875, -2.5e-39, 3.38e38, float("inf"), float("-inf"), float("nan"), 0.0])
def test_numbers_are_rounded_to_bfloat16_as_torch_rounds(library: ctypes.CDLL, value: float):
    x, y, none = torch.zeros(1, 16, dtype=torch.bfloat16), torch.full((1, 16), value, dtype=torch.bfloat16), None
    bias = torch.linspace(-abs(value) / 300, abs(value) / 300, 16).nan_to_num(0, 0, 0)
    expected = (y.float() + bias).bfloat16()
    library.gradus_add_norm(x.data_ptr(), y.data_ptr(), bias.data_ptr(), none, none, none, 1, 16, 1e-5, 1, 1)
    torch.testing.assert_close(x, expected, atol=0, rtol=0, equal_nan=True)


def test_a_library_from_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    if not BUILT:
        pytest.skip("none was built")
    found = importlib.util.find_spec(f"gradus.policies.kernels._{BUILT[0]}")
    assert found is not None
    assert found.origin is not None
    (tmp_path / "decoding.c").write_text("other")
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(UserError, match="install Gradus again"):
        kernels.checked(ctypes.CDLL(found.origin), found.origin)


@pytest.mark.parametrize("offset", [False, True])
def test_a_norm_and_its_gradients(offset: bool):
    if not BUILT:
        pytest.skip("none was built")
    x, weight, grad = numbers(700, 50), numbers(50, scale=0.3), numbers(700, 50, scale=2)
    found, expected = [], []
    for dtype, into in ((torch.float32, found), (torch.float64, expected)):  # the second in PyTorch's operations
        a, w = (t.to(dtype, copy=True).requires_grad_() for t in (x, weight))
        out = rms_norm(a, w, 1e-5, offset)
        out.backward(grad.to(dtype))
        into += [out, a.grad, w.grad]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("activation", GATES)
def test_a_gated_activation_and_its_gradients(activation):
    if not BUILT:
        pytest.skip("none was built")
    gate, up, grad = numbers(301, 37, scale=4), numbers(301, 37), numbers(301, 37)
    found, expected = [], []
    for dtype, into in ((torch.float32, found), (torch.float64, expected)):
        a, b = (t.to(dtype, copy=True).requires_grad_() for t in (gate, up))
        out = gated(a, b, activation)
        out.backward(grad.to(dtype))
        into += [out, a.grad, b.grad]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, atol=1e-5, rtol=1e-5)


def test_the_kernels_decode_bfloat16_if_norms_have_no_offset():
    if not BUILT:
        pytest.skip("none was built")
    assert [fits(Fused(decoder(family, 1, torch.bfloat16), 8)) for family in ("qwen3", "gemma2")] == [True, False]
