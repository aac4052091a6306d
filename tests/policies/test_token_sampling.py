"""The choice of a token: masks by hand, the drawn distribution, the inverse of the distribution function, independence of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gradus.policies import token_sampling
from gradus.policies.token_sampling import Settings, choose, drawn_on, kept
from gradus.types import Sampling, uniforms

torch.set_num_threads(1)
P = torch.tensor([[0.1, 0.4, 0.05, 0.3, 0.15]], dtype=torch.float64)


def masks(**settings: float) -> list[bool]:
    s = Settings.of([Sampling(**settings)])  # type: ignore[arg-type]
    return kept(P, s.top_k, s.top_p, s.min_p)[0].tolist()


def test_masks_by_hand():
    assert masks(top_k=2) == [False, True, False, True, False]
    assert masks(top_k=9) == [True] * 5
    # Ranked: 0.4 0.3 0.15 0.1 0.05, running sums 0.4 0.7 0.85 0.95 1.0: 0.75 needs three tokens, 0.3 one, 0.69 two.
    assert masks(top_p=0.75) == [False, True, False, True, True]
    assert masks(top_p=0.3) == [False, True, False, False, False]
    assert masks(top_p=0.69) == [False, True, False, True, False]
    # 0.3 * max = 0.12: 0.1 and 0.05 leave.
    assert masks(min_p=0.3) == [False, True, False, True, True]
    # Of the two most likely, renormalised to 4/7 and 3/7, the first alone has 0.57 >= 0.5; of the whole it would have 0.4 < 0.5.
    assert masks(top_k=2, top_p=0.5) == [False, True, False, False, False]
    assert masks(top_p=0.5) == [False, True, False, True, False]
    # top-p keeps three, 0.4 * 0.4 = 0.16 takes away 0.15 of them.
    assert masks(top_p=0.75, min_p=0.4) == [False, True, False, True, False]


def test_ties_with_the_last_token_stay():
    p = torch.tensor([[0.3, 0.2, 0.2, 0.2, 0.1]], dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    assert kept(p, torch.tensor([2]), one, 0 * one)[0].tolist() == [True, True, True, True, False]


def test_a_flat_nucleus_is_found_beyond_the_tokens_ranked_first(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    p = (torch.randn(6, 700, dtype=torch.float64) * torch.tensor([0.0, 0.1, 0.5, 1, 3, 9]).unsqueeze(-1)).softmax(-1)
    k, top_p = torch.tensor([0, 0, 0, 500, 3, 0]), torch.tensor([0.9, 0.9, 0.97, 0.8, 1.0, 0.5], dtype=torch.float64)
    few = kept(p, k, top_p, torch.zeros(6, dtype=torch.float64))
    monkeypatch.setattr(token_sampling, "_FIRST", 700)
    assert torch.equal(few, kept(p, k, top_p, torch.zeros(6, dtype=torch.float64)))
    # Row by row against the definition: no token that was left out is more likely than one kept, and one less would not suffice.
    for row in (1, 2, 5):
        inside = p[row][few[row]]
        assert inside.sum() >= top_p[row] > inside.sum() - inside.min()
        assert inside.min() > p[row][~few[row]].max()
    assert int(few[4].sum()) == 3
    assert bool(few[0].all())  # all equal: ties stay


def test_the_token_is_the_inverse_of_the_distribution_function():
    logits = P.log().float().expand(6, 5)
    # Cumulative: 0.1 0.5 0.55 0.85 1.0. A uniform of 0 takes the first token; the largest below 1 the last.
    u = torch.tensor([0.0, 0.09, 0.11, 0.52, 0.84, 1 - 2**-53], dtype=torch.float64)
    tokens, logprobs = choose(logits, Settings.of([Sampling()] * 6), u)
    assert tokens.tolist() == [0, 0, 1, 2, 3, 4]
    assert torch.allclose(logprobs.double(), P[0].log()[tokens], atol=1e-6)


def test_the_largest_uniform_never_leaves_the_tokens_that_have_a_chance():
    logits = torch.tensor([[0.0, 1.0, -1e9, -math.inf]])
    tokens, logprobs = choose(logits, Settings.of([Sampling()]), torch.tensor([1 - 2**-53], dtype=torch.float64))
    assert tokens.tolist() == [1]
    assert logprobs.item() == pytest.approx(-math.log(1 + math.exp(-1)), abs=1e-6)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.5), Sampling(top_k=3), Sampling(top_p=0.75, min_p=0.4)])
def test_draws_follow_the_distribution(sampling: Sampling):
    n = 20000
    u = torch.from_numpy(uniforms(np.uint64(7), np.arange(n)))
    tokens, logprobs = choose(P.log().float().expand(n, 5), Settings.of([sampling] * n), u)
    full = P[0] ** (1 / sampling.temperature)
    full /= full.sum()
    s = Settings.of([sampling])
    expected = full * kept(full.unsqueeze(0), s.top_k, s.top_p, s.min_p)[0]
    expected = n * expected / expected.sum()
    counts = torch.bincount(tokens, minlength=5).double()
    assert bool((counts[expected == 0] == 0).all())
    chi = ((counts - expected) ** 2 / expected)[expected > 0].sum().item()
    assert chi < 20  # at most 4 degrees of freedom: the 99.95 % point is 20.0; the draws are keyed, so this is no coin toss
    # Before the masks: the same log-probability whatever top-k, top-p and min-p leave out.
    assert torch.allclose(logprobs.double(), full.log()[tokens], atol=1e-6)


def test_greedy_takes_the_first_of_the_most_likely_at_temperature_one():
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, 5.0, 1.0, 2.0]])
    settings = Settings.of([Sampling(temperature=0), Sampling(temperature=0, top_k=2)])
    tokens, logprobs = choose(logits, settings, torch.tensor([0.99, 0.0], dtype=torch.float64))
    assert tokens.tolist() == [1, 1]
    assert torch.allclose(logprobs, logits.log_softmax(-1)[[0, 1], [1, 1]])


def test_a_row_does_not_depend_on_the_rows_beside_it():
    torch.manual_seed(1)
    kinds = [
        Sampling(),
        Sampling(temperature=0),
        Sampling(temperature=0.7, top_k=5),
        Sampling(top_p=0.8),
        Sampling(min_p=0.1),
        Sampling(top_k=300),
    ]
    samplings = [kinds[i % len(kinds)] for i in range(37)]
    logits, u = torch.randn(37, 611) * 3, torch.rand(37, dtype=torch.float64)
    tokens, logprobs = choose(logits, Settings.of(samplings), u)
    order = torch.randperm(37)
    shuffled = choose(logits[order], Settings.of(samplings).rows(order), u[order])
    assert torch.equal(shuffled[0], tokens[order])
    assert torch.equal(shuffled[1], logprobs[order])
    for i in range(37):
        alone = choose(logits[i : i + 1], Settings.of([samplings[i]]), u[i : i + 1])
        assert torch.equal(alone[0], tokens[i : i + 1])
        assert torch.equal(alone[1], logprobs[i : i + 1])


def test_bfloat16_logits_are_widened_first():
    logits = torch.randn(4, 9).bfloat16()
    u = torch.rand(4, dtype=torch.float64)
    assert torch.equal(choose(logits, Settings.of([Sampling()] * 4), u)[1], choose(logits.float(), Settings.of([Sampling()] * 4), u)[1])


class Elsewhere:
    """Logits on a device without float64: they can only be brought to another one, in the type that they have."""

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits, self.device, self.asked = logits, torch.device("meta"), []

    def to(self, device: torch.device) -> torch.Tensor:
        self.asked.append(device)
        return self.logits


def test_a_device_without_float64_has_its_tokens_drawn_on_the_cpu(monkeypatch: pytest.MonkeyPatch):
    assert drawn_on("mps") == drawn_on("cpu") == torch.device("cpu")
    assert drawn_on("cuda:1") == torch.device("cuda:1")
    kinds = [Sampling(), Sampling(top_p=0.8), Sampling(temperature=0)]
    assert Settings.of(kinds, "mps").top_p.device.type == "cpu"  # could not be made there
    monkeypatch.setattr(token_sampling, "_WITHOUT_FLOAT64", ("meta",))
    logits, u = torch.randn(3, 50), torch.rand(3, dtype=torch.float64)
    there = Elsewhere(logits)
    tokens, logprobs = choose(there, Settings.of(kinds, "meta").rows(torch.arange(3)), u)  # type: ignore[arg-type]
    assert there.asked == [torch.device("cpu")]
    assert (tokens.device.type, logprobs.device.type, tokens.dtype, logprobs.dtype) == ("meta", "meta", torch.int64, torch.float32)
    there.device = torch.device("cpu")
    found = choose(there, Settings.of(kinds, "meta"), u)  # type: ignore[arg-type]
    assert all(torch.equal(a, b) for a, b in zip(found, choose(logits, Settings.of(kinds), u), strict=True))


def test_uniform_numbers_may_lie_apart_and_in_float32():
    logits, settings = torch.randn(6, 50, generator=torch.Generator().manual_seed(0)), Settings.of([Sampling()])
    apart = torch.rand(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))[:, 0]
    for given in (apart, apart.float()):
        found, expected = choose(logits, settings, given), choose(logits, settings, given.to(torch.float64, copy=True).contiguous())
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
