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
from gradus.policies.decoding import normed
from gradus.policies.fused import GATES, gated, rms_norm
from gradus.types import UserError

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
def test_residual_and_norms(library: ctypes.CDLL, width: int, threads: int):
    x, y, bias, after, factor = numbers(9, width), numbers(9, width, scale=3), numbers(width), numbers(width), numbers(width)
    out, expected_x = torch.empty(9, width), x + normed(y + bias, after, 1e-5)
    addresses = [t.data_ptr() for t in (x, y, bias, after, factor, out)]
    library.gradus_add_norm(*addresses, 9, width, 1e-5, threads)
    torch.testing.assert_close(x, expected_x, atol=2e-6, rtol=1e-6)
    torch.testing.assert_close(out, normed(expected_x, factor, 1e-5), atol=4e-6, rtol=1e-5)


@pytest.mark.parametrize("width", [3, 16, 50])
@pytest.mark.parametrize(("kind", "activation"), [(0, F.silu), (1, lambda x: F.gelu(x, approximate="tanh"))])
def test_gated_activation_from_the_very_small_to_the_very_large(library: ctypes.CDLL, kind: int, activation, width: int):
    gate = torch.cat([torch.linspace(-130, 130, 7 * width - 4), torch.tensor([-1e-8, 1e-8, 0.0, -3e38])]).view(7, width)
    up, bias = numbers(7, width), numbers(2 * width, scale=0.1)
    joint, out = torch.cat([gate, up], 1), torch.empty(7, width)
    library.gradus_gated(joint.data_ptr(), bias.data_ptr(), out.data_ptr(), 7, width, kind, 1)
    expected = activation(gate.double() + bias[:width].double()) * (up + bias[width:]).double()
    torch.testing.assert_close(out, expected.float(), atol=1e-6, rtol=2e-6)
    joint[0, 0] = torch.nan
    library.gradus_gated(joint.data_ptr(), bias.data_ptr(), out.data_ptr(), 7, width, kind, 1)
    assert out[0, 0].isnan()
    assert not out[1:].isnan().any()


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
