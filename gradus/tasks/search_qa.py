"""Search QA: questions of one to three hops over a made-up world, answered by searching its corpus."""

from __future__ import annotations

from functools import partial
from random import Random

from gradus.environments.search_qa import RELATIONS, Inquiry, SearchQA, chain, corpus, solution
from gradus.tasks.drawn import Drawn, Made, demonstrated, posed
from gradus.types import Sampling
from gradus.types.parts import Task

INSTRUCTION = "Find it out. Write search: words, or answer: name"
LEVELS = (1, 2, 3)  # hops


def search_qa(level: int = 2, seed: int = 0, people: int = 400, top: int = 3) -> Task:
    """Answer questions of `level` hops by BM25 search over a corpus that `seed` and `people` determine. Reward 1 for the exact name."""
    environment = SearchQA(seed, people, top)
    source = partial(Drawn, "search_qa", partial(make, settings=environment), LEVELS, level)
    return Task(
        "search_qa",
        source(),
        source(held_out=True, size=256),
        environment=environment,
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="answer questions of several hops by searching a generated corpus; a turn is a search or the answer",
        sampling=Sampling(max_tokens=64),
        level=level,
    )


def make(rng: Random, level: int, settings: SearchQA) -> Made:
    """A question whose answer is not the entity it starts from, and a search a hop as its demonstration."""
    world = corpus(settings.seed, settings.people)
    kinds = {entity: kind for kind in RELATIONS for entity in world.entities[kind]}
    starts = sorted(kinds)
    while True:
        entity = rng.choice(starts)
        relations = _path(rng, kinds[entity], level)
        if relations is not None and chain(world, entity, relations)[-1] != entity:
            break
    question = f"What is the {' of the '.join(reversed(relations))} of {entity}?"
    actions = solution(world, entity, relations)
    demonstration = demonstrated(Inquiry(question, chain(world, entity, relations)[-1], settings), actions)
    meta = {"question": question, "solution": "\n".join(actions), "demonstration": demonstration}
    return posed(INSTRUCTION, question, chain(world, entity, relations)[-1], meta)


def _path(rng: Random, kind: str, hops: int) -> tuple[str, ...] | None:
    """Relations that lead on from an entity of this kind, hop by hop; None where one leads to a thing that has none."""
    path: tuple[str, ...] = ()
    for _ in range(hops):
        if kind not in RELATIONS:
            return None
        relation = rng.choice(sorted(RELATIONS[kind]))
        path, kind = (*path, relation), RELATIONS[kind][relation]
    return path
