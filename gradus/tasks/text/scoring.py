"""Scores for responses. The query determines one of three principles by which responses are judged; the policy writes a score for each response."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

ANIMALS = ("fox", "owl", "hen", "ant", "bat", "cow", "elk", "yak")
COLOURS = ("red", "tan", "blue", "pink", "lime", "teal", "navy", "grey")
THINGS = ("tea", "oar", "cup", "map", "rope", "lamp", "key", "bell")
PRINCIPLES: Mapping[str, tuple[str, ...]] = Frozen(animals=("farm", "zoo", "forest"), colours=("paint", "flag", "dress"), length=("story", "letter", "speech"))
"""Principle -> its queries. The better response has more animals, more colours, or more words."""
SCORES = (1, 10)
MARKS = "ABCDE"
_NUMBER = re.compile(r"\d{1,2}(?:\.\d{1,9})?")
_TAIL = 160


def scoring(level: int = 2) -> Task:
    """Queries with `level` + 1 responses of up to three words, 2 to 5 responses. One response is better than all others.

    A completion names the principle, counts for each response, and after the last "=" gives one score from 1 to 10 per response. The completion is right if
    the score of the best response is above all other scores. `meta` has `query`, `responses`, and `preferred`: the number of the best response, from 0.
    """
    return generated_task(
        "scoring", _scoring, verify, level=level, levels=(1, 4), max_tokens=48, chance=1 / (level + 1),
        about='score responses by a hidden principle: "farm? A red fox B owl hen C tea" -> "animals 1 2 0=4 7 1"; level: responses',
    )  # fmt: skip


def scores_of(completion: str, count: int) -> tuple[float, ...] | None:
    """Returns the scores after the last "=". Returns None unless there are exactly `count` numbers from 1 to 10 and nothing else.

    >>> scores_of("animals 1 2=4 7", 2), scores_of("=4 7 1", 2), scores_of("=0 7", 2), scores_of("=5.5 8", 2)
    ((4.0, 7.0), None, None, (5.5, 8.0))
    """
    _, mark, said = completion[-_TAIL:].rpartition("=")
    words = said.split()
    if not mark or len(words) != count or not all(_NUMBER.fullmatch(w) for w in words):
        return None
    found = tuple(map(float, words))
    return found if all(SCORES[0] <= s <= SCORES[1] for s in found) else None


def agrees(scores: Sequence[float], preferred: int) -> bool:
    """Whether the score of the preferred response is above all other scores. The score of a single response must equal `preferred`, its label.

    >>> agrees([7, 4, 5], 0), agrees([7, 7, 5], 0), agrees([1], 1)
    (True, False, True)
    """
    if len(scores) == 1:
        return scores[0] == preferred
    return all(scores[preferred] > s for i, s in enumerate(scores) if i != preferred)


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the scores agree with the preference, else 0.0."""
    scores = scores_of(completion, len(problem.meta["responses"]))
    return float(scores is not None and agrees(scores, problem.meta["preferred"]))


def question(query: str, responses: Sequence[str]) -> str:
    """Returns the text of a problem."""
    return f"{query}? {' '.join(f'{mark} {text}' for mark, text in zip(MARKS, responses, strict=False))}"


def reordered(problem: Problem, order: Sequence[int], name: str) -> Problem:
    """Returns the problem with response `order[i]` at index i. `name` is the end of the new problem's id. The new problem has no solution, because the
    indices in the old solution are wrong."""
    responses = tuple(problem.meta["responses"][i] for i in order)
    preferred = problem.meta["preferred"] if len(order) == 1 else list(order).index(problem.meta["preferred"])
    meta = {k: v for k, v in problem.meta.items() if k != "solution"} | {"responses": responses, "preferred": preferred}
    text = question(problem.meta["query"], responses)
    shown = {"text": text} if problem.text is not None else {"messages": ({"role": "user", "content": text},)}
    return replace(problem, id=f"{problem.id}-{name}", answer=None, meta=Frozen(meta), **shown)


def count(principle: str, response: str) -> int:
    """Returns by how much a response follows a principle.

    >>> [count(p, "red fox owl") for p in PRINCIPLES]
    [2, 1, 3]
    """
    words = response.split()
    return len(words) if principle == "length" else sum(w in (ANIMALS if principle == "animals" else COLOURS) for w in words)


def _scoring(rng: random.Random, level: int) -> Draft:
    principle = rng.choice(list(PRINCIPLES))
    query = rng.choice(PRINCIPLES[principle])
    while True:
        responses = [" ".join(rng.choice(rng.choice((ANIMALS, COLOURS, THINGS))) for _ in range(rng.randint(1, 3))) for _ in range(level + 1)]
        counts = [count(principle, r) for r in responses]
        if counts.count(max(counts)) == 1 and len(set(responses)) == len(responses):
            break
    scores = " ".join(str(1 + 3 * n) for n in counts)
    meta = Frozen(category=principle, query=query, responses=tuple(responses), preferred=counts.index(max(counts)))
    solution = f"{principle} {' '.join(map(str, counts))}={scores}"
    return Draft(question(query, responses), scores, solution, f"{principle} {sorted(responses)}", meta)
