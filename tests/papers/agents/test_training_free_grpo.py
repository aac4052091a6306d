"""Training-Free GRPO: no weight moves, the library alone changes, and only mixed groups change it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from gradus.papers.agents.training_free_grpo import training_free_grpo
from gradus.papers.bases.grpo import grpo
from gradus.recipe.compatibility import check_fit
from gradus.recipe.serialise import from_json, to_json
from gradus.rollouts.auto import Auto
from gradus.rollouts.experience_extractors import Written
from gradus.rollouts.experience_library import Add, edited
from gradus.study.held_out import HeldOut
from gradus.testing.methods import TOY, toy_run, train_toy
from gradus.training.launch import go
from gradus.training.state_format import join, split
from gradus.types import UserError
from gradus.types.signals import LogProb


@dataclass(frozen=True)
class Fixed:
    """The same texts after every batch."""

    texts: tuple[str, ...] = ()

    async def edits(self, groups, library, replay, world):
        return [Add(text) for text in self.texts]


@dataclass(frozen=True)
class Forbidden:
    """Must not be asked."""

    async def edits(self, groups, library, replay, world):
        raise AssertionError(f"asked about {[g.rewards.tolist() for g in groups]}")


def library_of(run):
    return run.memory.states["rollout"]["state"]["library"]


LETTERS = training_free_grpo.but(rollout__extractor__pattern="[a-z]")  # what the toy policy writes has no words


def trained(recipe=LETTERS, **options):
    seen = []
    return train_toy(recipe, watch=lambda run, metrics, groups: seen.append((list(library_of(run)), metrics, groups)), **options), seen


def test_no_weight_moves_and_the_library_changes():
    run = toy_run(LETTERS, steps=3)
    before = {name: t.clone() for name, t in run.players["policy"].tensors().items()}
    go(run)
    after = run.players["policy"].tensors()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert run.players["policy"].updates == 0
    assert not run.players["policy"].learns
    assert library_of(run)
    assert set(run.players) == {"policy"}


def test_every_later_prompt_begins_with_the_library():
    run, seen = trained(training_free_grpo.but(rollout__extractor=Fixed(("go left",))), steps=3)
    policy = run.players["policy"].policy
    prompts = [[(t.problem.text, t.contexts[0].prefix.tolist()) for g in groups for t in g.trajectories] for _, _, groups in seen]
    assert all(tokens == policy.opening(text).tokens.tolist() for text, tokens in prompts[0])
    assert seen[0][0] == ["go left"]
    for step in prompts[1:]:
        assert all(tokens == policy.opening(f"Experiences:\n[0] go left\n{text}").tokens.tolist() for text, tokens in step)
    assert seen[2][0] == ["go left"]  # added three times, kept once


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_groups_of_equal_rewards_ask_no_extractor_and_change_nothing(reward):
    task = replace(TOY, verify=lambda problem, completion: reward)
    run, _ = trained(training_free_grpo.but(rollout__extractor=Forbidden()), task=task, group=3)
    assert library_of(run) == []


def test_mixed_groups_do():
    with pytest.raises(UserError, match=r"Forbidden.edits raised AssertionError: asked about"):
        trained(training_free_grpo.but(rollout__extractor=Forbidden()), steps=2)


def test_with_an_empty_library_it_samples_what_grpo_samples_before_it_moves():
    _, mine = trained(training_free_grpo.but(rollout__extractor=Fixed()), steps=2)
    seen = []
    train_toy(grpo, steps=2, learning_rate=0.0, watch=lambda run, metrics, groups: seen.append(groups))
    for (_, _, ours), theirs in zip(mine, seen, strict=True):
        pairs = zip((t for g in ours for t in g.trajectories), (t for g in theirs for t in g.trajectories), strict=True)
        assert all(np.array_equal(a.contexts[0].tokens, b.contexts[0].tokens) and a.reward == b.reward for a, b in pairs)


def test_evaluation_reads_the_library():
    asked = []
    run = toy_run(training_free_grpo.but(rollout__extractor=Fixed(("go left",))), steps=1)
    run.recipe = run.recipe.but(study=HeldOut(problems=2, greedy=False))
    opening = run.players["policy"].policy.opening
    run.players["policy"].policy.opening = lambda prompt: asked.append(prompt) or opening(prompt)
    go(run)
    assert asked[:2] == ["a", "b"]  # before the first step
    assert asked[-2:] == ["Experiences:\n[0] go left\na", "Experiences:\n[0] go left\nb"]
    assert library_of(run) == ["go left"]


def test_the_library_is_stored_with_the_run():
    run, _ = trained(steps=2)
    document, arrays = split(run.memory.states)
    assert arrays == {}
    assert join(document, arrays) == run.memory.states


def test_a_run_goes_on_with_the_library_that_it_had():
    whole, seen = trained(steps=4)
    run = toy_run(LETTERS, steps=4)
    run.step, run.memory.states = (
        2,
        {"curriculum": {"part": "ShuffledEpochs", "state": {"drawn": 8}}, "rollout": {"part": "Recalling", "state": {"library": seen[1][0]}}},
    )
    go(run)
    assert library_of(run) == library_of(whole)


def test_what_it_spends_beyond_the_rollouts_is_counted_as_probes():
    _, seen = trained(steps=3)
    for _, metrics, groups in seen:
        assert metrics["tokens/rollout"] == sum(t.actions for g in groups for t in g.trajectories)
    assert any(metrics.get("tokens/probe", 0) > 0 for _, metrics, _ in seen[1:])  # replays without each text


def test_texts_are_cut_to_the_paper_s_length():
    assert training_free_grpo.rollout.words == 32
    assert [len(t.split()) for t in edited([], [Add("w " * 50)], words=32)] == [32]


def test_it_fits_where_log_probabilities_do_not_exist():
    run = toy_run(training_free_grpo)
    run.players["policy"].policy.offers = frozenset({"text"})
    check_fit(training_free_grpo, TOY, run.players)
    assert LogProb() not in {w for term in (training_free_grpo.objective or {}).values() for w in term.wants}


def test_it_is_stored_as_json():
    written = training_free_grpo.but(rollout__extractor=Written(player="writer"), rollout__most=None)
    assert from_json(to_json(written)) == written
    assert training_free_grpo.rollout.test.rollout == Auto()
