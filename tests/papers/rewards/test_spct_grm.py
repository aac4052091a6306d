"""SPCT: rewards, votes and the rejection by hand, hinted samples, other orders of the responses, who learns when, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.spct_grm import META, SAMPLE, AlsoHinted, RankedRightly, ScoreVote, spct_grm
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.text.scoring import scoring
from gradus.testing.methods import advantages_of, scripted_world, toy_group, toy_trajectory, train_toy, weights_after
from gradus.types import Failed, Frozen, Group, Key, Request

TASK = scoring(2)
PROBLEM = replace(
    TASK.source.draw([0], 2, Key())[0],
    id="p",
    messages=({"role": "user", "content": "zoo? A red B fox owl C tea"},),
    meta=Frozen(query="zoo", responses=("red", "fox owl", "tea"), preferred=1, solution="animals 0 2 0=1 7 1"),
)


def rewards_of(*completions, problem=PROBLEM, verify=TASK.verify):
    world, _ = scripted_world(replace(TASK, verify=verify), lambda ask: "", reward=spct_grm.reward)
    rows = tuple(toy_trajectory([1], name=f"t/{i}").but(completion=c, problem=problem) for i, c in enumerate(completions))
    return [j.reward for j in asyncio.run(spct_grm.reward.score([Group("g", rows)], {}, world))[0]]


def test_rewards_by_hand() -> None:
    first = replace(PROBLEM, meta=Frozen({**PROBLEM.meta, "preferred": 0}))
    assert rewards_of("x=7 4 5", "x=7 7 5", "x=4 7 5", "x=7 4", "7 4 5", problem=first) == [1, -1, -1, -1, -1]
    single = replace(PROBLEM, meta=Frozen({**PROBLEM.meta, "responses": ("red",), "preferred": 1}))
    assert rewards_of("=1", "=2", problem=single) == [1, -1]
    assert isinstance(rewards_of("=1 2 3", verify=lambda p, c: Failed("late"))[0], Failed)


def test_advantages_by_hand() -> None:
    # one right of four: mean -0.5, deviation sqrt(0.75)
    (row,) = advantages_of(spct_grm.credit, toy_group(1, -1, -1, -1, lengths=[1] * 4))
    assert [a[0] for a in row] == pytest.approx([1.7321, -0.5774, -0.5774, -0.5774], abs=1e-3)


def world_of(speak, **players):
    world, policy = scripted_world(TASK, speak, reward=Verified())
    for name in players:
        world.players[name] = world.players["policy"]
    return world, policy


def asked_text(policy, ask):
    return policy.text(ask.parent.sequence)


def test_the_hinted_sample_stands_under_the_plain_prompt() -> None:
    world, policy = world_of(lambda ask: "=1 9 1" if "best: 2" in asked_text(policy, ask) else "=9 1 1")
    (group,) = asyncio.run(AlsoHinted().run([Request(PROBLEM, 3)], world))
    assert [(t.completion, t.value, t.source) for t in group.trajectories] == [*[("=9 1 1", 0.0, "policy")] * 3, ("=1 9 1", 1.0, "expert")]
    prompts = {policy.text(t.contexts[0].sequence[: int(t.contexts[0].action_positions[0])]) for t in group.trajectories}
    assert len(prompts) == 1


def test_wrong_samples_and_too_easy_items_are_dropped() -> None:
    def group(name, *verdicts, hinted=0.0):
        rows = toy_group(*verdicts, hinted, key=name).trajectories
        rows = tuple(t.but(completion=f"{name}{i}", problem=replace(t.problem, id=name)) for i, t in enumerate(rows))
        return Group(name, (*rows[:-1], rows[-1].but(source="expert")))

    easy = [group("easy", 1, 1, 1, hinted=1.0), group("plain", 1, 1, 1)]
    made = RankedRightly().rows([*easy, group("mixed", 0, 1, 1), group("hard", 0, 0, 0, hinted=1.0), group("lost", 0, 0, 0)])
    assert [row["solution"] for row in made] == ["mixed1", "mixed2", "hard3"]
    assert [row["problem"].id for row in made] == ["mixed", "mixed", "hard"]
    assert RankedRightly().rows([group("mixed", 0, 1, 1).but(aside=True)]) == []


def test_each_stage_has_its_learner() -> None:
    stages = spct_grm.schedule.stages
    assert list(stages) == ["sample", "tune", "reinforce", "meta"]
    assert (stages["tune"].task, stages["tune"].start, SAMPLE["setting.group"], SAMPLE["setting.learning_rate"]) == ("made:sample", "first", 3, 0.0)
    assert (spct_grm.setting.group, spct_grm.objective["kl"].coefficient, META["search"]) == (4, 0.08, ScoreVote(32, 0.5, "meta"))
    changes = {name.replace(".", "__"): value for name, value in {**META, "search": None, "schedule": ConstantSchedule()}.items()}
    run = train_toy(spct_grm.but(**changes), steps=2)
    assert [run.players[name].updates for name in ("policy", "meta")] == [0, 2]


def test_with_the_plain_verdict_it_is_grpo() -> None:
    base = grpo.but(objective__kl__coefficient=0.08, setting__group=4)
    plain = spct_grm.but(schedule=ConstantSchedule(), players__meta=None)
    exact, signed, ours = (weights_after(r, steps=3)["policy.logits"] for r in (base, plain, plain.but(reward=Verified())))
    assert torch.equal(exact, ours)
    torch.testing.assert_close(signed, exact, rtol=0, atol=1e-9)  # 2 r - 1 has the same normalised advantages
