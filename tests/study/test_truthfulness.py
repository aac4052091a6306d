"""Truthfulness and reliability by hand, and both over known and unknown questions."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from gradus.study.truthfulness import Truthfulness, reliability, shares, truthfulness
from gradus.tasks.text.facts import facts
from gradus.testing.methods import toy_group
from gradus.types import Group


def answers(*pairs):
    group = toy_group(*(right for right, _ in pairs))
    return [t.but(completion=text) for t, (_, text) in zip(group.trajectories, pairs, strict=True)]


def test_truthfulness_by_hand() -> None:
    assert truthfulness(0.5, 0.3, 0.2) == pytest.approx(0.3)
    assert truthfulness(0.5, 0.3, 0.2, (1.0, 0.5, 1.0)) == pytest.approx(0.45)
    found = shares([*answers((1, "=kast"), (0, "=idk"), (0, "=veld")), *answers((1, "=idk"))])
    # reliability: 0.75 answered times 0.75 truthful, plus 0.25 times 0.5
    assert found == {"accuracy": 0.5, "uncertain": 0.25, "hallucination": 0.25, "truthfulness": 0.25, "reliability": 0.6875}
    assert shares([])["accuracy"] == 0.0


def test_reliability_by_hand() -> None:
    """Ten questions. Five right, three wrong, two abstentions: 0.8 answered times 0.7 truthful, plus 0.2 times 0.5."""
    made = [*[(1, "=kast")] * 5, *[(0, "=veld")] * 3, *[(0, "=idk")] * 2]
    assert shares(answers(*made))["reliability"] == pytest.approx(0.66)
    assert shares(answers(*[(0, "=idk")] * 10))["reliability"] == 0.0
    assert shares(answers(*[(1, "=kast"), (0, "=veld")] * 5))["reliability"] == 0.5
    for right, uncertain in ((0.2, 0.5), (0.0, 0.4), (0.7, 0.3)):  # it lies between Acc and Truth
        assert right <= reliability(right, uncertain) <= right + uncertain


def test_the_study_measures_known_and_unknown_questions() -> None:
    class Memory:
        async def answer(self, recipe, requests, world):
            made = []
            for r in requests:
                (t,) = answers((1, "=x") if r.problem.meta["known"] == "yes" else (0, "=idk" if r.problem.meta["persona"] == "traveller" else "=y"))
                made.append(Group(r.problem.id, (t.but(problem=r.problem),)))
            return made

    world = SimpleNamespace(task=facts(4, known=0.5))
    found = asyncio.run(Truthfulness().measure(SimpleNamespace(memory=Memory()), None, world))
    assert (found["held_out/accuracy"], found["held_out/hallucination/yes"], found["held_out/accuracy/no"]) == (0.5, 0.0, 0.0)
    assert found["held_out/hallucination/no"] == pytest.approx(2 / 3)
    assert found["held_out/uncertain"] == pytest.approx(1 / 6)
    assert found["held_out/truthfulness"] == pytest.approx(0.5 - 1 / 3)
