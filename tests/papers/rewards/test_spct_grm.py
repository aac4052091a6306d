"""SPCT: rewards, votes and the rejection by hand, hinted samples, other orders of the responses, who learns when, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.spct_grm import META, SAMPLE, AlsoHinted, RankedRightly, ScoreVote, spct_grm, voted
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.text.scoring import scores_of, scoring
from gradus.testing.methods import TOY, advantages_of, scripted_world, toy_group, toy_trajectory, train_toy, weights_after
from gradus.types import Failed, Frozen, Group, Key, Request, UserError
from gradus.types.signals import Value

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


def test_votes_by_hand() -> None:
    samples = [[3, 5], [6, 4], [2, 7]]
    assert voted(samples, None, 0.5) == [11, 16]
    assert voted(samples, [0.9, 0.1, 0.8], 2 / 3) == [5, 12]
    assert voted(samples, [0.9, 0.1, 0.8], 0.5) == [5, 12]  # half of three is two
    assert voted(samples, [0.1, 0.9, 0.9], 1 / 3) == [6, 4]  # of equals the earlier one
    assert voted([[3, 5]], [0.0], 0.5) == [3, 5]


def world_of(speak, **players):
    world, policy = scripted_world(TASK, speak, reward=Verified())
    for name in players:
        world.players[name] = world.players["policy"]
    return world, policy


def asked_text(policy, ask):
    return policy.text(ask.parent.sequence)


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_vote_is_in_the_order_of_the_problem(shuffled) -> None:
    """The script scores the response "fox owl" with 9, "red" with 4 and "tea" with 2, wherever they stand."""
    seen = []

    def speak(ask):
        text = asked_text(policy, ask)
        seen.append(text)
        places = {name: text.index(name) for name in ("red", "fox", "tea")}
        return "=" + " ".join({"red": "4", "fox": "9", "tea": "2"}[name] for name in sorted(places, key=places.__getitem__))

    world, policy = world_of(speak)
    (group,) = asyncio.run(ScoreVote(8, meta=None, shuffled=shuffled).run([Request(PROBLEM, 2)], world))
    assert [scores_of(t.completion, 3) for t in group.trajectories] == [(4, 9, 2)] * 2
    assert [t.value for t in group.trajectories] == [1.0, 1.0]
    assert {t.problem.id for t in group.trajectories} == {"p"}
    assert len(seen) == 16
    assert (len(set(seen)) > 3) == shuffled


def test_a_bias_for_a_place_is_averaged_out() -> None:
    """A script that prefers the first place, and the response "fox owl" a little, is wrong in one sample and right in a vote over shuffled samples."""

    def speak(ask):
        text = asked_text(policy, ask)
        ranks = sorted(("red", "fox", "tea"), key=text.index)
        return "=" + " ".join(str([5, 1, 1][i] + 2 * (name == "fox")) for i, name in enumerate(ranks))

    world, policy = world_of(speak)
    one, many, fixed = (
        asyncio.run(ScoreVote(k, meta=None, shuffled=s).run([Request(PROBLEM)], world))[0].trajectories[0].value
        for k, s in ((1, False), (64, True), (64, False))
    )
    assert (one, many, fixed) == (0.0, 1.0, 0.0)


def test_the_meta_model_picks_the_samples() -> None:
    said = iter(["=1 9 1", "=9 1 1", "nothing", "=1 8 1"] * 2)
    world, _ = world_of(lambda ask: next(said), meta=True)

    async def score(contexts, want, player):
        assert (want, player) == (Value(), "meta")
        values = {"1": 0.1, "9": 0.9, "n": 5.0}
        return [np.array([0.0, values[world.text(c.tokens[c.chosen])[1:2] if world.text(c.tokens[c.chosen])[0] == "=" else "n"]]) for c in contexts]

    world.score = score
    (group,) = asyncio.run(ScoreVote(4, keep=1 / 3, shuffled=False).run([Request(PROBLEM)], world))
    assert scores_of(group.trajectories[0].completion, 3) == (9, 1, 1)  # the unreadable sample has no vote, although its value is the largest
    (group,) = asyncio.run(ScoreVote(4, meta=None, shuffled=False).run([Request(PROBLEM)], world))
    assert scores_of(group.trajectories[0].completion, 3) == pytest.approx((11 / 3, 6, 1))


def test_without_a_readable_sample_the_first_one_is_kept() -> None:
    world, _ = world_of(lambda ask: "none")
    (group,) = asyncio.run(ScoreVote(2, meta=None).run([Request(PROBLEM)], world))
    assert (group.trajectories[0].completion, group.trajectories[0].value) == ("none", 0.0)
    with pytest.raises(UserError, match="responses"):
        asyncio.run(ScoreVote(2, meta=None).run([Request(TOY.source.draw([0], None, Key())[0])], world))


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

    made = RankedRightly().rows([group("easy", 1, 1, 1, hinted=1.0), group("mixed", 0, 1, 1), group("hard", 0, 0, 0, hinted=1.0), group("lost", 0, 0, 0)])
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
