"""Walks: their nodes and edges, descriptions that fit one start, demonstrations that earn the reward, and the contract of tasks."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.tasks.text.search_environment import Corpus
from gradus.tasks.text.walks import Clues, Walks, clues, edges, ends, pages, walk, walks
from gradus.testing.methods.scripted import follow_demonstration, scripted_world
from gradus.types import Frozen, Key, Request

FACTS = Frozen({"A": Frozen(r="B", s="C"), "B": Frozen(r="A", t="C", u="D"), "C": Frozen(v="A"), "D": Frozen()})
SMALL = Corpus(Frozen(thing=("A", "B", "C", "D")), FACTS, ())


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_walk_visits_different_nodes_along_edges(steps: int) -> None:
    settings, rng = Walks(people=200), Random(0)
    world = settings.world
    found = [walk(rng, world, start, steps, settings.least, settings.most) for start in world.entities["person"][:60]]
    assert sum(one is not None for one in found) > 20
    for relations, nodes in (one for one in found if one is not None):
        assert (len(nodes), len(relations), len(set(nodes))) == (steps + 1, steps, steps + 1)
        for before, relation, after in zip(nodes, relations, nodes[1:], strict=False):
            assert world.facts[before][relation] == after
            assert 2 <= len(edges(world, before)) <= 50


def test_hubs_and_dead_ends_are_not_left() -> None:
    ways = {walk(Random(i), SMALL, "A", 2) for i in range(30)}
    assert ways == {(("r", "t"), ("A", "B", "C")), (("r", "u"), ("A", "B", "D")), None}  # C leads back to A
    assert {walk(Random(i), SMALL, "A", 2, most=2) for i in range(30)} == {None}  # B has three edges
    assert {walk(Random(i), SMALL, "B", 1, least=4) for i in range(9)} == {None}
    assert walk(Random(0), SMALL, "D", 1) is None
    assert walk(Random(0), SMALL, "A", 0) == ((), ("A",))


def test_a_description_has_no_node_of_the_walk() -> None:
    facts = Frozen({"A": Frozen(r="B", s="C", q="B", age="34"), "B": Frozen(), "E": Frozen(r="C", s="C", age="39"), "F": Frozen(s="C", age="40")})
    world = Corpus(Frozen(thing=("A", "E", "F")), facts, ())
    told = clues(world, "thing", ("r",), ("A", "B"))
    assert told == Clues("thing", (("s", "C"),), 30)
    assert told.words == "the thing with s C, aged 30 to 39"
    assert [told.fit(world, e) for e in ("A", "E", "F")] == [True, True, False]
    assert ends(world, told, ("r",)) == ["B", "C"]  # two starts fit


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_questions_have_one_answer_and_name_no_node(level: int) -> None:
    task = walks(level, people=200)
    world = Walks(people=200).world
    for problem in task.source.draw(range(15), level, Key(0)):
        nodes, question = problem.meta["walk"], problem.meta["question"]
        assert problem.answer == nodes[-1]
        assert len(nodes) == level + 1 == len(set(nodes))
        assert not any(node in question for node in nodes)
        asked = question.removeprefix("What is the ").removesuffix("?")
        parts, told = asked.rsplit(" of the ", 1)
        kind, _, rest = told.partition(" with ")
        facts, _, age = rest.partition(", aged ")
        pairs = [tuple(one.split(" ", 1)) for one in facts.split(" and ")]
        found = []
        for entity in world.entities[kind]:  # by hand
            own = world.facts[entity]
            if all(own.get(r) == v for r, v in pairs) and (not age or own["age"][0] == age[0]):
                for relation in reversed(parts.split(" of the ")):
                    entity = world.facts.get(entity, {}).get(relation, "")
                found.append(entity)
        assert found == [problem.answer]


@pytest.mark.parametrize("level", [1, 3])
def test_the_demonstration_earns_the_reward(level: int) -> None:
    task = walks(level, people=40)
    for problem in task.source.draw(range(5), level, Key(1)):
        world, _ = scripted_world(task, follow_demonstration, reward=EnvironmentReturn())
        (group,) = asyncio.run(Episodes().run([Request(problem, 1)], world))
        (one,) = group.trajectories
        assert (one.value, one.links["turns"], one.links["invalid"]) == (1.0, level + 2, 0)
        assert [name for _, name, _ in one.links["calls"]] == ["search", "click", *["open"] * (level - 1)]


def test_pages_link_to_pages() -> None:
    made = pages(0, 40)
    assert len(made) == 40 + 3 * 10
    person = Walks(people=40).world.entities["person"][0]
    assert made[person].startswith("home ")
    assert "age " in made[person]
