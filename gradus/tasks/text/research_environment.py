"""Research in pages about a made-up world. A main agent sends an explorer that searches and reads the pages. The main agent may draft a report."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from gradus.tasks.text.search_environment import RIGHT_REWARD, TAIL, Corpus, corpus, normal
from gradus.tools.browse import titled
from gradus.tools.search import QUERY, found, index, words
from gradus.types import Key, Problem
from gradus.types.parts import Errand, Turn, World
from gradus.types.ranges import check_ranges

EXPLORER, WRITER, EDITOR = "explorer", "writer", "editor"
PROMPTS: Mapping[str, str] = {  # what a sub-agent reads before its errand
    EXPLORER: "Write search: words, open: page, or found: name",
    WRITER: "Write a section of these pages about",
    EDITOR: "Write the report again:",
}
NOTHING = "nothing found"
DOCUMENTS = 3  # pages that a writer sees, the best for its topic


@dataclass(frozen=True)
class Research:
    """The environment of a main agent that works through sub-agents.

    The action `search: words` sends an explorer, which plays the episode `Browsing`. The explorer's finding is the observation; the pages stay in the
    explorer's context. `answer: name` ends a question; the answer is right if the name is `problem.answer`.

    A problem with `facts` in its meta asks for a report. `write: topic` sends a writer, who reads the best fetched pages for the topic. `check: outline`
    shows the topics so far. `edit: what` sends an editor that reads the whole report and writes it again. `done: report` ends the episode; the reward is
    the share of the facts that the report contains.

    A player without sub-agents sees the pages that a search finds, and writes them into the report unchanged.
    """

    seed: int = 0  # the world is the same as in search_qa: a function of seed and people
    people: int = 800  # number of people in the world, 4 to 10000
    top: int = 3  # pages that a search finds
    limit: int = 8  # turns of the main agent; then the episode is truncated
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, people="[4, 10000]", top="[1, inf)", limit="[1, inf)")

    @property
    def corpus(self) -> Corpus:
        """The world of the questions."""
        return corpus(self.seed, self.people)

    def start(self, problem: Problem, key: Key, world: World) -> Desk:
        return Desk(problem.answer, problem.meta.get("facts", ()), self)


class Desk:
    """One episode of the main agent."""

    def __init__(self, answer: Any, facts: Any, settings: Research) -> None:
        self.answer, self.facts, self.settings = answer, tuple(facts), settings
        index(titles(settings.seed, settings.people))  # reports a missing package before the first turn
        self.memory: frozenset[str] = frozenset()  # titles of all fetched pages
        self.findings: frozenset[str] = frozenset()
        self.report: tuple[tuple[str, str], ...] = ()  # (topic, text) of every section
        self.turns = 0
        self.first = Turn("", state=self._state())  # the question stands in the problem, which stays in the context

    def fork(self, key: Key) -> Desk:
        """Returns a copy in the same state; nothing here is random."""
        return copy.copy(self)

    def _state(self) -> str:
        """Returns all findings that the main agent received, and the report, as text."""
        return "\n".join([*sorted(self.findings), *(f"{topic}\x00{text}" for topic, text in self.report)])

    async def step(self, action: str) -> Turn:
        return self.play(action)

    @property
    def verbs(self) -> tuple[str, ...]:
        """The words with which an action can begin."""
        return ("search", "write", "check", "edit", "done") if self.facts else ("search", "answer")

    def play(self, action: str) -> Turn:
        """Returns the turn that answers one action. An unknown action uses up a turn."""
        self.turns += 1
        cut = self.turns >= self.settings.limit
        verb, rest = said(action, self.verbs)
        if verb == "answer":
            right = normal(rest) == normal(str(self.answer))
            return Turn("right" if right else "wrong", RIGHT_REWARD if right else 0.0, terminated=True, state=self._state())
        if verb == "done":
            share = covered("\n".join(text for _, text in self.report), self.facts)
            return Turn(f"{share:.0%} of the facts", share, terminated=True, state=self._state())
        told, errand = {"search": self._search, "write": self._write, "check": self._check, "edit": self._edit}.get(verb, self._lost)(rest)
        return Turn(told, truncated=cut, state=self._state(), valid=bool(verb), errand=errand)

    def _lost(self, rest: str) -> tuple[str, None]:
        return "write " + ", or ".join(f"{verb}: ..." for verb in self.verbs), None

    def _search(self, query: str) -> tuple[str, Errand]:
        found = found_pages(self.settings, query)
        self.memory |= set(found)
        seen = "\n".join(page(self.settings.corpus, title) for title in found) or NOTHING
        return seen, Errand(EXPLORER, f"{PROMPTS[EXPLORER]}\n{query[:QUERY]}", Browsing(self, query), NOTHING)

    def _write(self, topic: str) -> tuple[str, Errand]:
        pages = "\n".join(page(self.settings.corpus, title) for title in best(self.settings.corpus, self.memory, topic))
        self.report = (*self.report, (topic, pages))
        return f"written: {topic}", Errand(WRITER, f"{PROMPTS[WRITER]} {topic[:QUERY]}", Drafting(self, pages, topic), f"written: {topic}")

    def _check(self, rest: str) -> tuple[str, None]:
        return "\n".join(topic for topic, _ in self.report) or "the report is empty", None

    def _edit(self, what: str) -> tuple[str, Errand | None]:
        if not self.report:
            return "the report is empty", None
        whole = "\n".join(f"{topic}: {text}" for topic, text in self.report)
        return "edited", Errand(EDITOR, f"{PROMPTS[EDITOR]} {what[:QUERY]}", Drafting(self, whole, None), "edited")


class Browsing:
    """One episode of the explorer. The episode begins with the titles of the pages that the query found.

    The facts are on the pages. `open: title` opens a page; the names on a page are titles of further pages. `found: text` ends the episode, and
    the text is the finding. The finding earns 1 if it contains the problem's answer.
    """

    limit: ClassVar[int] = 10  # actions; then the episode ends, and the last observation is the finding

    def __init__(self, desk: Desk, query: str) -> None:
        self.desk, self.turns = desk, 0
        self.first = Turn("\n".join(found_pages(desk.settings, query)) or NOTHING)

    async def step(self, action: str) -> Turn:
        return self.play(action)

    def play(self, action: str) -> Turn:
        self.turns += 1
        verb, rest = said(action, ("search", "open", "found"))
        if verb == "found":
            self.desk.findings |= {rest}
            asked = normal(str(self.desk.answer)) if self.desk.answer is not None else ""
            return Turn(rest, RIGHT_REWARD if asked and asked in normal(rest) else 0.0, terminated=True)
        told = "write search: words, open: page, or found: name"
        if verb == "search":
            told = "\n".join(found_pages(self.desk.settings, rest)) or NOTHING
        elif verb == "open":
            told = self._opened(rest)
        return Turn(told, terminated=self.turns >= self.limit, valid=bool(verb))

    def _opened(self, title: str) -> str:
        name = titled(self.desk.settings.corpus.facts, title)
        if name is None:
            return "no such page"
        self.desk.memory |= {name}
        return page(self.desk.settings.corpus, name)


class Drafting:
    """One answer of a writer, who writes the section `topic`, or of an editor (`topic` None), who writes the whole report."""

    def __init__(self, desk: Desk, shown: str, topic: str | None) -> None:
        self.desk, self.topic = desk, topic
        self.first = Turn(shown)

    async def step(self, action: str) -> Turn:
        return self.play(action)

    def play(self, action: str) -> Turn:
        if self.topic is None:
            self.desk.report = (("report", action),)
            return Turn("edited", terminated=True)
        self.desk.report = (*self.desk.report[:-1], (self.topic, action))
        return Turn(f"written: {self.topic}", terminated=True)


def said(action: str, verbs: tuple[str, ...]) -> tuple[str, str]:
    """Returns (verb, rest of the line) of the last line that begins with one of the verbs and a colon; ('', '') if there is no such line.

    >>> said("I think.\\nsearch: home of Ann", ("search", "answer"))
    ('search', 'home of Ann')
    """
    found = re.findall(rf"^\s*({'|'.join(verbs)}):(.*)$", action[-TAIL:], flags=re.MULTILINE | re.IGNORECASE)
    return (found[-1][0].lower(), found[-1][1].strip()) if found else ("", "")


def covered(report: str, facts: tuple[tuple[str, str], ...]) -> float:
    """Returns the share of the facts (relation, value) whose value is in the report."""
    text = normal(report)
    return sum(normal(value) in text for _, value in facts) / len(facts)


def page(world: Corpus, title: str) -> str:
    """Returns the text of a page: its title, then each relation with its value.

    >>> page(Corpus({}, {"Ann Lee": {"home": "Bor"}}, ()), "Ann Lee")
    'Ann Lee: home Bor'
    """
    return f"{title}: " + ", ".join(f"{relation} {value}" for relation, value in world.facts[title].items())


@cache
def titles(seed: int, people: int) -> tuple[str, ...]:
    """Returns the titles of all pages."""
    return tuple(corpus(seed, people).facts)


def found_pages(settings: Research, query: str) -> tuple[str, ...]:
    """Returns the titles of the `top` pages with the highest BM25 scores above 0, the best first. Equal scores are in the order of the world."""
    names = titles(settings.seed, settings.people)
    return tuple(names[i] for i in found(names, query, settings.top))


def best(world: Corpus, memory: frozenset[str], topic: str) -> list[str]:
    """Returns the titles of the fetched pages that share the most words with the topic, at most DOCUMENTS. Ties are sorted by title."""
    asked = set(words(topic))
    return sorted(memory, key=lambda title: (-len(asked & set(words(page(world, title)))), title))[:DOCUMENTS]
