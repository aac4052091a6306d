"""The environment `Selecting`: a player searches and selects documents. A function reads the gathered documents from the text of an episode.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from gradus.tools.search import found
from gradus.types import Key, Problem, UserError
from gradus.types.parts import Task, Turn, World
from gradus.types.ranges import check_ranges

PICKS = re.compile(r"<important_info>(.*?)</important_info>", re.DOTALL)
QUERY = re.compile(r"<query>(.*?)</query>", re.DOTALL)
DONE = re.compile(r"<search_complete>\s*(true|yes|1|y)\s*</search_complete>", re.IGNORECASE)
MOST = 3  # a selection keeps at most this number of documents of a block


def asks(problem: Problem) -> str:
    """Returns the question of a problem, without an instruction."""
    return str(problem.meta.get("question", problem.question))


def sought(action: str) -> str | None:
    """Returns the first query of an action. Returns None without a query, and for an action that ends the search, because it brings no documents.

    >>> sought("<query> a </query><query>b</query>"), sought("<query>a</query><search_complete>true</search_complete>")
    ('a', None)
    """
    query = None if DONE.search(action) else QUERY.search(action)
    return None if query is None else query[1].strip()


def gathered(question: str, actions: Sequence[str], passages: tuple[str, ...], top: int = 8, limit: int = 3) -> tuple[str, ...]:
    """Returns D_s3, the documents that a searcher gathered with these actions. The query of action number `limit` and of later actions brings no documents."""
    blocks: list[tuple[int, ...]] = [found(passages, question, top)]
    chosen: list[list[int] | None] = [None]
    for turn, action in enumerate(actions, 1):
        ids = PICKS.search(action)
        if ids is not None and chosen[-1] is None:
            chosen[-1] = list(dict.fromkeys(n for n in map(int, re.findall(r"\d+", ids[1])) if 1 <= n <= top))[:MOST]
        query = sought(action)
        if query is not None and turn < limit:
            blocks.append(found(passages, query, top))
            chosen.append(None)
    picked = [block[n - 1] for block, ids in zip(blocks, chosen, strict=True) if ids is not None for n in sorted(ids) if n <= len(block)]
    whole = [n for block, ids in zip(blocks, chosen, strict=True) if ids is None for n in block]
    return tuple(passages[n] for n in dict.fromkeys((*picked, *whole)))


@dataclass(frozen=True)
class Selecting:
    """The environment of a searcher: it shows numbered documents, and the player selects some and writes a new query or ends the episode. The task has the
    passages. The environment gives no reward.
    """

    top: int = 8  # number of documents per block
    limit: int = 3  # largest number of turns
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, top="[1, inf)", limit="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task has no passages."""
        if task.passages is None:
            raise UserError(f"the environment Selecting searches the task's passages, but task {task.name} has none; take a task such as search_qa")

    def start(self, problem: Problem, key: Key, world: World | None) -> Selection:
        told = world.task.passages if world is not None else None
        return Selection(tuple(told()) if told is not None else (), asks(problem), self)


@dataclass
class Selection:
    """One episode."""

    passages: tuple[str, ...]
    question: str
    settings: Selecting
    turns: int = 0
    first: Turn = field(init=False)

    def __post_init__(self) -> None:
        self.first = Turn(self.block(self.question))

    def fork(self, key: Key) -> Selection:
        made = Selection(self.passages, self.question, self.settings, self.turns)
        made.first = self.first
        return made

    def block(self, query: str) -> str:
        """Returns the numbered documents for a query."""
        return "\n".join(f"[{n}] {self.passages[i]}" for n, i in enumerate(found(self.passages, query, self.settings.top), 1)) or "nothing found"

    async def step(self, action: str) -> Turn:
        return self.play(action)

    def play(self, action: str) -> Turn:
        self.turns += 1
        query = sought(action)
        over = self.turns >= self.settings.limit
        if DONE.search(action):
            return Turn("", terminated=True)
        if query is None:
            return Turn("Write <query>words</query>, or <search_complete>true</search_complete>.", truncated=over, valid=False)
        return Turn("" if over else self.block(query), truncated=over)
