"""The task search QA: questions of one to three hops about a made-up world. The tools are a search in the corpus of this world and an optional calculator."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from random import Random

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.generated import Draft, Generated
from gradus.tasks.text.search_environment import AGES, RELATIONS, Inquiry, SearchQA, chain, corpus, solution
from gradus.types import Frozen, Sampling
from gradus.types.parts import Task

INSTRUCTION = "Find it out. Write search: words, or answer: name"
LEVELS = (1, 3)  # fewest and most hops


def search_qa(level: int = 2, seed: int = 0, people: int = 800, top: int = 3, calculator: bool = False, instruction: bool = True) -> Task:
    """Makes the task: answer questions of `level` hops by BM25 search in a corpus. The exact name earns the reward 1.

    `seed` and `people` determine the corpus. `people`: number of people in the corpus, 4 to 10000. `top`: passages per search, 2 or more.
    `calculator`: the last hop is a person's age, the question asks for the sum of this age and a number, and `calculate: 31 + 12` is a second tool.
    `instruction`: whether the prompt says how to write searches and answers; turn it off for a recipe with its own tools.
    """
    environment = SearchQA(seed, people, top, calculator=calculator)
    source = Generated("search_qa", partial(make, settings=environment, instruction=instruction), level, LEVELS)
    return Task(
        "search_qa",
        source,
        replace(source, held_out=True),
        environment=environment,
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="answer questions of several hops by searching a generated corpus; a turn is a search or the answer",
        sampling=Sampling(max_tokens=64),
        level=level,
        passages=lambda: environment.corpus.passages,
    )


def make(rng: Random, level: int, settings: SearchQA, instruction: bool = True) -> Draft:
    """Draws a question whose answer differs from its first entity. The demonstration has one search per hop, then the answer."""
    world = settings.corpus
    if settings.calculator:
        return _sum(rng, level, settings, instruction)
    while True:
        entity, kind = rng.choice(starts(settings.seed, settings.people))
        relations = path(rng, kind, level)
        if relations is not None and chain(world, entity, relations)[-1] != entity:
            break
    question = f"What is the {' of the '.join(reversed(relations))} of {entity}?"
    actions = solution(world, entity, relations)
    answer = chain(world, entity, relations)[-1]
    pairs = demonstrated(Inquiry(answer, settings), actions)
    return Draft(f"{INSTRUCTION}\n{question}" if instruction else question, answer, "\n".join(actions), question, Frozen(question=question, demonstration=pairs))


def _sum(rng: Random, level: int, settings: SearchQA, instruction: bool) -> Draft:
    """Draws a question that asks for an age plus a number. The demonstration has one search per hop, the sum, and the answer."""
    people = set(settings.corpus.entities["person"])
    while True:
        entity, kind = rng.choice(starts(settings.seed, settings.people))
        before = path(rng, kind, level - 1)
        if before is not None and [entity, *chain(settings.corpus, entity, before)][-1] in people:
            break
    relations, more = (*before, "age"), rng.randint(*AGES)
    *searches, told = solution(settings.corpus, entity, relations)
    age = int(told.removeprefix("answer: "))
    answer = str(age + more)
    question = f"What is the {' of the '.join(reversed(relations))} of {entity} plus {more}?"
    actions = [*searches, f"calculate: {age} + {more}", f"answer: {answer}"]
    pairs = demonstrated(Inquiry(answer, settings), actions)
    told = f"Find it out. Write {settings.verbs}"
    return Draft(f"{told}\n{question}" if instruction else question, answer, "\n".join(actions), question, Frozen(question=question, demonstration=pairs))


@cache
def starts(seed: int, people: int) -> tuple[tuple[str, str], ...]:
    """Returns (entity, kind) for every entity at which a question can start."""
    return tuple((entity, kind) for kind in RELATIONS for entity in corpus(seed, people).entities[kind])


def path(rng: Random, kind: str, hops: int) -> tuple[str, ...] | None:
    """Draws one relation per hop, starting at an entity of this kind. Returns None if an entity of the chain has no relations."""
    taken: tuple[str, ...] = ()
    for _ in range(hops):
        if kind not in RELATIONS:
            return None
        relation = rng.choice(sorted(RELATIONS[kind]))
        taken, kind = (*taken, relation), RELATIONS[kind][relation]
    return taken
