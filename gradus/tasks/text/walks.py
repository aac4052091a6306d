"""The task walks: a question describes the start of a walk over a graph of facts, names the relations of the walk, and asks for its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from random import Random

from gradus.environments.tools import Tools
from gradus.tasks.generated import Draft, Generated
from gradus.tasks.text.search_environment import Corpus, corpus
from gradus.tools.browse import Browsing, ClickLink, FindPages, OpenPage
from gradus.tools.forms import LineCalls
from gradus.tools.tool import Tool
from gradus.types import Frozen, Sampling
from gradus.types.parts import Task
from gradus.types.ranges import check_ranges

LEVELS = (1, 4)  # shortest and longest walk
TOP = 3  # pages that a search lists

@dataclass(frozen=True)
class Walks:
    """The world of the questions, and the smallest and largest number of edges that leave a node of a walk."""

    seed: int = 0
    people: int = 800
    least: int = 2
    most: int = 50

    def __post_init__(self) -> None:
        check_ranges(self, people="[4, 10000]", least="[1, inf)", most="[1, inf)")

    @property
    def world(self) -> Corpus:
        return corpus(self.seed, self.people, True)


def edges(world: Corpus, entity: str) -> dict[str, str]:
    """Returns the relations of an entity to other entities. A person's age is no edge."""
    return {relation: value for relation, value in world.facts.get(entity, {}).items() if relation != "age"}


def walk(rng: Random, world: Corpus, start: str, steps: int, least: int = 1, most: int = 50) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Draws a walk of this length from a start. Returns the relations and the nodes of the walk; no node occurs twice.

    The walk leaves only nodes with at least `least` and at most `most` edges. Returns None if the walk cannot go on.
    """
    nodes, relations = [start], list[str]()
    for _ in range(steps):
        known = edges(world, nodes[-1])
        going = sorted(relation for relation, value in known.items() if value not in nodes)
        if not going or not least <= len(known) <= most:
            return None
        relations.append(rng.choice(going))
        nodes.append(known[relations[-1]])
    return tuple(relations), tuple(nodes)


@dataclass(frozen=True)
class Clues:
    """The description of the start of a walk: the kind of the start node, facts about it that the walk does not use, and the decade of its age (None: no
    age)."""

    kind: str
    facts: tuple[tuple[str, str], ...]
    decade: int | None = None

    @property
    def words(self) -> str:
        """The description as text."""
        told = " and ".join(f"{relation} {value}" for relation, value in self.facts)
        return f"the {self.kind} with {told}" + ("" if self.decade is None else f", aged {self.decade} to {self.decade + 9}")

    def fit(self, world: Corpus, entity: str) -> bool:
        """Returns whether an entity fits the description."""
        own: Mapping[str, str] = world.facts[entity]
        aged = self.decade is None or int(own["age"]) // 10 * 10 == self.decade
        return aged and all(own.get(relation) == value for relation, value in self.facts)


def clues(world: Corpus, kind: str, relations: tuple[str, ...], nodes: tuple[str, ...]) -> Clues:
    """Describes the start of a walk without the names of its nodes."""
    told = tuple((r, v) for r, v in edges(world, nodes[0]).items() if r != relations[0] and v not in nodes)
    age = world.facts[nodes[0]].get("age")
    return Clues(kind, told, None if age is None else int(age) // 10 * 10)


def ends(world: Corpus, described: Clues, relations: tuple[str, ...]) -> list[str]:
    """Returns the end of every walk by these relations from a node that fits the description."""
    found = []
    for entity in world.entities[described.kind]:
        if described.fit(world, entity):
            for relation in relations:
                entity = edges(world, entity).get(relation, "")
            found.append(entity)
    return found


@dataclass(frozen=True)
class Library:
    """Gives the pages of a world."""

    seed: int
    people: int

    def __call__(self) -> Frozen[str]:
        return pages(self.seed, self.people)


def browser(found: Library | None = None) -> dict[str, Tool]:
    """Returns the tools of the task."""
    return {"search": FindPages(TOP, found), "click": ClickLink(), "open": OpenPage()}


@cache
def pages(seed: int, people: int) -> Frozen[str]:
    """Returns the pages of the world: the title is an entity, and the text names its relations. The values are links."""
    world = corpus(seed, people, True)
    rivers = dict.fromkeys(world.entities["river"], "a river")
    return Frozen({**{e: ", ".join(f"{r} {v}" for r, v in facts.items()) for e, facts in world.facts.items()}, **rivers})


def walks(level: int = 2, seed: int = 0, people: int = 800, instruction: bool = True) -> Task:
    """Makes the task: browse linked pages to find the end of a walk of `level` steps. The question only describes the start. The exact name earns the reward
    1.

    `seed` and `people` determine the world, as in search_qa. `instruction`: whether the prompt says how to write calls; turn it off for a recipe with
    its own tools.
    """
    settings = Walks(seed, people)
    source = Generated("walks", partial(make, settings=settings, instruction=instruction), level, LEVELS)
    return Task(
        "walks",
        source,
        replace(source, held_out=True),
        environment=Tools(browser(Library(seed, people)), form=LineCalls(), limit=10, describes=False),
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="find the end of a walk over a graph of facts by search, click and open on linked pages; the start of the walk is only described",
        sampling=Sampling(max_tokens=64),
        level=level,
        pages=Library(seed, people),
    )


def make(rng: Random, level: int, settings: Walks, instruction: bool = True) -> Draft:
    """Draws a walk. The description of the walk fits only one start, and the question names no node of the walk. The demonstration searches, clicks and opens."""
    world, kinds = settings.world, ("person", "company", "city")
    while True:
        kind = rng.choice(kinds)
        drawn = walk(rng, world, rng.choice(world.entities[kind]), level, settings.least, settings.most)
        if drawn is None:
            continue
        relations, nodes = drawn
        told = clues(world, kind, relations, nodes)
        question = f"What is the {' of the '.join(reversed(relations))} of {told.words}?"
        if told.facts and ends(world, told, relations) == [nodes[-1]] and not any(node in question for node in nodes):
            shown = rehearsed(settings, told, nodes)
            if shown is not None:
                break
    actions = [said for _, said in shown]
    prompt = f"Write search: words, click: number, open: page, or answer: name\n{question}" if instruction else question
    meta = Frozen(question=question, demonstration=shown, walk=nodes, hops=len(relations))
    return Draft(prompt, nodes[-1], "\n".join(actions), question, meta)


def rehearsed(settings: Walks, told: Clues, nodes: tuple[str, ...]) -> list[tuple[str, str]] | None:
    """Returns pairs (observation, action) of an episode that follows the walk. Returns None if the search does not list the start."""
    session = Browsing(pages(settings.seed, settings.people), TOP)
    query = " ".join(f"{relation} {value}" for relation, value in told.facts)
    listed, pairs = session.call(query), [("", f"search: {query}")]
    if nodes[0] not in session.listed:
        return None
    number = session.listed.index(nodes[0]) + 1
    pairs.append((listed, f"click: {number}"))
    seen = session.click(str(number)).text
    for node in nodes[1:-1]:
        pairs.append((seen, f"open: {node}"))
        seen = session.open(node).text
    return [*pairs, (seen, f"answer: {nodes[-1]}")]
