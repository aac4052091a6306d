"""The engine with every family: equal bits in any company, agreement with the full forward, rows of prompts that windows have left behind."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus.policies.decoder import Decoder
from gradus.policies.engine import Job, Sampled, generate
from gradus.types import Key, Sampling
from tests.policies.shapes import SHAPES, VOCAB, ours


def sample(network: Decoder, jobs: list[Job], rows: int = 64) -> list[Sampled]:
    return generate(network, jobs, end_tokens=(0,), decode_text=lambda tokens: "", max_context=120, rows=rows)


def jobs_of(count: int) -> list[Job]:
    """Prompts of 1 to 60 tokens, some shared; 1 to 30 new tokens."""
    rng, jobs = np.random.default_rng(5), []
    while len(jobs) < count:
        prefix = rng.integers(1, VOCAB, rng.integers(1, 61)).astype(np.int32)
        for _ in range(rng.integers(1, 4)):
            jobs.append(Job(prefix, Sampling(max_tokens=int(rng.integers(1, 31))), Key(9).fold(len(jobs)).value))
    return jobs[:count]


def raw(samples: list[Sampled]) -> list[tuple[bytes, bytes]]:
    return [(s.tokens.tobytes(), s.logprobs.tobytes()) for s in samples]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [*((shape, torch.float32) for shape in SHAPES), *((shape, torch.bfloat16) for shape in ("gemma2", "gemma3", "qwen3_moe", "mistral"))],
)
def test_requests_are_equal_alone_in_company_and_in_another_order(shape: str, dtype: torch.dtype):
    network, jobs = ours(shape, dtype), jobs_of(60)
    company = raw(sample(network, jobs))
    order = np.random.default_rng(1).permutation(len(jobs))
    assert raw(sample(network, [jobs[i] for i in order], rows=16)) == [company[i] for i in order]
    some = range(0, len(jobs), 5)
    assert [raw(sample(network, [jobs[i]]))[0] for i in some] == [company[i] for i in some]


@pytest.mark.parametrize("shape", SHAPES)
def test_log_probabilities_are_those_of_a_full_forward(shape: str):
    network, jobs = ours(shape), jobs_of(20)
    with torch.no_grad():
        for job, found in zip(jobs, sample(network, jobs), strict=True):
            sequence = torch.from_numpy(np.concatenate([job.prefix, found.tokens]).astype(np.int64))
            at = torch.arange(len(job.prefix), len(sequence))
            expected = network(sequence[None])[0].log_softmax(-1)[at - 1, sequence[at]]
            assert np.abs(expected.numpy() - found.logprobs).max() < 2e-5
