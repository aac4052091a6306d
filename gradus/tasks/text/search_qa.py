"""The task search QA: questions of one to three hops about a made-up world. The tools are a search in the corpus of this world and an optional calculator."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from random import Random

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.generated import Draft, Generated
from gradus.tasks.text.search_environment import AGES, RELATIONS, Inquiry, SearchQA, chain, corpus, evidence, read_answer, solution
from gradus.types import Frozen, Key, Sampling, UserError
from gradus.types.parts import Task

INSTRUCTION = "Find it out. Write search: words, or answer: name"
LEVELS = (1, 3)  # fewest and most hops
ROLES = ("all", "start")
AT_ONCE = (0.6, 0.3)  # shares of the start model's demonstrations without a search: for known facts; for facts of a large world


def search_qa(
    level: int = 2, seed: int = 0, people: int = 800, top: int = 3, calculator: bool = False, instruction: bool = True, known: float = 0.0, role: str = "all"
) -> Task:
    """Makes the task: answer questions of `level` hops by BM25 search in a corpus. The exact name earns the reward 1.

    `seed` and `people` determine the corpus. `people`: number of people in the corpus, 4 to 10000. `top`: passages per search, 2 or more.
    `calculator`: the last hop is a person's age, and the question asks for the sum of this age and a number. `calculate: 31 + 12` is a second tool.
    `instruction`: whether the prompt says how to write searches and answers; turn it off for a recipe with its own tools.

    `known`: the share of the facts that a start model knows. Above 0, the column `known` is "yes" if all facts of a question are known, else "no". With
    `role` "start", the task trains this start model. In training, half of the questions are about known facts (also facts of held-out questions); the other
    half are about a large world whose facts cannot be learned. Some demonstrations search, and some answer immediately, so the start model does not choose
    well.
    Raises: UserError
    if `known` is out of range, for an unknown role, and for `known` together with `calculator`.
    """
    if not 0 <= known <= 1:
        raise UserError(f"task search_qa: `known` is {known}; give a share from 0 to 1")
    if role not in ROLES or (role == "start" and not known):
        raise UserError(
            f'task search_qa: `role` is "{role}" and `known` is {known:g}; `role` must be "all" or "start", and "start" needs `known` above 0'
        )
    if known and calculator:
        raise UserError("task search_qa: `known` and `calculator` are both set, but no model knows the ages that the calculator needs; leave one of them out")
    environment = SearchQA(seed, people, top, calculator=calculator)
    source = Generated("search_qa", partial(make, settings=environment, instruction=instruction, known=known), level, LEVELS)
    training = source if role == "all" else replace(source, make=partial(_shown, settings=environment, instruction=instruction, known=known), share=0.0)
    return Task(
        "search_qa",
        training,
        replace(source, held_out=True),
        environment=environment,
        provides=frozenset({"demonstration", "solution", "difficulty", "evidence", "queries"}),
        about="answer questions of several hops by searching a generated corpus; a turn is a search or the answer",
        sampling=Sampling(max_tokens=64),
        level=level,
        passages=lambda: environment.corpus.passages,
        reader=lambda problem, passages: read_answer(problem.meta["question"], passages),
    )


def make(rng: Random, level: int, settings: SearchQA, instruction: bool = True, known: float = 0.0) -> Draft:
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
    meta = Frozen(question=question, demonstration=pairs, **evidence(world, entity, relations))
    if known:
        facts = zip([entity, *chain(world, entity, relations)], relations, strict=False)
        meta = meta.replace(known="yes" if all(knows(settings.seed, of, relation, known) for of, relation in facts) else "no")
    return Draft(f"{INSTRUCTION}\n{question}" if instruction else question, answer, "\n".join(actions), question, meta)


def knows(seed: int, entity: str, relation: str, share: float) -> bool:
    """Returns whether the start model of a world knows a fact."""
    return float(Key(seed).fold("known", entity, relation).uniform()) < share


def _shown(rng: Random, level: int, settings: SearchQA, instruction: bool, known: float) -> Draft:
    """Draws a question for the start model. A share `AT_ONCE[0]` of the demonstrations about known facts answers without a search; for facts of a large
    world, this share is `AT_ONCE[1]`."""
    own = rng.random() < 0.5
    world = settings if own else replace(settings, seed=settings.seed + 1, people=800)
    draft = make(rng, level, world, instruction, known)
    while own and draft.meta["known"] == "no":
        draft = make(rng, level, world, instruction, known)
    if rng.random() >= AT_ONCE[0 if own else 1]:
        return draft
    return replace(draft, solution=f"answer: {draft.answer}", meta=Frozen({**draft.meta, "demonstration": [("", f"answer: {draft.answer}")]}))


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
    meta = Frozen(question=question, demonstration=pairs, **evidence(settings.corpus, entity, relations))
    return Draft(f"{told}\n{question}" if instruction else question, answer, "\n".join(actions), question, meta)


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
