"""Questions of one to three hops and reports: read again by a parser of their own, their answers hold."""

from __future__ import annotations

import asyncio

import pytest

from gradus.rollouts.demonstrations import Demonstrations
from gradus.rollouts.episodes import Episodes
from gradus.tasks.text.research import research
from gradus.tasks.text.search_environment import corpus
from gradus.testing.methods import readable, scripted_world
from gradus.types import Key, Request, UserError


@pytest.mark.parametrize("level", [1, 2, 3])
def test_questions_and_answers(level: int) -> None:
    world = corpus(0, 800)
    searches = set()
    for problem in research(level).source.draw(range(60), level, Key(0)):
        question = problem.meta["question"]
        *relations, entity = question.removeprefix("What is the ").removesuffix("?").replace(" of the ", " of ").split(" of ")
        assert len(relations) == level
        answer = entity
        for relation in reversed(relations):  # the innermost first
            answer = world.facts[answer][relation]
        assert problem.answer == answer != entity
        calls = len(problem.meta["demonstration"]) - 1
        searches.add(calls)
        assert len(problem.meta["errands"]) == calls
        pages = [act for errand in problem.meta["errands"] for _, act in errand["demonstration"] if act.startswith("open: ")]
        assert len(pages) == level  # a page a hop, in one errand or in several
    assert searches == {1, level}


def test_reports() -> None:
    world = corpus(0, 40)
    for problem in research(2, people=40, report=True).source.draw(range(20), 2, Key(0)):
        relations, entity = problem.meta["question"].removeprefix("Report on the ").removesuffix(".").split(" of ", 1)
        assert problem.meta["facts"] == tuple((r, world.facts[entity][r]) for r in relations.split(", "))
        assert [errand["role"] for errand in problem.meta["errands"]] == ["explorer", "writer"]


@pytest.mark.parametrize("report", [False, True])
def test_a_demonstration_is_what_a_rollout_of_its_actions_records(report: bool) -> None:
    task = research(2, people=40, report=report, direct=0.0)

    def speak(ask):
        tags, meta = ask.request.tags, ask.request.problem.meta
        if "errand" in tags:
            at = tags.index("errand")
            errand = next(e for e in meta["errands"] if (e["role"], e["turn"]) == tags[at + 1 : at + 3])
            return errand["demonstration"][tags[-1]][1]
        return meta["demonstration"][tags[-1]][1]

    texts = []
    for rollout in (Episodes(), Demonstrations()):
        world, _ = scripted_world(task, speak)
        (problem,) = task.source.draw([0], 2, Key(0))

        async def both(rollout=rollout, world=world, problem=problem):
            return await rollout.run([Request(problem)], world), await world.aside()

        groups, aside = asyncio.run(both())
        assert groups[0].trajectories[0].value == 1.0
        texts.append([[(g.key, t.id, [readable(c.sequence) for c in t.contexts]) for t in g.trajectories] for g in (*groups, *aside)])
    assert texts[0] == texts[1]
    assert len(texts[0]) == (3 if report else 2)


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"research: `direct` is 2"):
        research(direct=2)
