"""The task research: questions of one to three hops, or short reports, about linked pages that an explorer reads for the main agent."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from gradus.tasks.demonstrations import rehearsed
from gradus.tasks.generated import Draft, Generated
from gradus.tasks.text.research_environment import Desk, Research, page
from gradus.tasks.text.search_environment import chain
from gradus.tasks.text.search_qa import path, starts
from gradus.types import Frozen, Sampling, UserError
from gradus.types.parts import Task

LEVELS = (1, 3)  # fewest and most hops, or facts of a report


def research(level: int = 2, seed: int = 0, people: int = 800, top: int = 3, report: bool = False, direct: float = 0.5) -> Task:
    """Makes the task: answer questions of `level` hops through an explorer that searches and opens pages. The exact name earns the reward 1.

    `people`: number of people in the world, 4 to 10000. `top`: pages per search. `report`: the task is instead to draft a report about
    `level` facts, and the reward is the share of these facts that the report contains. `direct`: share of the demonstrations that ask the explorer for all
    hops together; the other demonstrations ask for one hop at a time.
    """
    if not 0 <= direct <= 1:
        raise UserError(f"research: `direct` is {direct}; give a share of the demonstrations, a number from 0 to 1")
    environment = Research(seed, people, top)
    source = Generated("research", partial(make, settings=environment, report=report, direct=direct), level, LEVELS)
    return Task(
        "research",
        source,
        replace(source, held_out=True),
        environment=environment,
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="answer questions, or write reports, through an explorer that searches and opens linked pages; a turn is a search or the answer",
        sampling=Sampling(max_tokens=64),
        level=level,
    )


def make(rng: Random, level: int, settings: Research, report: bool = False, direct: float = 0.5) -> Draft:
    """Draws a question whose answer differs from its first entity, or a report. The draft has the demonstration of the agent and its sub-agents."""
    world = settings.corpus
    kinds = [(entity, kind) for entity, kind in starts(settings.seed, settings.people) if len(world.facts[entity]) >= level or not report]
    while True:
        entity, kind = rng.choice(kinds)
        relations = tuple(rng.sample(sorted(world.facts[entity]), level)) if report else path(rng, kind, level)
        if relations is not None and (report or chain(world, entity, relations)[-1] != entity):
            break
    return _report(entity, relations, settings) if report else _question(entity, relations, settings, rng.random() < direct)


def _question(entity: str, relations: tuple[str, ...], settings: Research, direct: bool) -> Draft:
    reached = chain(settings.corpus, entity, relations)
    question = f"What is the {' of the '.join(reversed(relations))} of {entity}?"
    asked = [(relations, entity)] if direct else [((r,), of) for r, of in zip(relations, [entity, *reached[:-1]], strict=True)]
    actions = [f"search: {' of '.join(reversed(names))} of {of}" for names, of in asked]
    browsed = []
    for names, of in asked:
        *passed, last = chain(settings.corpus, of, names)
        browsed.append([*(f"open: {title}" for title in (of, *passed)), f"found: {last}"])
    actions.append(f"answer: {reached[-1]}")
    return _draft(question, "search: words, or answer: name", reached[-1], (), actions, browsed, settings)


def _report(entity: str, relations: tuple[str, ...], settings: Research) -> Draft:
    facts = tuple((relation, settings.corpus.facts[entity][relation]) for relation in relations)
    question = f"Report on the {', '.join(relations)} of {entity}."
    actions = [f"search: {entity}", f"write: {entity}", "done: report"]
    helpers = [[f"open: {entity}", f"found: {entity}"], [page(settings.corpus, entity)]]
    return _draft(question, "search: words, write: topic, check: outline, edit: report, or done: report", None, facts, actions, helpers, settings)


def _draft(
    question: str, verbs: str, answer: str | None, facts: tuple[tuple[str, str], ...], actions: list[str], helpers: list[list[str]], settings: Research
) -> Draft:
    pairs, errands = rehearsed(Desk(answer, facts, settings), actions, helpers)
    meta = Frozen(question=question, demonstration=pairs, errands=errands, **({"facts": facts} if facts else {}))
    return Draft(f"Write {verbs}\n{question}", answer, "\n".join(actions), question, meta)


