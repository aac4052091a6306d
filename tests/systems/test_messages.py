"""What processes ask of each other survives the way there: contexts with their origins, wants, samples."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from gradus.policies.prefix_sharing import families
from gradus.systems.link import packed_arrays, unpacked_arrays
from gradus.systems.messages import (
    Errand,
    contexts_from,
    contexts_message,
    sampled_from,
    samples_asked,
    samples_message,
    samples_wanted,
    wants_from,
    wants_json,
)
from gradus.types import Context, Ended, Frozen, Key, Problem, Request, Sampling, UserError, prompt_context
from gradus.types.samplers import Drawing, Ode, Sde
from gradus.types.signals import EntropyOf, LogProb, LogProbs, MatchingError, Viewed, Want
from gradus.types.slots import Slots


def sent(message):
    """A message after its way over the wire."""
    import json

    document, arrays = message
    return json.loads(json.dumps(document)), unpacked_arrays(packed_arrays(arrays))


def context(tokens, chosen, parent=None, **more):
    return Context(np.array(tokens, np.int32), np.array(chosen, bool), parent=parent, **more)


def related():
    """A prompt, two answers to it, a third that left the first after five tokens, and a prompt that somebody answered within."""
    prompt = prompt_context([5, 6, 7])
    first = context([1, 2, 3], [1, 1, 1], (prompt, 3), temperature=0.7)
    second = context([4], [1], (prompt, 3))
    fork = context([9, 8], [0, 1], (first, 5))
    return [second, fork, first, context([3, 4, 5], [0, 1, 0])]


def test_contexts_arrive_as_they_were():
    before = related()
    after = contexts_from(*sent(contexts_message(before, streams=False)))
    for a, b in zip(before, after, strict=True):
        assert a.sequence.tolist() == b.sequence.tolist()
        assert a.chosen.tolist() == b.chosen.tolist()
        assert (len(a.prefix), a.temperature, a.actions) == (len(b.prefix), b.temperature, b.actions)
    assert families(before) == families(after)  # the prefixes that are computed once


def test_what_several_go_on_from_is_sent_once():
    document, arrays = contexts_message(related(), streams=False)
    assert len(arrays["lengths"]) == 5  # four contexts and one prompt
    after = contexts_from(*sent((document, arrays)))
    assert after[0].parent[0] is after[2].parent[0]
    assert after[1].parent[0] is after[2]


def test_streams_arrive_with_their_types_where_they_are_read():
    streams = {"key": np.array([2**64 - 1, 3], np.uint64), "latent": np.array([[0.5, 1.5], [2.5, -1.0]]), "turn": np.array([0, 1])}
    before = [context([0, 0], [1, 1], streams=Frozen(streams))]
    (after,) = contexts_from(*sent(contexts_message(before, streams=True)))
    for name, values in streams.items():
        assert after.streams[name].dtype == values.dtype
        assert after.streams[name].tolist() == values.tolist()
    assert not contexts_from(*sent(contexts_message(before, streams=False)))[0].streams


def test_wants_are_sent_by_class_and_fields():
    wants = (LogProb(), EntropyOf(), MatchingError(3), LogProbs(player="reference", fresh=True))
    document, _ = sent(({"wants": wants_json(wants)}, {}))
    assert tuple(wants_from(document["wants"])) == wants


def test_a_want_of_ones_own_is_refused():
    @dataclass(frozen=True)
    class Mine(Want):
        pass

    with pytest.raises(UserError, match=r"Mine is your own class.*leave --processes out"):
        wants_json((Mine(),))


def test_samples_are_asked_for_and_given_back():
    first, second = related()[2], related()[0]
    asked = [
        Errand(first, 4, Sampling(temperature=0.5, stops=("a", "b")), Key(2**64 - 1), 3),
        Errand(second, 4, Sampling(temperature=0.0), Key(1), 3),
        Errand(second, 4, Sampling(temperature=0.5, stops=("a", "b")), Key(7), 3),
    ]
    wanted = samples_wanted(*sent(samples_asked(asked)))
    for a, w in zip(asked, wanted, strict=True):
        assert w.parent.sequence.tolist() == a.parent.sequence[: a.at].tolist()
        assert (w.at, w.sampling, w.key) == (a.at, a.sampling, a.key)
    assert [w.request.how for w in wanted] == [None] * 3
    drawn = [context([1, 2], [1, 1], logprobs=np.array([-0.5, -1.5], np.float32), ended=Ended.LENGTH, temperature=0.5)] + [
        context([n], [1], logprobs=np.array([-n], np.float32), temperature=heat) for n, heat in ((3, 1.0), (4, 0.5))
    ]
    found = sampled_from(*sent(samples_message(drawn)), asked)
    assert [c.tokens.tolist() for c in found] == [[1, 2], [3], [4]]
    assert [c.logprobs.tolist() for c in found] == [[-0.5, -1.5], [-3], [-4]]
    assert [c.ended for c in found] == [Ended.LENGTH, Ended.STOP, Ended.STOP]
    assert [c.temperature for c in found] == [0.5, 1.0, 0.5]  # greedy tokens carry their log-probability at temperature 1
    assert found[0].parent == (first, 4)
    assert found[0].versions.tolist() == [3, 3]
    assert found[0].logprobs.dtype == np.float32


def test_drawing_rules_and_conditions_arrive_where_a_policy_reads_them():
    hows = (Drawing(Ode(4)), Drawing(Sde(steps=3), "steps"), None)
    problems = [Problem(f"p{i}", "flow_2d", meta={"condition": (0.1 * i, float(i)), "other": object()}) for i in range(3)]
    asked = [Errand(prompt_context([]), 0, Sampling(), Key(i), request=Request(p, how=h)) for i, (p, h) in enumerate(zip(problems, hows, strict=True))]
    wanted = samples_wanted(*sent(samples_asked(asked, conditions=True)))
    assert [w.request.how for w in wanted] == list(hows)
    assert [w.request.problem.meta["condition"] for w in wanted] == [p.meta["condition"] for p in problems]
    assert "conditions" not in samples_asked(asked)[0]


def test_slots_arrive_with_the_expected_length_of_each_request():
    hows = [Slots(4, "shortest", 0.2, 17.5), None, Slots(4, "shortest", 0.2, 3.0)]
    asked = [Errand(prompt_context([5]), 1, Sampling(), Key(i), request=Request(Problem("p", "p"), how=how)) for i, how in enumerate(hows)]
    document, arrays = samples_asked(asked)
    assert [got.request.how for got in samples_wanted(json.loads(json.dumps(document)), arrays)] == hows


def test_samples_of_every_kind_come_back_whole():
    """A controller's action with streams and no end of its own, a sample without log-probabilities, a token that was not chosen."""
    prompt = prompt_context([0])
    asked = [Errand(prompt, 1, Sampling(), Key(i), 4) for i in range(3)]
    drawn = [
        context([0], [1], logprobs=np.array([-2.0], np.float32), temperature=0.0, streams=Frozen(action=np.array([[0.5, -1.0]], np.float32))),
        context([0, 0], [1, 1], streams=Frozen(key=np.array([2**64 - 1, 3], np.uint64))),
        context([7, 8], [0, 1], logprobs=np.array([-1.0], np.float32), ended=Ended.LENGTH),
    ]
    found = sampled_from(*sent(samples_message(drawn)), asked)
    for before, after in zip(drawn, found, strict=True):
        assert after.tokens.tolist() == before.tokens.tolist()
        assert after.chosen.tolist() == before.chosen.tolist()
        assert (after.logprobs is None) == (before.logprobs is None)
        assert after.logprobs is None or after.logprobs.tolist() == before.logprobs.tolist()
        assert {n: (a.dtype, a.tolist()) for n, a in after.streams.items()} == {n: (a.dtype, a.tolist()) for n, a in before.streams.items()}
        assert (after.temperature, after.ended, after.parent) == (before.temperature, before.ended, (prompt, 1))
        assert after.versions.tolist() == [4] * before.actions


def test_tensors_of_every_type_that_weights_have():
    before = {str(t): torch.arange(3).to(t) for t in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool)}
    after = unpacked_arrays(packed_arrays(before))
    assert all(after[n].dtype == t.dtype and torch.equal(after[n], t) for n, t in before.items())
    assert unpacked_arrays(packed_arrays({})) == {}


def test_any_want_of_the_library_goes_to_another_process():
    from gradus.types.readers import AttentionStat, Hidden, LogProbsOf, LookBack

    wants = (LogProb(), Hidden(3, "mean"), AttentionStat((0, 2), LookBack(7)), LogProbsOf("rivals"), Viewed(EntropyOf(), Masked(0.25)))
    document = json.loads(json.dumps(wants_json(wants[:-1])))
    assert tuple(wants_from(document)) == wants[:-1]
    with pytest.raises(UserError, match="Viewed is your own class, which other processes do not know"):
        wants_json(wants)


@dataclass(frozen=True)
class Masked:
    """A view of this test module, which no other process can import."""

    share: float

    def of(self, context: Context, key: Key) -> Context:
        return context
