"""Questions about a made-up world whose facts must be searched for. Each hop of a question is one fact. No model knows these facts beforehand."""

from __future__ import annotations

import copy
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from gradus.tools.search import found, index
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import Turn, World

RIGHT_REWARD = 1.0  # reward for the right answer; every other turn gives 0, also a wrong answer
TAIL = 400  # characters of an action that are read, from its end
AGES = (10, 99)  # the youngest and the oldest person, years
OPERATIONS: Mapping[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}

RELATIONS: Mapping[str, Mapping[str, str]] = {  # kind of entity -> relation -> kind of its value
    "person": {"home": "city", "employer": "company", "teacher": "person"},
    "company": {"founder": "person", "seat": "city"},
    "city": {"mayor": "person", "river": "river"},
}
PHRASINGS = ("The {relation} of {entity} is {value}.", "{entity}: {relation} {value}.", "{value} is the {relation} of {entity}.")


@dataclass(frozen=True)
class SearchQA:
    """Answers `search: words` with the best passages of a corpus. `answer: name` ends the episode; the answer is right if the name is `problem.answer`."""

    seed: int = 0  # the corpus is a function of seed and people
    people: int = 800  # number of people in the world, 4 to 10000; there are people / 4 companies, as many cities and as many rivers
    top: int = 3  # passages per search; at least 2, because the passages on a person's teacher and pupil have the same words
    limit: int = 8  # largest number of turns; then the episode is truncated
    calculator: bool = False  # every person has an age, and `calculate: 31 + 12` gives the number
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, least in (("people", 4), ("top", 2), ("limit", 1)):
            if getattr(self, name) < least:
                raise UserError(f"search_qa: `{name}` is {getattr(self, name)}; it must be {least} or more")
        if self.people > 10_000:  # two names per person, and only 24,500 names of two syllables
            raise UserError(f"search_qa: `people` is {self.people}; give at most 10000, because each person needs two of the 24500 names")

    @property
    def corpus(self) -> Corpus:
        """The world of the questions."""
        return corpus(self.seed, self.people, True) if self.calculator else corpus(self.seed, self.people)

    @property
    def index(self) -> Any:
        """The BM25 index of the passages of the corpus."""
        return index(self.corpus.passages)

    @property
    def verbs(self) -> str:
        """The possible actions, in words."""
        return "search: words, or calculate: 2 + 3, or answer: name" if self.calculator else "search: words, or answer: name"

    def start(self, problem: Problem, key: Key, world: World) -> Inquiry:
        return Inquiry(problem.answer, self)


class Inquiry:
    """One episode about one question."""

    def __init__(self, answer: str, settings: SearchQA) -> None:
        self.answer, self.settings = answer, settings
        self.corpus = settings.corpus
        settings.index  # noqa: B018  reports a missing package before the first turn
        self.seen: frozenset[int] = frozenset()
        self.worked: frozenset[str] = frozenset()  # "31 + 12 = 43"
        self.turns = 0
        self.first = Turn("", state=self._state())  # the question stands in the problem, which stays in the context

    def fork(self, key: Key) -> Inquiry:
        """Returns a copy in the same state; nothing here is random."""
        return copy.copy(self)

    def _state(self) -> str:
        """Returns the sorted numbers of all passages shown so far, then the results of the calculator, as text."""
        return " ".join([*(str(i) for i in sorted(self.seen)), *sorted(self.worked)])

    async def step(self, action: str) -> Turn:
        return self.play(action)

    def play(self, action: str) -> Turn:
        """Returns the turn that answers one action. An unknown action uses up a turn."""
        self.turns += 1
        truncated = self.turns >= self.settings.limit
        verb, rest = parse(action, self.settings.calculator)
        if verb == "answer":
            right = normal(rest) == normal(self.answer)
            return Turn("right" if right else "wrong", RIGHT_REWARD if right else 0.0, terminated=True, state=self._state())
        if verb == "calculate" and (result := calculated(rest)) is not None:
            self.worked |= {f"{rest} = {result}"}
            return Turn(result, truncated=truncated, state=self._state())
        if verb != "search":
            return Turn(f"write {self.settings.verbs}", truncated=truncated, state=self._state(), valid=False)
        best = lookup(self.settings, rest)
        self.seen |= set(best)
        told = "\n".join(self.corpus.passages[i] for i in best) or "nothing found"
        return Turn(told, truncated=truncated, state=self._state())


def parse(action: str, calculator: bool = False) -> tuple[str, str]:
    """Returns (verb, rest of the line) of the last line that starts with a verb and a colon; ('', '') if there is no such line.

    The verbs are 'search', 'answer' and, with a calculator, 'calculate'.
    """
    verbs = "search|calculate|answer" if calculator else "search|answer"
    found = re.findall(rf"^\s*({verbs}):(.*)$", action[-TAIL:], flags=re.MULTILINE | re.IGNORECASE)
    return (found[-1][0].lower(), found[-1][1].strip()) if found else ("", "")


def calculated(text: str) -> str | None:
    """Computes the result of + - or * between two whole numbers of at most nine digits; returns None for any other text.

    >>> calculated("31 + 12"), calculated("2 ** 9")
    ('43', None)
    """
    found = re.fullmatch(r"\s*(-?[0-9]{1,9})\s*([-+*])\s*(-?[0-9]{1,9})\s*", text)
    return None if found is None else str(OPERATIONS[found[2]](int(found[1]), int(found[3])))


def normal(answer: str) -> str:
    """Returns an answer in the form for exact comparison: lower case, one space between words, no punctuation."""
    return " ".join(re.findall(r"\w+", answer.casefold()))


@dataclass(frozen=True)
class Corpus:
    """A made-up world: its entities by kind, its facts, and one passage per fact."""

    entities: Mapping[str, tuple[str, ...]]
    facts: Mapping[str, Mapping[str, str]]  # entity -> relation -> entity
    passages: tuple[str, ...]
    told: Mapping[str, Mapping[str, str]] = field(default_factory=Frozen)  # entity -> relation -> the passage of this fact


@cache
def corpus(seed: int, people: int, ages: bool = False) -> Corpus:
    """Makes the world of this seed and size. With `ages`, every person also has the fact `age`. Names are unique.

    Each person has only one pupil. So passages about pupils never hide the passage about the teacher.
    """
    rng = Key(seed).fold("corpus", people).random()
    few = max(2, people // 4)
    names = _names(rng, people + 4 * few)
    first = [names.pop() for _ in range(few)]  # first names are shared, family names are not
    entities = {kind: tuple(names.pop() for _ in range(few)) for kind in ("company", "city", "river")}
    entities["person"] = tuple(f"{rng.choice(first)} {names.pop()}" for _ in range(people))
    facts: dict[str, dict[str, str]] = {}
    for kind, relations in RELATIONS.items():
        for i, entity in enumerate(entities[kind]):
            own = {"river": entities["river"][i % few], "teacher": entities["person"][(i + 1) % people]}
            facts[entity] = {relation: own[relation] if relation in own else rng.choice(entities[to]) for relation, to in relations.items()}
    if ages:
        drawn = Key(seed).fold("ages", people).random()
        for person in entities["person"]:
            facts[person]["age"] = str(drawn.randint(*AGES))
    told = {
        entity: {relation: rng.choice(PHRASINGS).format(entity=entity, relation=relation, value=value) for relation, value in relations.items()}
        for entity, relations in facts.items()
    }
    passages = [text for texts in told.values() for text in texts.values()]
    rng.shuffle(passages)
    return Corpus(Frozen(entities), Frozen(facts), tuple(passages), Frozen(told))


def _names(rng: Any, count: int) -> list[str]:
    """Draws different made-up words of two syllables, in random order. No word is the name of a relation."""
    taken = {relation.capitalize() for relations in RELATIONS.values() for relation in relations}
    names: dict[str, None] = {}
    while len(names) < count:
        syllables = [rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(2)]
        name = "".join(syllables).capitalize() + rng.choice(("", "l", "n", "r", "s"))
        if name not in taken:
            names[name] = None
    return list(names)


def lookup(settings: SearchQA, query: str) -> tuple[int, ...]:
    """Returns the numbers of the `top` passages with the highest BM25 scores above 0, the best first. Equal scores are in the order of the corpus."""
    return found(settings.corpus.passages, query, settings.top)


def chain(world: Corpus, entity: str, relations: tuple[str, ...]) -> list[str]:
    """Follows the relations and returns the entity after each hop. The last entity is the answer to the question."""
    reached = []
    for relation in relations:
        entity = world.facts[entity][relation]
        reached.append(entity)
    return reached


def evidence(world: Corpus, entity: str, relations: tuple[str, ...]) -> dict[str, Any]:
    """Returns the columns `evidence` (the passage of each hop) and `queries` (for each hop, queries that find its passage)."""
    hops = list(zip(relations, [entity, *chain(world, entity, relations)[:-1]], strict=True))
    return {
        "evidence": tuple(world.told[of][relation] for relation, of in hops),
        "queries": tuple((f"{relation} of {of}", f"{of} {relation}") for relation, of in hops),
    }


def read_answer(question: str, passages: Sequence[str]) -> str:
    """Reads passages and follows the relations of a question of search_qa, from the entity on. Returns "unknown" if a fact is missing.

    >>> read_answer("What is the mayor of the home of Ann Lee?", ["Ann Lee: home Bor.", "Cy is the mayor of Bor."])
    'Cy'
    """
    facts = {}
    for text in passages:
        for form in PHRASINGS:
            if read := re.fullmatch(re.escape(form).replace(r"\{", "(?P<").replace(r"\}", r">[\w ]+?)"), text):
                facts[read["entity"], read["relation"]] = read["value"]
    *relations, entity = question.partition(" the ")[2].removesuffix("?").replace(" of the ", " of ").split(" of ")
    for relation in reversed(relations):
        entity = facts.get((entity, relation), "unknown")
    return entity


def solution(world: Corpus, entity: str, relations: tuple[str, ...]) -> list[str]:
    """Returns the actions that answer the question: one search per hop, then the answer."""
    reached = chain(world, entity, relations)
    searches = [f"search: {relation} of {of}" for relation, of in zip(relations, [entity, *reached[:-1]], strict=True)]
    return [*searches, f"answer: {reached[-1]}"]
