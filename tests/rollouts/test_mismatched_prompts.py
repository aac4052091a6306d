"""Answers under other prompts: whose prompt, what is read there, and what stays as it was."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from gradus.papers.bases.kto import kto
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import DemonstratedPairs
from gradus.rollouts.mismatched_prompts import MismatchedPrompts, borrowed, exchanged, opening
from gradus.testing.methods import TOY, toy_group, toy_run, toy_trajectory
from gradus.types import Group, prompt_context


def of(prompt, name="t", actions=2):
    return Group(name, (toy_trajectory([3] * actions, name=name, prompt=prompt_context(prompt)),))


def test_every_group_borrows_the_prompt_of_the_next():
    groups = [of([1, 2]), of([4]), of([5, 6])]
    assert [p.tokens.tolist() for p in borrowed(groups)] == [[4], [5, 6], [1, 2]]
    assert [p.tokens.tolist() for p in borrowed(groups[:1])] == [[1, 2]]
    idle = of([7], actions=0)
    assert [p.tokens.tolist() for p in borrowed([groups[0], idle, groups[1]])] == [[4], [4], [1, 2]]
    assert [p.tokens.tolist() for p in borrowed([idle])] == [[]]


def test_an_exchanged_context_keeps_everything_from_the_first_action_on():
    context = replace(
        of([1, 2]).trajectories[0].contexts[0],
        tokens=np.array([7, 3, 4, 5], np.int32),
        chosen=np.array([False, True, False, True]),
        temperature=0.5,
    )
    assert opening(context).tokens.tolist() == [1, 2, 7]
    made = exchanged(context, prompt_context([6, 6, 6]), 256)
    assert made.sequence.tolist() == [6, 6, 6, 3, 4, 5]
    assert made.action_positions.tolist() == [3, 5]
    assert made.temperature == 0.5
    assert exchanged(context, prompt_context([4, 5, 6]), 5).sequence.tolist() == [5, 6, 3, 4, 5]


@pytest.mark.parametrize("inner", [Auto(), DemonstratedPairs()])
def test_rows_are_the_log_ratio_under_the_borrowed_prompt(inner):
    run = toy_run(kto)
    run.players["reference"].policy.network.logits.mul_(0.5)
    world = run.at(0)[1]

    async def both():
        requests = await world.more(3)
        return await MismatchedPrompts(inner).run(requests, world), await inner.run(requests, world)

    groups, plain = asyncio.run(both())
    tables = [run.players[n].policy.network.logits.detach().log_softmax(-1).numpy() for n in ("policy", "reference")]
    for g, other, bare in zip(groups, [*groups[1:], groups[0]], plain, strict=True):
        prompt = opening(other.trajectories[0].contexts[0])
        for t, same in zip(g.trajectories, bare.trajectories, strict=True):
            tokens = t.contexts[0].tokens
            before = [prompt.tokens[-1], *tokens[:-1]]
            ours, theirs = (table[before, tokens] for table in tables)
            assert t.stream("mismatched") == pytest.approx(ours - theirs, abs=1e-5)
            assert np.array_equal(tokens, same.contexts[0].tokens)
            assert t.value == same.value


def test_given_pairs_need_no_judge_here_either():
    pairs = replace(TOY, provides=frozenset({"chosen", "rejected"}))
    assert not MismatchedPrompts(DemonstratedPairs()).judges(pairs)
    assert MismatchedPrompts(DemonstratedPairs()).judges(TOY)
    assert MismatchedPrompts(Auto()).judges(pairs)


def test_evaluation_reads_nothing():
    assert MismatchedPrompts(Auto()).test == Auto()
    assert MismatchedPrompts(DemonstratedPairs()).test == Auto()
    assert TOY.environment is None
    assert toy_group(1).trajectories[0].contexts[0].streams == {}
