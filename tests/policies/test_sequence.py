"""A pass whose rows are divided: exchanges by hand, rows and gradients of one process, the owner of a token, pictures.

Threads of this process take the place of processes. Their exchange goes through a common list.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.policies import sequence
from gradus.policies.heads import Heads
from gradus.policies.lm import LanguageModel
from gradus.policies.opened import OpenedDecoder
from gradus.policies.sequence import OpenedShare, Team, share_of_rows, to_heads, to_rows
from gradus.types import Context, Key
from gradus.types.signals import EntropyOf, LogProb, Value
from tests.policies.contexts import alone, mixed
from tests.policies.shapes import SHAPES, ours
from tests.policies.vision_models import folder, picture

WANTS = (LogProb(), EntropyOf())


class Post:
    """The exchange of `size` threads."""

    def __init__(self, size: int) -> None:
        self.sent, self.all_here = {}, threading.Barrier(size, timeout=10)

    def all_to_all_single(self, out, given, counts_out, counts_in, group):
        rank = group
        self.sent[rank] = given.detach().split(counts_in)
        self.all_here.wait()
        parts = [self.sent[other][rank] for other in range(len(counts_out))]
        assert [len(p) for p in parts] == counts_out
        out.copy_(torch.cat(parts))
        self.all_here.wait()


def by_all(size: int, work: Callable[[Team], object], monkeypatch) -> list:
    """What `work` returns in each of `size` threads, each of them a member of one team."""
    monkeypatch.setattr(sequence, "dist", Post(size))
    for known in (*vars(OpenedDecoder).values(), *vars(OpenedShare).values()):
        if hasattr(known, "lock"):  # until Python 3.12, two threads cannot compute the same cached property
            monkeypatch.setattr(known, "lock", nullcontext())

    def one(rank: int) -> object:
        return work(Team(rank, size, rank))

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(one, range(size)))


def model_of(shape: str = "qwen2", dtype: torch.dtype = torch.float32, **more) -> LanguageModel:
    return LanguageModel(ours(shape, dtype), None, (2,), **more)


def gradients(model: LanguageModel, rows, slopes):
    wanted = [w for w in rows if rows[w].requires_grad]
    return torch.autograd.grad([rows[w] for w in wanted], list(model.network.parameters()), [slopes[w] for w in wanted], allow_unused=True)


def compared(model, contexts, size, monkeypatch, wants=WANTS):
    """The largest error of rows and the largest relative error of gradients, and the actions of each member."""
    whole = model.evaluate(contexts, wants, Key())
    slopes = {w: torch.linspace(-1, 2, len(whole[w])).to(whole[w]) for w in wants}
    due = gradients(model, whole, slopes)

    def work(team):
        index, rows = share_of_rows(model, contexts, wants, Key(), team)
        return index, {w: r.detach() for w, r in rows.items()}, gradients(model, rows, {w: slopes[w][index] for w in wants})

    found = by_all(size, work, monkeypatch)
    places = torch.cat([index for index, _, _ in found])
    assert sorted(places.tolist()) == list(range(sum(c.actions for c in contexts)))  # every action once
    rows = max(float((whole[w].detach()[index] - r[w]).abs().max()) for index, r, _ in found for w in wants if len(index))
    worst = 0.0
    for i, g in enumerate(due):
        parts = [p[i] for _, _, p in found if p[i] is not None]
        if g is None:
            assert not any(bool(p.any()) for p in parts)
        else:
            worst = max(worst, float((sum(parts) - g).abs().max() / g.abs().max().clamp_min(1e-3)))
    return rows, worst, [index for index, _, _ in found]


def test_rows_for_heads_by_hand(monkeypatch):
    rows, heads = [0, 2, 3], [0, 1, 3]  # two and one rows, one and two heads
    every = torch.arange(9.0).view(3, 3, 1)  # row, head

    def work(team):
        mine = every[rows[team.rank] : rows[team.rank + 1]].clone().requires_grad_()
        out = to_heads(mine, rows, heads, team)
        back = to_rows(out, rows, heads, team)
        (slope,) = torch.autograd.grad(out, mine, torch.full_like(out, team.rank + 1.0))
        return out.detach(), back.detach(), slope

    (first, back0, slope0), (second, back1, slope1) = by_all(2, work, monkeypatch)
    assert first.flatten().tolist() == [0, 3, 6]
    assert second.flatten(1).tolist() == [[1, 2], [4, 5], [7, 8]]
    assert torch.equal(torch.cat([back0, back1]), every)
    assert slope0.flatten(1).tolist() == [[1, 2, 2], [1, 2, 2]]  # a gradient comes from the process that has the head
    assert slope1.flatten(1).tolist() == [[1, 2, 2]]


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_two_compute_the_rows_and_gradients_of_one(shape, monkeypatch):
    rows, slopes, index = compared(model_of(shape), mixed(np.random.default_rng(3)), 2, monkeypatch)
    assert rows < 1e-5
    assert slopes < 1e-5
    assert all(len(i) for i in index)


@pytest.mark.parametrize("size", [3, 4])
def test_other_numbers_of_processes_and_other_kernels(size, monkeypatch):
    """Four heads for three; two heads of keys for four; float64 does not use the compiled kernels."""
    contexts = mixed(np.random.default_rng(4))
    model = model_of("llama", torch.float64)
    rows, slopes, _ = compared(model, contexts, size, monkeypatch)
    assert rows < 1e-12
    assert slopes < 1e-12
    model = model_of("llama", recompute=True)
    assert max(compared(model, contexts, size, monkeypatch)[:2]) < 1e-5


@pytest.mark.parametrize("length", [12, 13])
def test_the_last_row_of_a_process_predicts_the_first_token_of_the_next(length, monkeypatch):
    rng = np.random.default_rng(length)
    tokens = rng.integers(3, 97, length).astype(np.int32)
    context = Context(tokens=tokens, chosen=np.arange(length) >= 2, temperature=1.0)
    rows, slopes, (first, second) = compared(model_of(), [context], 2, monkeypatch)
    assert max(rows, slopes) < 1e-5
    cut = (length - 1) // 2  # the last token has no row, because nothing reads it; the first process has the rows before `cut`
    assert first.tolist() == list(range(cut - 1))  # action i is token i + 2, which the row of token i + 1 predicts
    assert (second + 2).tolist()[0] == cut + 1
    assert second.tolist() == list(range(cut - 1, length - 2))


def test_a_process_without_actions_takes_part(monkeypatch):
    context = Context(tokens=np.arange(3, 43, dtype=np.int32), chosen=np.arange(40) >= 38, temperature=1.0)
    rows, slopes, (first, _) = compared(model_of(), [context], 2, monkeypatch)
    assert len(first) == 0
    assert max(rows, slopes) < 1e-5


def test_values_of_a_head(monkeypatch):
    model = model_of("qwen3")
    head = Heads(32, Key(5))
    contexts = [alone(c) for c in mixed(np.random.default_rng(5)) if c.actions]
    for shared in (False, True):  # True: the trunk gets no gradient
        with_head = LanguageModel(model.trunk, None, (2,), head=head, shared=shared)
        rows, slopes, _ = compared(with_head, contexts, 2, monkeypatch, (Value(),))
        assert max(rows, slopes) < 1e-5


def test_each_process_encodes_the_pictures_of_its_rows(tmp_path, monkeypatch):
    model = LanguageModel.load(folder("llava-siglip", tmp_path), dtype=torch.float64)
    pictures = [{"type": "image", "media": picture(seed)} for seed in range(4)]
    prompt = model.opening([{"role": "user", "content": [*pictures, {"type": "text", "text": "what is here"}]}])
    rng = np.random.default_rng(0)
    answers = [Context(rng.integers(20, 30, n).astype(np.int32), np.ones(n, bool), parent=(prompt, len(prompt.sequence))) for n in (3, 5)]
    rows, slopes, _ = compared(model, answers, 2, monkeypatch)  # with the gradient of the tower
    assert max(rows, slopes) < 1e-9
    copies = [model.clone() for _ in range(2)]
    with torch.no_grad():
        by_all(2, lambda team: share_of_rows(copies[team.rank], answers, WANTS, Key(), team), monkeypatch)
    counts = [copy.trunk.encoded.count for copy in copies]
    assert sorted(counts) == [2, 3]  # four pictures, of which the one at the cut is encoded by both
    assert_close(model.evaluate(answers, WANTS)[LogProb()], copies[0].evaluate(answers, WANTS)[LogProb()])

