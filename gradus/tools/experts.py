"""A tool that asks named experts. An expert is a script that knows passages of the task, and has a price per word.

Zhang, Feng and You, Router-R1, arXiv:2506.09033, for the form of a query: the name, a colon, and the question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.tools.search import found
from gradus.tools.tool import Result
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import World
from gradus.types.ranges import check_ranges

UNKNOWN = "I do not know."


@dataclass(frozen=True)
class Expert:
    """A scripted expert: its name, the price of a word, the topics (words of passages) that it knows, and how often it knows such a passage."""

    name: str
    price: float
    topics: tuple[str, ...]
    accuracy: float

    def __post_init__(self) -> None:
        check_ranges(self, price="[0, inf)", accuracy="[0, 1]")


POOL = (
    Expert("Ann", 1.0, ("home", "employer", "teacher"), 0.95),
    Expert("Bo", 1.0, ("founder", "seat"), 0.95),
    Expert("Cy", 2.0, ("mayor", "river"), 0.95),
    Expert("Max", 40.0, ("home", "employer", "teacher", "founder", "seat", "mayor", "river"), 1.0),
)


def routed(query: str) -> tuple[str, str] | None:
    """Returns the name and the question of a query, or None if the query is malformed. The name must not occur in the question as a word.

    >>> routed("Ann: home of Hanna"), routed("Ann: what does Ann know?"), routed("home of Lea")
    (('Ann', 'home of Hanna'), None, None)
    """
    name, _, question = (part.strip() for part in query.partition(":"))
    low = query.lower()
    again = re.search(rf"\b{re.escape(name.lower())}\b", question.lower())
    wrong = query.count(":") != 1 or not name or not question or again or "llm-name" in low or "your-query" in low
    return None if wrong else (name, question)


@dataclass(frozen=True)
class Route:
    """Asks a named expert. The experts know passages of the task."""

    experts: tuple[Expert, ...] = POOL
    name: ClassVar[str] = "route"
    about: ClassVar[str] = "Asks the expert with this name."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object", properties={"query": {"type": "string", "description": "name: question"}}, required=["query"]
    )
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = True

    def named(self, name: str) -> Expert | None:
        """Returns the expert with this name; None if there is no such expert. Upper and lower case do not matter."""
        return next((one for one in self.experts if one.name.lower() == name.lower()), None)

    def open(self, problem: Problem, key: Key, world: World | None) -> Asked:
        passages = world.task.passages if world is not None else None
        if passages is None:
            raise UserError("the tool Route needs the passages of a task, and the task has none; take a task such as search_qa")
        return Asked(self, tuple(passages()), Key(0).fold(problem.id))


@dataclass(frozen=True)
class Asked:
    """A session. Equal questions about a problem get equal answers."""

    tool: Route
    passages: tuple[str, ...]
    key: Key

    def call(self, query: str) -> Result:
        read = routed(query)
        expert = None if read is None else self.tool.named(read[0])
        if read is None or expert is None:
            return Result(f"error: write one of {', '.join(one.name for one in self.tool.experts)}, a colon, and the question", ok=False)
        best = found(self.passages, read[1], 1)
        passage = self.passages[best[0]] if best else ""
        knows = set(expert.topics) & set(re.findall(r"\w+", passage)) and float(self.key.fold(expert.name, read[1]).uniform()) < expert.accuracy
        return Result(passage if knows else UNKNOWN)

    def fork(self, key: Key) -> Asked:
        return self
