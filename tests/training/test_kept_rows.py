"""Log-probabilities of constant players are read once per given or replayed answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.selection.replay import Replay
from gradus.testing.methods import toy_trajectory, train_toy
from gradus.training.kept_rows import PLACE, KeptRows, name_of
from gradus.training.state_format import join, split
from gradus.types import Context
from gradus.types.frozen import Frozen
from gradus.types.signals import Entropy, LogProbs

REFERENCE = LogProbs(player="reference")


def context(*tokens: int, **more) -> Context:
    return Context(np.array(tokens, np.int32), np.arange(len(tokens)) > 0, **more)


class Model:
    """Counts the contexts that it reads. The row of a context is its tokens."""

    def __init__(self, contexts):
        self.contexts, self.read = contexts, 0

    async def __call__(self, left):
        self.read += len(left)
        return [self.contexts[i].tokens[1:].astype(np.float32) for i in left]


def rows(kept, contexts, source="given", name="0/p/0"):
    model = Model(contexts)
    answers = [toy_trajectory([1]).but(source=source, id=name) for _ in contexts]
    found = asyncio.run(kept.read(REFERENCE, answers, contexts, model))
    return [row.tolist() for row in found], model.read


def test_a_given_answer_is_read_once():
    states = {}
    assert rows(KeptRows(states, {"reference"}, 0), [context(1, 2, 3), context(1, 4)]) == ([[2, 3], [4]], 2)
    assert rows(KeptRows(states, {"reference"}, 1), [context(1, 4), context(1, 5), context(1, 2, 3)]) == ([[4], [5], [2, 3]], 1)


def test_an_answer_of_this_step_is_not_kept_but_a_replayed_one_is():
    states = {}
    assert rows(KeptRows(states, {"reference"}, 7), [context(1, 2)], "policy", "7/p/0") == ([[2]], 1)
    assert PLACE not in states
    assert rows(KeptRows(states, {"reference"}, 8), [context(1, 2)], "policy", "7/p/0") == ([[2]], 1)
    assert rows(KeptRows(states, {"reference"}, 9), [context(1, 2)], "policy", "7/p/0") == ([[2]], 0)


def test_the_rows_of_the_oldest_steps_are_removed_first():
    states = {}
    for step, tokens in enumerate([(1, 2, 3), (1, 4, 5), (1, 6)]):
        rows(KeptRows(states, {"reference"}, step, most=4), [context(*tokens)])
    assert rows(KeptRows(states, {"reference"}, 4, most=4), [context(1, 4, 5), context(1, 6), context(1, 2, 3)])[1] == 1


def test_only_log_probabilities_of_constant_players_are_kept():
    kept = KeptRows({}, {"reference"}, 0)
    assert kept.keeps(REFERENCE)
    for signal in (LogProbs(), LogProbs(player="reference", fresh=True), Entropy(player="reference")):
        assert not kept.keeps(signal)


@pytest.mark.parametrize(
    "other",
    [
        context(1, 2, 4),
        Context(np.array([1, 2, 3], np.int32), np.array([False, False, True])),
        context(1, 2, 3, temperature=0.5),
        context(1, 2, 3, streams=Frozen(turn=np.zeros(2))),
    ],
)
def test_the_name_changes_with_everything_that_the_row_depends_on(other):
    assert name_of(REFERENCE, context(1, 2, 3)) == name_of(REFERENCE, replace(context(1, 2, 3), logprobs=np.zeros(2, np.float32)))
    assert name_of(REFERENCE, other) != name_of(REFERENCE, context(1, 2, 3))
    assert name_of(LogProbs(player="old"), context(1, 2, 3)) != name_of(REFERENCE, context(1, 2, 3))


REPLAY = Replay(size=8, batch=4)


@pytest.mark.parametrize("recipe", [grpo.but(selection=REPLAY), grpo.but(selection=REPLAY, update__count=2)])
def test_a_run_with_replay_reads_fewer_tokens_and_ends_with_the_same_weights(recipe, monkeypatch):
    kept = train_toy(recipe, steps=6)
    monkeypatch.setattr("gradus.training.run.constant", lambda run: set())
    plain = train_toy(recipe, steps=6)
    for name, weight in kept.players["policy"].policy.network.state_dict().items():
        assert torch.equal(weight, plain.players["policy"].policy.network.state_dict()[name])
    read = [sum(row["tokens/score/reference"] for row in run.metrics) for run in (kept, plain)]
    assert read[0] < read[1]
    assert [row["tokens/train"] for row in kept.metrics] == [row["tokens/train"] for row in plain.metrics]


def test_the_rows_can_be_stored_and_read_again():
    state = train_toy(grpo.but(selection=REPLAY), steps=4).memory.states[PLACE]
    stored = join(*split(state))
    for step, before in zip(stored["state"]["steps"], state["state"]["steps"], strict=True):
        for name in ("names", "counts", "rows"):
            np.testing.assert_array_equal(step[name], before[name])
