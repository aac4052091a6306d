"""Slots of the engine: the same bytes in every order, the order of the starts, and the steps that the count of slots predicts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gradus.policies import engine
from gradus.policies.engine import Job, Together, generate
from gradus.policies.slots import in_slots
from gradus.types import Sampling, UserError
from gradus.types.slots import ORDERS, Slots, ends, ends_of_rounds, order_of
from tests.policies.test_engine import VOCAB, decoder, text

LIMITS = [14, 3, 3, 9, 3, 3, 1, 6, 3, 12]


@pytest.fixture
def jobs():
    """Ten jobs with three prompts. Greedy tokens without an end: every answer has exactly its limit of tokens."""
    rng = np.random.default_rng(1)
    prompts = [rng.integers(1, VOCAB, size).astype(np.int32) for size in (3, 20, 7)]
    return [Job(prompts[i % 3], Sampling(max_tokens=n, temperature=0.7), key=100 + i) for i, n in enumerate(LIMITS)]


@pytest.fixture
def watched(monkeypatch):
    """The numbers of the jobs in the order of their starts, and the number of decoding steps after the first tokens."""
    begun, steps = [], []
    admit, advance = Together._admit, Together._advance
    monkeypatch.setattr(Together, "_admit", lambda self, free: begun.append(admit(self, free)) or begun[-1])
    monkeypatch.setattr(Together, "_advance", lambda self: steps.append(self.used) or advance(self))
    return begun, steps


DRAW = partial(generate, decoder(), end_tokens=(), decode_text=text, max_context=160)


@pytest.mark.parametrize("order", ORDERS)
def test_the_bytes_do_not_depend_on_the_order_or_the_slots(jobs, order):
    alone = DRAW(jobs)
    for count, eps in ((1, 0.1), (2, 0.1), (3, 1.0)):
        found = in_slots(jobs, [Slots(count, order, eps, n) for n in LIMITS], DRAW)
        assert [(a.tokens.tobytes(), a.logprobs.tobytes()) for a in found] == [(a.tokens.tobytes(), a.logprobs.tobytes()) for a in alone]


@pytest.mark.parametrize("order", ORDERS)
def test_the_steps_are_those_of_the_count_by_hand(jobs, watched, order):
    """The first token of an answer comes from its prompt, so an answer of n tokens takes n - 1 steps in a slot."""
    begun, steps = watched
    slots = Slots(3, order, 0.5)
    in_slots(jobs, [Slots(3, order, 0.5, n) for n in LIMITS], DRAW)
    taken = order_of(LIMITS, slots)
    due = (ends_of_rounds if order == "rounds" else ends)([LIMITS[i] - 1 for i in taken], 3)
    assert sum(used > 0 for used in steps) == max(due)
    assert max(steps) <= 3
    if order != "rounds":  # rounds are batches with their own numbers
        assert [int(n) for drawn in begun for n in drawn.numbers] == taken


def test_jobs_without_slots_stay_together_and_other_slots_stay_apart(jobs):
    sizes = []

    def draw(some, **how):
        sizes.append((len(some), how.get("rows")))
        return DRAW(some, **how)

    in_slots(jobs, [None] * 4 + [Slots(2, expected=3.0)] * 3 + [Slots(5, expected=9.0)] * 3, draw)
    assert sizes == [(4, None), (3, 2), (3, 5)]


def test_a_prompt_is_read_once_for_all_answers_in_any_order(jobs, monkeypatch):
    read = []
    original = engine.CompiledCache.read
    monkeypatch.setattr(engine.CompiledCache, "read", lambda self, prefixes, given=(): read.extend(p.tobytes() for p in prefixes) or original(self, prefixes, given))
    in_slots(jobs, [Slots(2, "longest", expected=n) for n in LIMITS], DRAW)
    assert len(read) == len(set(read)) == 3


def test_slots_in_a_model():
    from gradus.policies.lm import LanguageModel
    from gradus.testing.methods import TOY
    from gradus.training.world import Ask
    from gradus.types import Key, Request

    model = LanguageModel.load(Path(engine.__file__).parent / "tiny/base")
    problem = TOY.source.draw([0], None, Key(0))[0]

    def act(how):
        parent = model.opening("1 + 1")
        requests = [Request(problem, how=how(i)) for i in range(4)]
        return [c.tokens.tobytes() for c in model.act([Ask(parent, len(parent.sequence), Sampling(max_tokens=5), Key(i), 0, r) for i, r in enumerate(requests)])]

    assert act(lambda i: Slots(2, "shortest", expected=float(i % 3))) == act(lambda i: None)
    assert "slots" in model.can
    with pytest.raises(UserError, match="cannot sample by str"):
        act(lambda i: "slowly")
