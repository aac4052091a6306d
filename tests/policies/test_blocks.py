"""Blocks of rows: how they are cut, and that only sizes with equal bits are used."""

from __future__ import annotations

import pytest
import torch

from gradus.policies import blocks
from gradus.policies.blocks import BASE, MENU, cover, cut, even, menu, noise


def test_cut_and_cover_by_hand():
    sizes = (8, 64, 128)
    assert [cover(n, sizes) for n in (1, 8, 9, 64, 65, 128, 200)] == [8, 8, 64, 64, 128, 128, 128]
    assert cut(300, sizes) == [128, 128, 64]  # 44 are left
    assert cut(256, sizes) == [128, 128]
    assert cut(1, sizes) == [8]
    assert cut(0, sizes) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("inner", "outer"), [(128, 384), (352, 128), (896, 512)])
def test_every_size_of_the_menu_gives_a_row_the_same_bits_at_every_place(inner: int, outer: int, dtype: torch.dtype):
    generator = torch.Generator().manual_seed(4)
    weight, row = (torch.randn(n, m, generator=generator).to(dtype) for n, m in ((inner, outer), (1, inner)))
    sizes = menu([weight])
    assert BASE in sizes
    results = set()
    for size in sizes:
        for place in (0, size // 2 + 1, size - 1):
            x = torch.randn(size, inner, generator=generator).to(dtype)
            x[place] = row
            results.add((x @ weight)[place].view(torch.uint8).numpy().tobytes())
    assert len(results) == 1


def test_sizes_that_round_otherwise_are_left_out(monkeypatch: pytest.MonkeyPatch):
    class Odd:
        """A weight whose product differs in blocks of 16 and of 256 rows."""

        def __init__(self, weight: torch.Tensor) -> None:
            self.weight, self.shape, self.dtype, self.device = weight, weight.shape, "odd", weight.device

        def __rmatmul__(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight + (1e-6 if len(x) in (16, 256) else 0)

    weight = torch.randn(24, 40)
    monkeypatch.setattr(
        blocks, "noise", lambda rows, columns, like: Odd(weight) if (rows, columns) == (24, 40) else torch.randn(rows, columns)
    )
    monkeypatch.setattr(blocks, "_agreed", {})
    assert menu([Odd(weight)]) == tuple(s for s in MENU if s not in (16, 256))  # type: ignore[list-item]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("outer", [1, 3, 5, 11, 16, 97])
def test_an_even_matrix_gives_a_row_the_same_bits_at_every_place(outer: int, dtype: torch.dtype):
    generator = torch.Generator().manual_seed(6)
    weight, x = (torch.randn(n, m, generator=generator).to(dtype) for n, m in ((32, outer), (BASE, 32)))
    found = even(weight)
    assert torch.equal(found[:, :outer], weight)
    assert not found[:, outer:].any()
    expected = (x @ found)[:, :outer]
    for turn in range(1, 9):
        assert torch.equal((x.roll(turn, 0) @ found)[:, :outer], expected.roll(turn, 0))


def test_a_matrix_is_widened_only_where_places_count(monkeypatch: pytest.MonkeyPatch):
    class Odd(torch.Tensor):
        def __rmatmul__(self, x: torch.Tensor) -> torch.Tensor:
            return x @ torch.Tensor(self) + torch.arange(len(x)).unsqueeze(1)

    real = noise
    monkeypatch.setattr(blocks, "_anywhere", {})
    monkeypatch.setattr(blocks, "noise", lambda *given: real(*given).as_subclass(Odd) if given[:2] == (4, 13) else real(*given))
    assert even(torch.zeros(4, 13)).shape == (4, 16)
    assert even(torch.zeros(4, 32)).shape == (4, 32)


def test_noise_is_the_same_at_every_call_and_has_the_type_asked_for():
    like = torch.empty(0, dtype=torch.bfloat16)
    a = noise(300, 400, like)
    assert a.shape == (300, 400)
    assert a.dtype == torch.bfloat16
    assert torch.equal(a, noise(300, 400, like))
    assert 0.9 < a.float().std() < 1.1
