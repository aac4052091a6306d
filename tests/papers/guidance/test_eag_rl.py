"""EAG-RL: overlap and form by hand, the entropy's clip, the guided tree search, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest

from gradus.objectives.trust import Clip, EntropyClip
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.eag_rl import SALIENT, CitedOverlap, GuidedTree, ListsFeatures, attention, cited, eag_rl
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import (
    TOY,
    check_bound_acts,
    check_same_update,
    loss_and_gradient,
    readable,
    scripted_world,
    toy_group,
    weights_after,
)
from gradus.types import Failed, Frozen, Problem, Request, UserError
from gradus.types.signals import Entropy

PROBLEM = Problem("p", "toy", text="q", answer="high", meta=Frozen({SALIENT: tuple("bcdaef")}))


def test_the_overlap_by_hand() -> None:
    texts = ("A b c: 1=high", "b c d:", "d c b:", "a: ", "b c d", ": =high", "b c d old: 1")
    assert [attention(PROBLEM, t, 3) for t in texts] == [0.5, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    assert attention(replace(PROBLEM, meta=Frozen({SALIENT: ()})), "a: 1", 3) == 0.0  # neither names a feature
    assert cited("b, d\nf: x: y") == ["b", "d", "f"]


def test_the_rewards_by_hand() -> None:
    group = toy_group(1, 1, 1)
    group = group.but(trajectories=tuple(t.but(problem=PROBLEM, completion=c) for t, c in zip(group.trajectories, ("a b c: 1", "x b: 1", "b"), strict=True)))
    (form,), (seen,) = (asyncio.run(part.score([group], {}, None)) for part in (ListsFeatures(), CitedOverlap(3)))
    assert [j.reward for j in form] == [1.0, 0.0, 0.0]
    assert [j.reward for j in seen] == pytest.approx([0.5, 1 / 3, 0.0])
    assert dict(eag_rl.reward.weights) == {"form": 0.1, "attention": 0.5}


def test_the_clip_reads_the_entropy_of_the_whole_batch() -> None:
    term = replace(eag_rl.objective["policy"])
    assert Entropy() in term.needs
    assert not term.separable


def at(ratio: float, advantages: tuple[float, float]):
    """The gradient of two answers of one token at this ratio. The first token has the entropy 0, the second one 1."""
    group = toy_group(1, 0, lengths=[1, 1])
    entropies = {Entropy(): {t.id: [float(i)] for i, t in enumerate(group.trajectories)}}
    ratios = replace(eag_rl.objective["policy"], ratio=FromOne())
    _, gradient, metrics = loss_and_gradient({"policy": ratios}, [group], [math.log(ratio)] * 2, advantages=advantages, signals=entropies)
    assert metrics["clip_share"] == sum(slope == 0 for slope in gradient) / 2
    return gradient


class FromOne:
    """A ratio to a probability of 1, for tests: its logarithm is the row itself."""

    separable = True
    against = "old"

    def log_ratio(self, logprobs, old, batch):
        return logprobs


def test_an_uncertain_token_may_rise_further() -> None:
    assert at(1.25, (1, 1)) == pytest.approx([0.0, -0.625])  # clipped at 1.2, not at 1.28; -1.25 / 2 answers
    assert at(1.3, (1, 1)) == [0.0, 0.0]
    assert at(1.1, (1, 1)) == pytest.approx([-0.55, -0.55])
    assert at(0.7, (-1, -1)) == [0.0, 0.0]  # the lower bound is 0.8 for both
    assert at(0.9, (-1, -1)) == pytest.approx([0.45, 0.45])
    assert at(1.5, (-1, -1)) == pytest.approx([0.75, 0.75])


def searched(speak, *, verify=None, **fields):
    asked = []

    def said(ask):
        asked.append(readable(ask.parent.sequence[: ask.at]))
        return speak(asked[-1], len(asked))

    task = replace(TOY, verify=verify or (lambda problem, text: float(text.endswith("=high"))))
    world, _ = scripted_world(task, said, reward=Verified())
    groups = asyncio.run(GuidedTree(**fields).run([Request(PROBLEM, count=8)], world))
    return groups, asked, world


def test_the_search_keeps_the_right_answer_with_the_largest_overlap() -> None:
    answers = {1: "a b: =high", 2: "b c d: =low", 3: "b c d: =high", 4: "b: =high"}
    (group,), asked, world = searched(lambda prompt, n: answers[n], simulations=4)
    (t,) = group.trajectories
    assert (t.completion, t.value, t.source) == ("b c d: =high", 1.0, "expert")
    assert readable(t.contexts[0].sequence) == "qb c d: =high|"  # imitated under the plain prompt
    assert asked == ["q\nlook at b c d"] * 4
    assert (world.notes["search/found"], world.notes["search/overlap"]) == (1.0, 1.0)
    unguided = sum(attention(PROBLEM, text, 3) for text in answers.values()) / 4
    assert world.notes["search/overlap"] > unguided
    groups, _, world = searched(lambda prompt, n: "b: =low", simulations=4)
    assert (groups, world.notes) == ([], {"search/found": 0.0})
    assert searched(lambda prompt, n: "=high", verify=lambda *_: Failed("no"), simulations=2)[0] == []


def test_the_tree_grows_by_steps_and_goes_down_by_uct() -> None:
    _, asked, _ = searched(lambda prompt, n: "b c =high" if n == 1 else "x y =low", simulations=4, children=2)
    # two children of the root ("b " and "x "), then the better one, "b ", gets two children of its own
    root = "q\nlook at b c d"
    assert asked == [root, root, f"{root}b ", f"{root}b "]
    (group,), asked, _ = searched(lambda prompt, n: "=high", simulations=3, children=1)  # answers of one step never become nodes
    assert len(asked) == 3
    (group,), _, _ = searched(lambda prompt, n: "b " + "c =high" if n == 1 else "d =high", simulations=2, children=1)
    assert group.trajectories[0].completion in ("b c =high", "b d =high")


def test_without_the_expert_it_is_grpo() -> None:
    own = eag_rl.but(schedule=ConstantSchedule(), reward=Verified(), objective__policy__trust=Clip(0.2, 0.2))
    base = grpo.but(objective__kl=None, players__reference=None, update__count=4)
    check_same_update(own, base)
    check_bound_acts(eag_rl.but(schedule=ConstantSchedule()), updates=4)


def test_both_stages_train_and_the_numbers() -> None:
    stages = eag_rl.schedule.stages
    assert list(stages) == ["search", "reinforce"]
    assert isinstance(stages["search"].changes["rollout"], GuidedTree)
    assert eag_rl.objective["policy"].trust == EntropyClip(0.2, 0.2, 0.28)
    start, after = (weights_after(eag_rl, steps=n, group=2, prompts=2)["policy.logits"] for n in (1, 2))
    assert start.shape == after.shape
    assert isinstance(GuidedTree().test, Auto)
    with pytest.raises(UserError, match=r"GuidedTree\.simulations"):
        GuidedTree(simulations=0)
