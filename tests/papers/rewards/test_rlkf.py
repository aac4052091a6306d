"""RLKF: pairs by hand, with and without labels, refusals among solutions, who learns when, and PPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.bases.ppo import ppo
from gradus.papers.rewards.rlkf import JUDGE, SAMPLE, KnowledgePairs, SomeRefusals, rlkf
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import TOY, check_different_update, check_same_update, scripted_world, toy_group, train_toy
from gradus.types import Frozen, Key, Request, UserError


def samples(*pairs):
    """Eight answers to a question: (verdict, text), the last one repeated."""
    pairs = [*pairs, *[pairs[-1]] * (8 - len(pairs))]
    group = toy_group(*(right for right, _ in pairs))
    return group.but(trajectories=tuple(t.but(completion=text) for t, (_, text) in zip(group.trajectories, pairs, strict=True)))


def pairs_of(group, **fields):
    return [(row["chosen"], row["rejected"]) for row in KnowledgePairs(**fields).rows([group])]


RIGHT, OTHER, WRONG, REFUSED = (1, "=kast"), (0, "=oren"), (0, "=veld"), (0, "=idk")


def test_a_known_question_puts_the_refusal_between_right_and_wrong() -> None:
    six = samples(*[RIGHT] * 6, WRONG, OTHER)
    assert pairs_of(six) == [("=kast", "=veld"), ("=kast", "=idk"), ("=idk", "=veld")]
    assert pairs_of(samples(RIGHT)) == [("=kast", "=idk")]  # all right
    assert pairs_of(samples(*[RIGHT] * 4, REFUSED)) == [("=kast", "=idk")]  # exactly half right; refusals are not wrong


def test_an_unknown_question_has_the_refusal_on_the_winning_side() -> None:
    assert pairs_of(samples(WRONG)) == [("=idk", "=veld")]
    assert pairs_of(samples(*[RIGHT] * 3, WRONG)) == [("=kast", "=veld"), ("=idk", "=veld")]  # 3 of 8: neither known nor unknown
    assert pairs_of(samples(REFUSED)) == []
    assert pairs_of(samples(*[RIGHT] * 3, WRONG), cut=0.375) == [("=kast", "=veld"), ("=kast", "=idk"), ("=idk", "=veld")]


def test_without_labels_the_consistency_decides() -> None:
    """Verdicts are not read: the same texts with other verdicts give the same pairs."""
    for verdict in (0, 1):
        four = samples(*[(verdict, "=veld")] * 4, OTHER, RIGHT, REFUSED)
        assert pairs_of(four, labelled=False) == [("=veld", "=idk")]
        three = samples(OTHER, *[(verdict, "x=veld")] * 3, OTHER, RIGHT, REFUSED)
        assert pairs_of(three, labelled=False) == [("=idk", "x=veld")]
    assert pairs_of(samples((1, "a=veld"), *[(0, "b=veld")] * 6, OTHER), labelled=False) == [("a=veld", "=idk")]  # the first text of the answer
    assert pairs_of(samples(REFUSED), labelled=False) == []


def test_questions_are_gathered_over_groups() -> None:
    one = samples(RIGHT)
    half = one.but(trajectories=one.trajectories[:4])
    wrong = samples(WRONG)
    rows = KnowledgePairs().rows([half, wrong.but(trajectories=wrong.trajectories[:4])])
    assert [(r["chosen"], r["rejected"]) for r in rows] == [("=kast", "=veld"), ("=kast", "=idk"), ("=idk", "=veld")]
    assert KnowledgePairs().rows([wrong.but(aside=True)]) == []
    assert KnowledgePairs().provides == {"chosen", "rejected"}


def test_some_solutions_are_refusals() -> None:
    world, _ = scripted_world(TOY, lambda ask: "b", reward=Verified())
    requests = [Request(p) for p in TOY.source.draw(range(400), None, Key())]
    shares = {}
    for share in (0.0, 0.05, 1.0):
        groups = asyncio.run(SomeRefusals(share).run(requests, world))
        shares[share] = sum(t.completion == "=idk" for g in groups for t in g.trajectories) / 400
    assert (shares[0.0], shares[1.0]) == (0.0, 1.0)
    assert 0.02 < shares[0.05] < 0.09
    assert all(t.source == "expert" for g in groups for t in g.trajectories)


def test_each_stage_has_its_learner() -> None:
    stages = rlkf.schedule.stages
    assert [stages[n].start for n in ("judge", "policy")] == ["begin", "begin"]
    assert (stages["judge"].task, stages["policy"].players) == ("made:sample", Frozen(judge="judge.judge"))
    assert (SAMPLE["setting.group"], SAMPLE["setting.learning_rate"], rlkf.credit.coefficient) == (8, 0.0, 0.1)
    plain = {"schedule": ConstantSchedule()}
    judge = train_toy(rlkf.but(**{name.replace(".", "__"): value for name, value in {**JUDGE, **plain}.items()}), steps=2, task=PAIRS)
    policy = train_toy(rlkf.but(**plain), steps=2)
    names = ("policy", "judge")
    assert [[run.players[name].updates > 0 for name in names] for run in (judge, policy)] == [[False, True], [True, False]]


class Pairs:
    size = None

    def draw(self, indices, level, key):
        return [replace(p, meta=Frozen({**p.meta, "chosen": p.answer, "rejected": "a"})) for p in TOY.source.draw(indices, level, key)]


PAIRS = replace(TOY, source=Pairs(), provides=TOY.provides | {"chosen", "rejected"})


def test_with_the_verdict_as_reward_it_is_ppo() -> None:
    plain = rlkf.but(reward=Verified(), schedule=ConstantSchedule(), players__judge=None)
    check_same_update(plain, ppo.but(credit__coefficient=0.1))
    check_different_update(rlkf.but(schedule=ConstantSchedule()), ppo.but(credit__coefficient=0.1))


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="cut"):
        KnowledgePairs(cut=0.0)
    with pytest.raises(UserError, match="share"):
        SomeRefusals(2.0)
