"""Decoding by a rule: equal to the engine with a rule that changes nothing, whatever else is decoded, and with the log-probabilities of the rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.policies import engine, lockstep
from gradus.policies.engine import Job
from gradus.policies.heads import Heads
from gradus.policies.lockstep import generate_by_rule, rows_of
from gradus.rollouts.token_rules import Banned, Delta, GuidedByQ, Less, LessEach, MixtureOfModels
from gradus.types import Frozen, Key, Sampling, UserError
from tests.policies.full_forward import Plain
from tests.policies.test_engine import VOCAB, decoder, mixed_jobs, sample, text

torch.set_num_threads(1)


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def step(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(engine, "fits", lambda fused: False)
        monkeypatch.setattr(lockstep, "fits", lambda fused: False)


def drawn(rule: Any, networks: dict[str, Any], jobs: list[Job], **more: Any):
    def made(longest: int):
        each = {n: net if isinstance(net, tuple) else (net,) for n, net in networks.items()}
        return {n: rows_of(net[0], longest, *net[1:]) for n, net in each.items()}

    return generate_by_rule(made, rule, jobs, **{"end_tokens": (0,), "decode_text": text, "max_context": 160, **more})


def bits(samples):
    return [(s.tokens.tolist(), s.logprobs.tolist(), s.ended) for s in samples]


def other(seed: int = 9, **more):
    return decoder(**more).initialise(Key(seed))


def test_a_rule_that_changes_nothing_is_the_engine_to_the_bit():
    network, jobs = decoder(), mixed_jobs(70)
    rule = Delta("plus", "minus", 0.0)
    assert bits(drawn(rule, {"policy": network, "plus": other(), "minus": other(10)}, jobs)) == bits(sample(network, jobs))


def test_no_draw_depends_on_the_other_sequences():
    networks, jobs = {"policy": decoder(), "plus": other(), "minus": other(10)}, mixed_jobs(24)
    rule = Delta("plus", "minus", 0.7)
    together = bits(drawn(rule, networks, jobs))
    assert together == bits(drawn(rule, networks, jobs, rows=5))
    assert together[::-1] == bits(drawn(rule, networks, jobs[::-1], rows=7))
    assert [bits(drawn(rule, networks, [job]))[0] for job in jobs[:6]] == together[:6]
    assert together != bits(sample(networks["policy"], jobs))


def test_transformers_networks_take_part():
    jobs = mixed_jobs(8)
    ours = drawn(MixtureOfModels(Frozen(policy=1.0, second=2.0)), {"policy": decoder(), "second": other()}, jobs)
    theirs = drawn(MixtureOfModels(Frozen(policy=1.0, second=2.0)), {"policy": decoder(), "second": Plain(other())}, jobs)
    assert [s.tokens.tolist() for s in ours] == [s.tokens.tolist() for s in theirs]
    for one, two in zip(ours, theirs, strict=True):
        assert_close(torch.from_numpy(one.logprobs), torch.from_numpy(two.logprobs), atol=1e-4, rtol=0)


@pytest.mark.parametrize("hidden", [0, 8])
def test_log_probabilities_are_those_of_the_rule(hidden):
    """Read again with whole forward passes: the tempered log-softmax of the base plus the guidance from the head's row."""
    network, second, head = decoder(), other(), Heads(32, Key(3), ("v", "q"), vocab=VOCAB, hidden=hidden)
    with torch.no_grad():
        head.weight.mul_(300.0)  # a guidance that is felt
    rule = GuidedByQ("value", eta=0.5)
    jobs = [Job(np.array([3, 9, 4], np.int32), Sampling(temperature=t, max_tokens=20), key) for key, t in enumerate((1.0, 0.6))]
    moved = 0.0
    for job, found in zip(jobs, drawn(rule, {"policy": network, "value": (second, head, "q")}, jobs), strict=True):
        tokens = torch.from_numpy(np.concatenate([job.prefix, found.tokens]).astype(np.int64))[None]
        base, row = network(tokens)[0], head(second.hidden(tokens)[0], "q")
        guided = rule.logits({"policy": base, "value": row}, []) / job.sampling.temperature
        at = torch.arange(len(found.tokens)) + 2
        due = guided.log_softmax(-1).detach()[at, tokens[0, at + 1]]
        assert_close(torch.from_numpy(found.logprobs), due.detach(), atol=2e-5, rtol=0)
        moved = max(moved, float((due - (base.detach() / job.sampling.temperature).log_softmax(-1)[at, tokens[0, at + 1]]).abs().max()))
    assert moved > 0.1


def test_banned_tokens_never_come():
    jobs = [Job(np.array([5, 7], np.int32), Sampling(max_tokens=30), key) for key in range(6)]
    plain = np.concatenate([s.tokens for s in sample(decoder(), jobs, end_tokens=())])
    common = int(np.bincount(plain).argmax())
    found = np.concatenate([s.tokens for s in drawn(Banned(sequences=((common,),)), {"policy": decoder()}, jobs, end_tokens=())])
    assert common in plain
    assert common not in found


@dataclass(frozen=True)
class Wrong:
    kind: str
    players: tuple[str, ...] = ("policy",)

    def logits(self, rows, so_far):
        row = rows["policy"]
        return {"none": None, "shape": row[:, :3], "nan": row * float("nan"), "empty": torch.full_like(row, -torch.inf)}[self.kind]


@pytest.mark.parametrize(
    ("kind", "said"),
    [("none", "returned None; it must return logits of shape"), ("shape", r"of shape \[1, 3\]"), ("nan", "a row with NaN"), ("empty", "without any token")],
)
def test_wrong_logits_are_refused(kind, said):
    with pytest.raises(UserError, match=said):
        drawn(Wrong(kind), {"policy": decoder()}, [Job(np.array([5], np.int32), Sampling(max_tokens=3), 1)])


def test_a_player_can_read_another_text_in_place_of_the_prompt():
    """With weight 1 on a player that reads the prompts of other jobs, the tokens are those that this player draws after these prompts."""
    network, jobs = decoder(), mixed_jobs(12)
    read = [job.prefix for job in jobs[::-1]]
    rule = MixtureOfModels(Frozen(policy=0.0, other=1.0))
    greedy = [replace(job, sampling=replace(job.sampling, temperature=0.0, max_tokens=5, stops=())) for job in jobs]
    found = drawn(rule, {"policy": other(), "other": network}, greedy, prefixes={"other": read})
    alone = drawn(rule, {"policy": other(), "other": network}, [replace(job, prefix=p) for job, p in zip(greedy, read, strict=True)])
    assert [s.tokens.tolist() for s in found] == [s.tokens.tolist() for s in alone]
    assert bits(found) == bits(drawn(rule, {"policy": other(), "other": network}, greedy, prefixes={"other": read}, rows=5))


def test_each_sequence_has_the_text_of_its_own_rule():
    networks, jobs = {"policy": decoder(), "equivalent": other()}, mixed_jobs(6)
    rules = [Less(prompt=tuple(job.prefix.tolist())) for job in jobs[::-1]]
    joined = rules[0].joined(rules)
    assert isinstance(joined, LessEach)
    together = bits(drawn(joined, networks, jobs, prefixes=joined.prefixes(6)))
    for job, rule, found in zip(jobs, rules, together, strict=True):
        assert bits(drawn(rule, networks, [job], prefixes=rule.prefixes(1))) == [found]
