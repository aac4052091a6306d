"""Networks that decode one sequence at a time, as a batch: equal to sampling alone, at most `rows` states, and places that become free."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradus.policies.engine import generate, open_batch
from gradus.policies.jobs import Job
from gradus.types import Ended, Sampling


class Count:
    """After the token t comes t + 1, with certainty; notes how many states are alive."""

    def __init__(self) -> None:
        self.begun: list[int] = []

    def begin(self, tokens: np.ndarray) -> tuple[Tensor, Any]:
        self.begun.append(int(tokens[0]))
        return self._after(int(tokens[-1])), int(tokens[-1])

    def advance(self, state: Any, token: int) -> tuple[Tensor, Any]:
        assert token == state + 1
        return self._after(token), token

    def _after(self, token: int) -> Tensor:
        return torch.full((50,), -100.0).index_fill_(0, torch.tensor([token + 1]), 0.0)


HOW: dict[str, Any] = {"end_tokens": (40,), "decode_text": lambda tokens: " ".join(map(str, tokens)), "max_context": 60}


def test_sequences_join_end_and_leave() -> None:
    network = Count()
    batch = open_batch(network, rows=2, **HOW)
    jobs = [Job(np.array([n], np.int32), Sampling(max_tokens=m, stops=s), 0) for n, m, s in ((1, 3, ()), (38, 9, ()), (5, 9, ("8",)))]
    numbers = batch.add(jobs)
    left = batch.add([Job(np.array([20], np.int32), Sampling(max_tokens=20), 0)])[0]
    seen: dict[int, list[int]] = {n: [] for n in [*numbers, left]}
    while batch.busy:
        drawn = batch.step()
        assert batch.running <= 2
        for n, token in zip(drawn.numbers.tolist(), drawn.tokens.tolist(), strict=True):
            seen[n].append(token)
        if len(seen[left]) == 4:
            assert (batch.take(left).tokens.tolist(), batch.busy) == ([21, 22, 23, 24], False)
    assert [seen[n] for n in numbers] == [[2, 3, 4], [39, 40], [6, 7, 8]]
    taken = [batch.take(n) for n in numbers]
    assert [t.tokens.tolist() for t in taken] == [[2, 3, 4], [39, 40], [6, 7, 8]]
    assert [t.ended for t in taken] == [Ended.LENGTH, Ended.STOP, Ended.STOP]
    assert np.abs(np.concatenate([t.logprobs for t in taken])).max() < 1e-6
    assert [s.tokens.tolist() for s in generate(Count(), jobs, **HOW)] == [[2, 3, 4], [39, 40], [6, 7, 8]]


def test_one_after_the_other_in_a_closed_batch() -> None:
    network = Count()
    generate(network, [Job(np.array([n], np.int32), Sampling(max_tokens=2), 0) for n in (1, 5, 9)], **HOW)
    assert network.begun == [1, 5, 9]


def test_the_most_likely_tokens_come_with_every_token() -> None:
    batch = open_batch(Count(), rows=1, **HOW)
    (number,) = batch.add([Job(np.array([1], np.int32), Sampling(max_tokens=2, temperature=0), 0, likely=2)])
    for token in (2, 3):
        ids, values = batch.step().likely[number]
        assert (ids[0], len(ids), round(values[0], 6), round(values[1], 3)) == (token, 2, 0.0, -100.0)
