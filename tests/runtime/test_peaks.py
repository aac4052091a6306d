"""The speeds of a machine: the arithmetic by a clock that a test sets. No speed is asserted."""

from __future__ import annotations

import torch

from gradus.runtime import peaks


def test_the_shortest_call_counts():
    now, took = [0.0], iter([9.0, 5.0, 2.0, 4.0, 3.0, 3.0])  # the first call is not measured

    def work() -> torch.Tensor:
        now[0] += next(took)
        return torch.zeros(1)

    assert peaks.best(work, torch.zeros(1), 1.0, clock=lambda: now[0]) == 2.0
    assert next(took, None) is None  # five measured calls


def test_calls_go_on_until_the_time_is_over():
    now, calls = [0.0], [0]

    def work() -> torch.Tensor:
        now[0] += 0.25
        calls[0] += 1
        return torch.zeros(1)

    assert peaks.best(work, torch.zeros(1), 2.0, clock=lambda: now[0]) == 0.25
    assert calls == [1 + 8]


def test_operations_and_bytes_by_hand(monkeypatch):
    shapes: list[tuple[int, ...]] = []

    def timed(work, where, seconds):
        shapes.append(tuple(where.shape))
        work()
        return 0.5

    monkeypatch.setattr(peaks, "best", timed)
    assert peaks.product_peak(3, 5, 7, torch.float64) == 2 * 3 * 5 * 7 / 0.5
    assert peaks.read_peak(1 << 20) == (1 << 20) / 0.5
    assert shapes == [(3, 5), (256, 1024), (256, 1024)]
    assert peaks.read_peak(100) == 4096 / 0.5  # at least one row


def test_a_real_measurement_gives_a_speed():
    assert peaks.product_peak(8, 16, 16, torch.bfloat16, seconds=0.001) > 0
    assert peaks.read_peak(10_000, seconds=0.001) > 0
