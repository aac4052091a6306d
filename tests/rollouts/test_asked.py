"""The sampling and the prompt of a request, and its division into answers."""

from __future__ import annotations

from dataclasses import replace

from gradus.rollouts.asked import prompt_before, sampling_of, single
from gradus.testing.methods import TOY, scripted_world
from gradus.types import Key, Request, Sampling

PROBLEM = TOY.source.draw([0], None, Key())[0]


def test_one_request_per_answer_keeps_the_numbers_of_samples():
    request = Request(PROBLEM, count=3, sample=5)
    assert [(r.count, r.sample) for r in single([request])] == [(1, 5), (1, 6), (1, 7)]


def test_the_sampling_of_the_request_comes_before_that_of_the_world():
    world, _ = scripted_world(TOY, lambda ask: "")
    own = Sampling(max_tokens=3)
    assert sampling_of(Request(PROBLEM), world) is world.sampling
    assert sampling_of(Request(PROBLEM, sampling=own), world) is own


def test_the_prompt_before_an_answer_ends_at_the_place_of_the_request():
    world, _ = scripted_world(TOY, lambda ask: "")
    whole = world.prompt(Request(PROBLEM))
    assert prompt_before(Request(PROBLEM), world).sequence.tolist() == whole.sequence.tolist()
    cut = prompt_before(replace(Request(PROBLEM), at=2), world)
    assert cut.sequence.tolist() == whole.sequence.tolist()[:2]
    assert (cut.parent, cut.actions) == (None, 0)
