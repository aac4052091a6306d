"""InfiMed-ORBIT: signed rubrics and both filters by hand, retrieval by topic, and GRPO without rubrics and filters."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.infimed_orbit import UnmasteredChecklist, infimed_orbit, retrieved
from gradus.recipe.core import changes
from gradus.rewards.checklist import weighted_share
from gradus.rewards.judge import ScriptedPoints
from gradus.rewards.verified import Verified
from gradus.selection.filters import Everything
from gradus.testing.methods import TOY, check_micro_batches, toy_group, toy_trajectory, weights_after
from gradus.types import NOT_APPLICABLE, Frozen, Group, Key, UserError


@pytest.mark.parametrize(("met", "score"), [([1, 0, 1], 0.125), ([1, 1, 0], 1.0), ([0, 0, 1], 0.0)])
def test_signed_rubrics(met, score):
    assert weighted_share(met, [5, 3, -4]) == score


def test_a_mastered_criterion_and_a_mastered_prompt_are_dropped():
    rows = [[float(i < 7), float(i < 6)] for i in range(8)]
    assert infimed_orbit.reward.counting(rows, (("a", 1.0), ("b", 1.0))) == [1]
    assert infimed_orbit.reward.most == 0.75
    made = [toy_group(*rewards) for rewards in ([1, 0.6], [1, 0.5], [0, 0], [0, 0.1])]  # means 0.8, 0.75, 0, 0.05
    kept, dropped = infimed_orbit.selection.keep(made, Key(0))
    assert kept == made[1:]
    assert dropped == made[:1]


def test_a_prompt_whose_criteria_are_all_mastered_is_dropped_and_has_not_failed():
    t = toy_trajectory([2])
    problem = replace(t.problem, meta=Frozen({**t.problem.meta, "checklist": ("a", "b")}))
    rows = tuple(t.but(completion="ab", problem=problem, id=str(i)) for i in range(4))
    reward = UnmasteredChecklist(ScriptedPoints(Frozen({c: (lambda problem, text, c=c: c in text) for c in "ab"})))
    ((*found,),) = asyncio.run(reward.score([Group("g", rows)], {}, SimpleNamespace(task=TOY, note=lambda name, value: None)))
    group = Group("g", tuple(r.but(reward=j.reward) for r, j in zip(rows, found, strict=True)))
    assert [j.reward for j in found] == [1.0] * 4
    assert infimed_orbit.selection.keep([group], Key(0)) == ([], [group])


def judged(*rows):
    """The rewards of the rows (text, criteria) of one group, and the number of criteria that count."""
    counts = []
    checks = ScriptedPoints(Frozen({c: (lambda problem, text, c=c: c in text) for c in "abc"}))
    t = toy_trajectory([2])
    made = [replace(t.problem, meta=Frozen(checklist=criteria)) for _, criteria in rows]
    group = Group("g", tuple(t.but(completion=text, problem=p, id=str(i)) for i, ((text, _), p) in enumerate(zip(rows, made, strict=True))))
    ((*found,),) = asyncio.run(UnmasteredChecklist(checks).score([group], {}, SimpleNamespace(task=TOY, note=lambda name, value: counts.append(value))))
    return [j.reward for j in found], counts


def test_criteria_that_nearly_all_answers_meet_do_not_count():
    rows = [("ab" if i < 6 else "a" if i < 7 else "", ("a", "b")) for i in range(8)]  # a: 7 of 8, b: 6 of 8
    assert judged(*rows) == ([1.0] * 6 + [0.0] * 2, [1])
    criteria = ("a", "b", ("c", -1))
    assert judged(("ab", criteria), ("abc", criteria)) == ([1.0, 0.5], [3])  # all criteria count, so the group has rewards and can be dropped
    assert judged(("b", (("a", -1),)))[0] == [NOT_APPLICABLE]
    with pytest.raises(UserError, match=r"UnmasteredChecklist\.most"):
        UnmasteredChecklist(most=2.0)


TOPICS = {
    "fever": ["fever", "temperature", "chills", "sweat"], "heart": ["chest", "pulse", "palpitations", "pressure"], "skin": ["rash", "itch", "spots", "redness"],
    "stomach": ["nausea", "cramps", "vomiting", "appetite"],
}  # fmt: skip


def test_queries_retrieve_criteria_of_their_topic():
    rng = random.Random(0)
    base = [(topic, f"asks about {rng.choice(words)} and {rng.choice(words)} of the patient") for topic, words in TOPICS.items() for _ in range(10)]
    hits = 0
    for n in range(100):
        topic = list(TOPICS)[n % 4]
        query = f"the patient has {' and '.join(rng.sample(TOPICS[topic], 3))} since monday"
        hits += base[retrieved(query, [text for _, text in base], 1)[0]][0] == topic
    assert hits >= 90
    assert retrieved("nothing", ["a", "b"], 2) == [0, 1]
    assert retrieved("a", [], 2) == []


def test_without_rubrics_and_filters_it_is_grpo():
    plain = infimed_orbit.but(reward=Verified(), selection=Everything())
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (plain, grpo))
    assert torch.equal(one, other)
    assert set(changes(grpo, infimed_orbit)) == {"reward", "selection", "players.judge", "requires"}
    check_micro_batches(plain)
