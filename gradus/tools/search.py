"""A search in texts by BM25."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges

QUERY = 200  # only this number of first characters of a query is used
FILLERS = frozenset(("the", "of", "is", "a", "an", "in", "to", "what", "who"))


@dataclass(frozen=True)
class Search:
    """Finds the `top` best passages for some words, one per line. The passages come from `passages`, or from the task."""

    passages: tuple[str, ...] = ()
    top: int = 3
    name: str = "search"
    about: ClassVar[str] = "Finds the passages that fit some words best."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object", properties={"query": {"type": "string", "description": "the words"}}, required=["query"]
    )
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, top="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if neither the tool nor the task has passages."""
        if not self.passages and task.passages is None:
            raise UserError(f"the tool Search has no passages, and task {task.name} has none; take a task such as search_qa, or set the tool's passages")

    def open(self, problem: Problem, key: Key, world: World | None) -> Searching:
        given = self.passages
        if not given:
            found = world.task.passages if world is not None else None
            given = tuple(found()) if found is not None else ()
        return Searching(given, self.top)


@dataclass(frozen=True)
class Searching:
    """A session, which has no state."""

    passages: tuple[str, ...]
    top: int

    def call(self, query: str) -> str:
        best = found(self.passages, query, self.top)
        return "\n".join(self.passages[i] for i in best) or "nothing found"

    def fork(self, key: Key) -> Searching:
        return self


@lru_cache(maxsize=16)
def index(passages: Sequence[str]) -> Any:
    """Returns the BM25 index of passages. Raises UserError if the package bm25s is missing."""
    try:
        import bm25s
    except ImportError as error:
        raise UserError('the search uses the package bm25s, which is not installed: pip install "gradus[search]"') from error
    # Each passage is one sentence. Without a discount for length (b = 0), a passage with all words of a query always has the first rank.
    retriever = bm25s.BM25(b=0.0)
    retriever.index([words(passage) for passage in passages], show_progress=False)
    return retriever


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case, without FILLERS, for the index and for a search."""
    return [word for word in re.findall(r"\w+", text.lower()) if word not in FILLERS]


def found(passages: tuple[str, ...], query: str, top: int) -> tuple[int, ...]:
    """Returns the numbers of the `top` passages with the highest BM25 scores above 0, the best first. Equal scores are in the order of the passages."""
    if not passages:
        return ()
    retriever = index(passages)
    known = [word for word in words(query[:QUERY]) if word in retriever.vocab_dict]
    if not known:
        return ()
    scores = retriever.get_scores(known)
    best = np.argsort(-scores, kind="stable")[:top]
    return tuple(int(i) for i in best if scores[i] > 0)
