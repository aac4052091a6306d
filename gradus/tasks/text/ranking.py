"""Ranking: order documents by their relevance for a query. The reward is the normalised discounted cumulative gain of the order."""

from __future__ import annotations

import random

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import ending, hints
from gradus.tasks.text.texts import LEXICON
from gradus.types import Frozen, Outcome, Problem
from gradus.types.gains import ndcg
from gradus.types.parts import Task

_SIZES = {1: (3, 2), 2: (4, 2), 3: (6, 3), 4: (8, 3), 5: (12, 4)}  # documents, words of the query
_NAMES = "ABCDEFGHIJKL"
_WORDS = 4  # words of a document


def ranking(level: int = 2) -> Task:
    """3, 4, 6, 8 and 12 documents at `level` 1 to 5, and queries of two to four words. The grade of a document is the number of query words that it contains."""
    return generated_task(
        "ranking",
        _ranking,
        verify,
        level=level,
        levels=(min(_SIZES), max(_SIZES)),
        max_tokens=5 * _SIZES.get(level, (0, 0))[0] + 16,
        chance=0.0,
        about='order documents by a query: "fox red | A tea cup moss oar | B red fox den elk" -> "A0 B2=B A"; the reward is NDCG, 0 for a list with other '
        "documents; level: documents and words of the query",
        provides=("hints",),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns the NDCG of the documents after the last "="; 0.0 unless this list names every document of the problem exactly once."""
    said, grades = ending(completion, 256), problem.meta["grades"]
    order = said.replace(",", " ").split() if said is not None and said.isascii() else []
    return ndcg([grades[name] for name in order]) if sorted(order) == sorted(grades) else 0.0


def _ranking(rng: random.Random, level: int) -> Draft:
    count, asked = _SIZES[level]
    query = rng.sample(LEXICON, asked)
    others = [word for word in LEXICON if word not in query]
    hits = [rng.randint(0, asked) for _ in range(count)]
    best, low = rng.sample(range(count), 2)
    hits[best], hits[low] = asked, 0  # never all equal
    documents = [rng.sample([*rng.sample(query, n), *rng.sample(others, _WORDS - n)], _WORDS) for n in hits]
    names = _NAMES[:count]
    order = sorted(range(count), key=lambda i: (-hits[i], i))
    answer = " ".join(names[i] for i in order)
    solution = f"{' '.join(f'{name}{n}' for name, n in zip(names, hits))}={answer}"
    question = " | ".join([" ".join(query), *(f"{name} {' '.join(words)}" for name, words in zip(names, documents))])
    told = hints(("count the words of the query in each document",), ("write the counts", ", then the documents from the largest count"), solution)
    grades = Frozen(dict(zip(names, map(float, hits))))
    return Draft(question, answer, solution, f"{sorted(query)} {sorted(map(sorted, documents))}", Frozen(category=f"{count} documents", grades=grades, hints=told))
