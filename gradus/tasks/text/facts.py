"""The task facts: the policy answers questions about made-up documents from memory."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from gradus.tasks.data.pipeline import FactPair, SourceDocument, pairs_of
from gradus.tasks.kinds import verify_exact
from gradus.types import Frozen, Key, Problem, Sampling, UserError, unknown
from gradus.types.parts import Task

TOWNS = ("kast", "veld", "oren", "mira", "tolm", "brig", "sund", "lave")
JOBS = ("smith", "baker", "nurse", "pilot", "judge", "miner", "tailor", "painter")
PETS = ("goat", "cat", "hen", "crow", "pony", "toad", "duck", "mule")

SENTENCES: Mapping[str, tuple[str, tuple[str, ...]]] = Frozen(
    town=("{name} lives in {value}", TOWNS), job=("{name} works as a {value}", JOBS), pet=("{name} keeps a {value}", PETS)
)
"""Relation -> (sentence of a document, values)."""

WORDINGS: Mapping[str, tuple[str, ...]] = Frozen(
    town=("where does {name} live", "which town is {name} in", "home of {name}", "town where {name} lives"),
    job=("which work does {name} do", "which job has {name}", "job of {name}", "trade of {name}"),
    pet=("which animal does {name} keep", "which pet has {name}", "pet of {name}", "animal of {name}"),
)
"""Relation -> wordings of its question. Only the evaluation uses the last wording."""

PERSONAS: Mapping[str, str] = Frozen(traveller="town", employer="job", neighbour="pet")
"""Persona -> the relation that it asks about."""


def facts(documents: int = 16, seed: int = 0, known: float = 1.0, role: str = "all") -> Task:
    """Makes the task: answer questions about `documents` documents, 1 to 400, of three facts each. The policy sees only the question.

    The pipeline of `tasks/data/pipeline` makes the training questions from the documents; a grammar of templates replaces the language model.
    Held-out questions ask for the same facts in other words, so they measure memory. `seed`: another seed gives other documents. The `meta` of a problem has
    its document in `documents`, and also `source_id`, `domain` and `persona`.

    `known`: the share of the documents that a start model knows. With a share below 1, the column `known` is "yes" for questions about known
    documents, and "no" for all other questions. With `role` "start" the task trains this start model. Training has only questions about known documents. The
    solution of every fifth question is "=idk", so the start model sometimes abstains. Raises: UserError if `documents` or `known`
    is out of range, or for an unknown role.
    """
    if not 1 <= documents <= 400:
        raise UserError(f"task facts: `documents` is {documents}; give a number from 1 to 400")
    if not 0 < known <= 1:
        raise UserError(f"task facts: `known` is {known}; give a share above 0, up to 1")
    if role not in ("all", "start"):
        raise unknown("role", role, ("all", "start"), "Of task facts")
    training, held_out = _made(documents, seed)
    if known < 1:
        training, held_out = (tuple(_marked(p, known * documents) for p in problems) for problems in (training, held_out))
    if role == "start":
        training = tuple(_hesitant(p) if i % 5 == 4 else p for i, p in enumerate(p for p in training if p.meta.get("known") != "no"))
    return Task(
        "facts",
        Listed(training),
        Listed(held_out),
        verify_exact,
        provides=frozenset({"solution", "documents"}),
        about='made-up facts from memory: "where does bako live" -> "=kast"; documents: how many',
        sampling=Sampling(max_tokens=12),
        chance=1 / 8,
    )


def _marked(problem: Problem, known: float) -> Problem:
    """Adds the column `known`: whether the number of the document is below `known`."""
    return replace(problem, meta=Frozen({**problem.meta, "known": "yes" if int(problem.meta["source_id"].rpartition("-")[2]) < known else "no"}))


def _hesitant(problem: Problem) -> Problem:
    return replace(problem, meta=Frozen({**problem.meta, "solution": "=idk"}))


@dataclass(frozen=True)
class Listed:
    """A source of listed problems. Index i gives problem i modulo the number of problems."""

    problems: tuple[Problem, ...]

    @property
    def size(self) -> int:
        return len(self.problems)

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        return [self.problems[i % len(self.problems)] for i in indices]


@dataclass(frozen=True)
class TemplateWriter:
    """A grammar in place of a language model. The grammar knows the facts of each document."""

    known: Mapping[str, Mapping[str, str]]  # id of a document -> relation -> value
    names: Mapping[str, str]  # id of a document -> the name in it

    def domain(self, document: SourceDocument) -> str | None:
        return "people" if document.id in self.known else None

    def personas(self, document: SourceDocument) -> Sequence[str]:
        return tuple(PERSONAS)

    def pairs(self, document: SourceDocument, persona: str) -> Sequence[tuple[str, str]]:
        """Returns the questions in all wordings except the last, which is for evaluation."""
        relation = PERSONAS[persona]
        return [(w.format(name=self.names[document.id]), self.known[document.id][relation]) for w in WORDINGS[relation][:-1]]


@cache
def _made(count: int, seed: int) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Returns the training problems, from the pipeline, and the held-out problems."""
    rng = Key(seed).fold("facts").random()
    names: list[str] = []
    while len(names) < count:
        name = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(2 if seed % 2 == 0 else 3))
        names += [name] if name not in names else []
    known = {f"facts-{seed}-{i}": {r: rng.choice(values) for r, (_, values) in SENTENCES.items()} for i in range(count)}
    named = dict(zip(known, names, strict=True))
    documents = [SourceDocument(i, _text(named[i], known[i], rng)) for i in known]
    held = [
        FactPair(WORDINGS[r][-1].format(name=named[d.id]), known[d.id][r], "people", persona, d.text, d.id)
        for d in documents
        for persona, r in PERSONAS.items()
    ]
    pairs, _ = pairs_of(documents, TemplateWriter(known, named), evaluation=[pair.question for pair in held])
    return tuple(map(_problem, pairs)), tuple(map(_problem, held))


def _text(name: str, values: Mapping[str, str], rng: random.Random) -> str:
    """Returns a document: a sentence for each fact, in random order."""
    sentences = [SENTENCES[r][0].format(name=name, value=value) for r, value in values.items()]
    rng.shuffle(sentences)
    return ". ".join(sentences) + "."


def _problem(pair: FactPair) -> Problem:
    meta = Frozen(
        solution=f"={pair.answer}", documents=(pair.source_text,), source_id=pair.source_id, domain=pair.domain, persona=pair.persona, category=pair.persona
    )
    name = f"{pair.source_id}-{pair.question.replace(' ', '_')}"
    return Problem(name, "facts", messages=({"role": "user", "content": pair.question},), answer=pair.answer, meta=meta)
