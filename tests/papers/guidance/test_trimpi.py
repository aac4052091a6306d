"""TriMPI: which tokens each stage learns, the mixed group by hand, the plain prompt of every answer, and GRPO at the limit."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from gradus.objectives.kl import KL
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.guidance.trimpi import PolicyRollout, WholeText, documented, reading, trimpi
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import Demonstrations
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.text.service_desk import service_desk
from gradus.testing.methods import TOY, advantages_of, check_micro_batches, readable, scripted_world, weights_after
from gradus.testing.methods.tasks import TOY_DOCUMENTS
from gradus.types import Frozen, Key, Problem, Request, UserError

CHAT = Problem("p", "t", messages=({"role": "user", "content": "x"},), answer="b", meta=Frozen(document="PQ", solution="yb"))
RAW = Problem("r", "t", text="x", answer="b", meta=Frozen(document="PQ", solution="yb"))


def learned(rollout, problem):
    world, _ = scripted_world(TOY, lambda ask: "sampled")
    ((t,),) = (g.trajectories for g in asyncio.run(rollout.run([Request(problem)], world)))
    (context,) = t.contexts
    return readable(context.sequence), readable(context.sequence[context.action_positions])


def test_reading_learns_document_request_and_reply_and_imitation_the_reply_alone():
    whole, parts = learned(WholeText(), CHAT)
    assert whole == "<u>PQ\nx|<a>yb|"
    assert parts == whole.removeprefix("<u>")  # weight 1 for every token but the very first
    assert learned(Demonstrations(), CHAT) == ("<u>x|<a>yb|", "yb|")  # weight 0 for the request
    assert learned(WholeText(), RAW) == ("PQ\nxyb|", "Q\nxyb|")
    assert WholeText().test == Auto()
    assert not WholeText().judges(TOY)


def played(count, say, share=0.5, problem=RAW, notes=None):
    asked = []

    def speak(ask):
        asked.append(readable(ask.parent.sequence))
        return say(len(asked) - 1)

    world, _ = scripted_world(TOY, speak, reward=Verified())

    async def score(contexts, want, player="policy", **_):
        return [np.full(c.actions, -len(c.prefix) / 2) for c in contexts]

    world.score = score
    (group,) = asyncio.run(PolicyRollout(share=share).run([Request(problem, count=count)], world))
    if notes is not None:
        notes.update(world.notes)
    return group, asked


def test_the_mixed_group_by_hand():
    """Rewards 0 0 0 0 | 1 1 1 0: mean 0.375, population deviation sqrt(0.375 * 0.625) = 0.4841."""
    notes = {}
    group, asked = played(8, lambda i: "b" if 4 <= i < 7 else "a", notes=notes)
    assert notes["with_document"] == 0.75
    assert group.rewards.tolist() == [0, 0, 0, 0, 1, 1, 1, 0]
    assert group.rewards.mean() == 0.375
    assert asked == ["x"] * 4 + ["PQ\nx"] * 4
    assert [readable(t.contexts[0].sequence) for t in group.trajectories] == [f"x{a}|" for a in "aaaabbba"]  # the document is in no trained prompt
    assert {t.source for t in group.trajectories} == {"policy"}
    assert group.pool == tuple(group.rewards)
    (rows,) = advantages_of(trimpi.credit, group)
    assert [row[0] for row in rows] == pytest.approx([-0.7746] * 4 + [1.2910] * 3 + [-0.7746], abs=1e-4)
    assert len({t.id for t in group.trajectories}) == 8


def test_the_old_probabilities_of_all_answers_are_those_after_the_plain_prompt():
    """So the ratio is 1 before the first update. The score of this world is minus half the length of the prompt: 1 letter without the document, 4 with it."""
    group, _ = played(4, lambda i: "b")
    own, read = group.trajectories[0].contexts[0], group.trajectories[2].contexts[0]
    assert own.logprobs.tolist() == [-0.125, -0.25]  # as sampled
    assert read.logprobs.tolist() == [-0.5, -0.5]  # after the plain prompt
    assert own.sequence.tolist() == read.sequence.tolist()


@pytest.mark.parametrize(("count", "share", "read"), [(8, 0.5, 4), (5, 0.5, 2), (1, 0.5, 0), (8, 0.25, 2), (8, 0.0, 0)])
def test_the_number_of_answers_with_the_document(count, share, read):
    group, asked = played(count, lambda i: "b", share)
    assert len(group.trajectories) == count
    assert [a for a in asked if a.startswith("PQ")] == ["PQ\nx"] * read


def test_a_problem_without_document_is_refused():
    with pytest.raises(UserError, match='add the column "document"'):
        played(2, lambda i: "b", problem=Problem("n", "t", text="x", answer="b"))
    with pytest.raises(UserError, match=r"PolicyRollout\.share"):
        PolicyRollout(share=1.0)


def test_the_prompt_is_at_least_80_percent_shorter_than_with_the_document():
    world, _ = scripted_world(TOY, lambda ask: "a")
    for level in (1, 2, 3):
        for p in service_desk(level=level).source.draw(range(20), None, Key(0)):
            (message,) = documented(Request(p), world)
            assert len(p.question) <= 0.2 * len(message["content"]) or level == 1
            assert message["content"] == f"{p.meta['document']}\n{p.question}"


def test_three_stages_and_grpo_at_the_limit():
    stages = trimpi.schedule.stages
    assert list(stages) == ["read", "imitate", "practise"]
    assert (stages["read"].recipe, stages["imitate"].recipe, stages["practise"].recipe) == (reading, sft, None)
    assert set(changes(sft, reading)) == {"rollout", "requires"}
    assert (trimpi.setting.group, trimpi.rollout.share, trimpi.objective["policy"].trust, trimpi.objective["kl"]) == (8, 0.5, Clip(0.2, 0.3), KL(0.01))
    bare = grpo.but(objective__kl__coefficient=0.01, objective__policy__trust__high=0.3, setting__group=8)
    alone = trimpi.but(schedule=ConstantSchedule(), rollout__share=0.0)
    one, other, mixed = (
        weights_after(r, steps=3, task=TOY_DOCUMENTS)["policy.logits"] for r in (alone, bare, alone.but(rollout__share=0.5))
    )
    assert torch.equal(one, other)
    assert not torch.equal(one, mixed)
    check_micro_batches(trimpi.but(schedule=ConstantSchedule()), task=TOY_DOCUMENTS)
