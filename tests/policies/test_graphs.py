"""Replayed steps, with a stand-in for the capture: what is captured sees later inputs only through the memory that it had."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from gradus.policies import engine, graphs
from gradus.policies.graphs import Replayed, bucket
from gradus.types import Sampling, UserError
from tests.policies.test_engine import decoder, mixed_jobs, same, sample


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Tensor]]:
    """What was captured. As on a GPU the function runs before, then once more; a replay writes where the first result lies."""
    found: list[Callable[[], Tensor]] = []

    def capture(function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        found.append(function)
        function()
        result = function().clone()

        def replay() -> None:
            result.copy_(function())

        return replay, result

    monkeypatch.setattr(graphs, "capture", capture)
    monkeypatch.setattr(engine, "fits", lambda fused: False)
    return found


@pytest.mark.parametrize("window", [None, 24])
def test_replayed_steps_sample_the_same_bytes(captured: list[Callable[[], Tensor]], window: int | None):
    network = decoder() if window is None else decoder("mistral", sliding_window=window)
    jobs = mixed_jobs(60)
    usual = sample(network, jobs, rows=16)
    assert not captured
    assert same(usual, sample(network, jobs, rows=16, graphs=True))
    # 8 or 16 rows, the places of a step times 1, 2, 4 and so on up to all of 112
    assert 1 < len(captured) <= 2 * 4


def test_a_shape_is_captured_once_and_reads_what_it_is_given(captured: list[Callable[[], Tensor]]):
    seen: list[tuple[int, ...]] = []

    def step(tokens: Tensor, positions: Tensor, read: object) -> Tensor:
        seen.append((int(tokens[0]), int(positions[0])))
        return (tokens + positions).double()

    replayed = Replayed(step, torch.device("cpu"))
    first = replayed(torch.tensor([3, 4]), torch.tensor([5, 6]), ((0, 2, 16),))
    assert first.tolist() == [8, 10]
    assert replayed(torch.tensor([7, 8]), torch.tensor([9, 9]), ((0, 2, 16),)).tolist() == [16, 17]
    assert seen[-1] == (7, 9)
    replayed(torch.tensor([1]), torch.tensor([1]), ((0, 1, 16),))
    replayed(torch.tensor([1, 2]), torch.tensor([1, 1]), ((0, 2, 32),))
    assert len(captured) == 3


def test_places_are_read_in_few_sizes():
    assert [bucket(n, 16, 112) for n in (1, 16, 17, 33, 65, 112)] == [16, 16, 32, 64, 112, 112]


def test_only_cuda_has_them():
    from gradus import load_recipe
    from gradus.players.build import load_policy
    from gradus.training.plan import load_task

    with pytest.raises(UserError, match=r"captures CUDA graphs, but the device is cpu; leave setting\.graphs out"):
        load_policy(None, load_task("arithmetic"), load_recipe("grpo").but(setting__graphs=True), "cpu")


def test_greedy_tokens_are_those_of_plain_steps(captured: list[Callable[[], Tensor]]):
    job = engine.Job(np.array([3, 4, 5], np.int32), Sampling(temperature=0, max_tokens=30), 1)
    assert sample(decoder(), [job], graphs=True)[0].tokens.tolist() == sample(decoder(), [job])[0].tokens.tolist()
    assert captured
