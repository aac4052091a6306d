"""SemanticGRPO: reward by hand, embeddings of windows, the contrastive loss by hand, who learns when, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import gradus
from gradus.objectives.contrastive import Contrastive
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.semantic_reward_grpo import ENCODER, LikeReference, semantic_reward_grpo
from gradus.rewards.combine import Sum
from gradus.rewards.likeness import Embedded, Worded
from gradus.rewards.stated_facts import StatedFacts
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.text.explained import explained
from gradus.testing.methods import TOY, advantages_of, check_same_update, scripted_world, toy_group, toy_trajectory, train_toy
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Group, Key, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Judgement
from gradus.types.signals import Signal


class Given:
    """A likeness that the explanation names."""

    def __init__(self, **values):
        self.values, self.pairs = values, []

    async def alike(self, pairs, world):
        self.pairs += pairs
        return [self.values[said] for said, _ in pairs]


def judged(likeness, *completions, solution="due=b", verify=lambda p, c: float(c.endswith("=b"))):
    meta = Frozen({"solution": solution} if solution else {})
    rows = tuple(toy_trajectory([1], name=f"t/{i}").but(completion=c) for i, c in enumerate(completions))
    rows = tuple(t.but(problem=replace(t.problem, meta=meta)) for t in rows)
    reward = semantic_reward_grpo.reward
    reward = Sum(Frozen({**reward.parts, "semantic": LikeReference(likeness)}), reward.weights)
    world, _ = scripted_world(TOY, lambda ask: "b", reward=Verified())
    world.task = replace(TOY, verify=verify)
    return asyncio.run(reward.score([Group("g", rows)], {}, world))[0]


def test_the_reward_by_hand() -> None:
    likeness = Given(good=0.8, bad=-0.2)
    found = judged(likeness, "good=b", "bad=b", "good=a", "good", "bad=a")
    # 0.5 * 0.8 + 0.4 + 0.1; a negative cosine counts 0; a wrong answer; neither an answer nor the form; only the form
    assert [j.reward for j in found] == pytest.approx([0.9, 0.5, 0.5, 0.4, 0.1])
    assert [j.components["semantic"] for j in found] == pytest.approx([0.8, 0, 0.8, 0.8, 0])
    assert {due for _, due in likeness.pairs} == {"due"}  # the explanation of the reference, without its answer
    assert [row[0] for row in advantages_of(semantic_reward_grpo.credit, toy_group(0.9, 0.5, lengths=[1, 1]))[0]] == pytest.approx([1, -1], abs=1e-3)


def test_without_a_reference_and_with_a_failed_verdict() -> None:
    (found,) = judged(Given(), "good=b", solution=None)
    assert found.components["semantic"] is NOT_APPLICABLE
    assert found.reward == pytest.approx(0.5)
    (found,) = judged(Given(good=0.8), "good=b", verify=lambda p, c: Failed("broken"))
    assert isinstance(found.reward, Failed)


def test_only_the_encoder_learns_in_its_stage() -> None:
    stages = semantic_reward_grpo.schedule.stages
    assert list(stages) == ["pretrain", "imitate", "encoder", "reinforce"]
    assert (stages["encoder"].changes, stages["reinforce"].players) == (ENCODER, Frozen(encoder="encoder.encoder"))
    changes = {name.replace(".", "__"): value for name, value in {**ENCODER, "schedule": ConstantSchedule()}.items()}
    first = train_toy(semantic_reward_grpo.but(**changes), steps=2)
    second = train_toy(semantic_reward_grpo.but(schedule=ConstantSchedule()), steps=2)
    assert [[run.players[name].updates for name in ("policy", "encoder")] for run in (first, second)] == [[0, 2], [2, 0]]


def test_with_the_verdict_alone_it_is_grpo() -> None:
    check_same_update(semantic_reward_grpo.but(reward=Verified(), schedule=ConstantSchedule(), players__encoder=None), grpo)


def test_overlap_prefers_the_words_of_the_reference_to_its_facts() -> None:
    """In most pairs ROUGE-L ranks a shuffled text with a wrong fact above the same facts in another wording."""
    problems = explained().source.draw(range(50), 2, Key(0))
    pairs = [pair for p in problems for pair in ((p.meta["documents"][1], p.meta["documents"][0]), (spoilt(p), p.meta["documents"][0]))]
    found = asyncio.run(Worded().alike(pairs, SimpleNamespace()))
    assert np.mean(np.array(found[::2]) > np.array(found[1::2])) < 0.9
    stated = asyncio.run(StatedFacts().score([Group("g", (toy_trajectory([1]).but(problem=p, completion=spoilt(p)),)) for p in problems], {}, None))
    assert all(row[0].reward < 1 for row in stated)


@dataclass(frozen=True)
class Ranked:
    """A reward that notes how often a likeness ranks another wording above a shuffled text with a wrong fact."""

    likeness: Any
    name: ClassVar[str] = "ranked"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True

    async def score(self, groups, signals, world):
        problems = explained().held_out.draw(range(100), 2, Key(3))
        due = [p.meta["documents"][0] for p in problems]
        alike = await self.likeness.alike([(p.meta["documents"][1], d) for p, d in zip(problems, due, strict=True)], world)
        wrong = await self.likeness.alike([(spoilt(p), d) for p, d in zip(problems, due, strict=True)], world)
        share = float(np.mean(np.array(alike) > np.array(wrong)))
        return [[Judgement(share) for _ in g.trajectories] for g in groups]


@pytest.mark.nightly
def test_the_trained_encoder_ranks_other_wordings_above_wrong_facts() -> None:
    """The encoder after 60 steps is right in at least 90 of 100 pairs, and ROUGE-L in fewer."""
    steps = {"pretrain": 1, "imitate": 1, "encoder": 60, "reinforce": 1}
    recipe = semantic_reward_grpo.but(**{f"schedule__stages__{name}__until": Steps(n) for name, n in steps.items()}, reward=Ranked(Embedded()))
    small = {"setting__prompts": 8, "setting__group": 4, "setting__learning_rate": 1e-3, "study": None}
    run = gradus.train(recipe, "explained", model="gradus/policies/tiny/base", steps=63, **small)
    overlap = asyncio.run(Ranked(Worded()).score([Group("g", (toy_trajectory([1]),))], {}, None))[0][0].reward
    assert run.metrics[-1]["reward"] >= 0.9 > overlap


def spoilt(p):
    """Returns the words of the reference in another order, with another town."""
    town, towns = p.meta["facts"]["town"], p.meta["pools"]["town"]
    other = towns[(towns.index(town) + 1) % len(towns)]
    words = p.meta["documents"][0].replace(town, other).split()
    return " ".join(words[1:] + words[:1])


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="window"):
        Embedded(window=1)
    with pytest.raises(UserError, match="tau"):
        Contrastive(tau=0.0)
    with pytest.raises(UserError, match="rouge"):
        Worded("rouge")
