"""Toy tasks, one for each kind of recipe: single answers, pairs of answers, and episodes of several turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.recipe.compatibility import kind_of
from gradus.recipe.core import Recipe
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.testing.methods.control import toy_control, toy_reacher
from gradus.types import Frozen, Key, Media, Message, Outcome, Problem, Sampling
from gradus.types.frozen import value_fields
from gradus.types.parts import Errand, Task, Turn, World

HINTS = Frozen(knowledge=tuple("abcd"), planning=tuple("efga"), solution=tuple("bcde"))
WAY = (("a", "b"), ("b", "b"), ("c", "b"))  # observation and action of every turn, to the end of the corridor


class ToySource:
    """A source whose problem i shows a letter and asks for the next letter in the alphabet. A problem has a worked solution and hints."""

    size = None

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        return [self._problem(i, chr(ord("b") + i % 7)) for i in indices]

    @property
    def arms(self) -> tuple[str, ...]:
        return ("early", "late")

    def draw_arm(self, arm: str, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Draws problems of one arm. Letters before "d" are "early"; the other letters are "late"."""
        numbers = [7 * (i // 3) + i % 3 if arm == "early" else 7 * (i // 4) + 3 + i % 4 for i in indices]
        return [replace(p, meta=Frozen({**p.meta, "arm": arm})) for p in self.draw(numbers, level, key)]

    def _problem(self, i: int, answer: str) -> Problem:
        meta = Frozen(solution=answer * 2, hints=HINTS)
        return Problem(f"toy/{i}", "toy", text=chr(ord("a") + i % 7), answer=answer, meta=meta)


class ValuedSource(ToySource):
    """A source whose problems have an optimal value: 1/4 for the letters "a" to "c", and 3/4 for the other letters."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        found = super().draw(indices, level, key)
        return [replace(p, meta=Frozen({**p.meta, "optimal_value": 0.25 if (p.text or "") < "d" else 0.75})) for p in found]


class RecordedSource(ToySource):
    """A source whose problems have three recorded answers with their rewards."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        found = super().draw(indices, level, key)
        return [replace(p, meta=Frozen({**p.meta, "answers": ("ab", "c", str(p.answer)), "rewards": (0.0, 0.5, 1.0)})) for p in found]


class StateSource(ToySource):
    """A source whose problems contain a partial answer of one token."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        found = super().draw(indices, level, key)
        return [replace(p, meta=Frozen({**p.meta, "state": (1 + i % 3,)})) for i, p in zip(indices, found, strict=True)]


class EvidenceSource(ToySource):
    """A source whose problems name a passage and good queries for it."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        found = super().draw(indices, level, key)
        return [replace(p, meta=Frozen({**p.meta, "evidence": ("b follows a",), "queries": (("a", "b"),)})) for p in found]


class PairSource(ToySource):
    """A source whose problems have a better answer (`chosen`) and a worse answer (`rejected`)."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        found = super().draw(indices, level, key)
        return [replace(p, meta=Frozen(chosen=p.answer * 3, rejected="a" + p.answer)) for p in found]


class QuestionSource(ToySource):
    """A source whose problems have two test questions, each with its answer."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        found = super().draw(indices, level, key)
        return [replace(p, meta=Frozen({**p.meta, "questions": (("a", "b"), (p.text, p.answer))})) for p in found]


class ChecklistSource(ToySource):
    """A source whose problems have two criteria: the answer is right, and it is short."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        return [replace(p, meta=Frozen({**p.meta, "checklist": tuple(CHECKS)})) for p in super().draw(indices, level, key)]


class DocumentSource(ToySource):
    """A source whose problems have two documents. The first document contains the letter and the next letter. In the second document, the next letter occurs
    twice. The
    column `document` has a fact.
    """

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        return [replace(p, meta=Frozen({**p.meta, **self._documents(p.text, p.answer)})) for p in super().draw(indices, level, key)]

    def _documents(self, letter: str | None, answer: str) -> dict[str, Any]:
        return {"documents": (f"{letter}{answer}", f"{letter}{answer}{answer}"), "document": f"{letter}\nfact: {answer}"}


class SalientSource(ToySource):
    """A source whose problems have the letters in the order of their importance: the answer first."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        found = super().draw(indices, level, key)
        return [replace(p, meta=Frozen({**p.meta, "salient": (p.answer, *(c for c in "abcdefgh" if c != p.answer))})) for p in found]


class ToolSource(ToySource):
    """A source whose problems have a database of letters, and a demonstrated episode: the answer at once."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        made = "CREATE TABLE letters (letter); INSERT INTO letters VALUES ('a'), ('b')"
        drawn = super().draw(indices, level, key)
        return [replace(p, meta=Frozen({**p.meta, "database": made, "demonstration": (("", f"answer: {p.answer}"),)})) for p in drawn]


class PictureSource(ToySource):
    """A source whose problems show a picture before the letter. The toy policy ignores the picture."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        picture = Media("image", np.zeros((2, 2, 3), np.uint8))
        return [replace(p, text=None, messages=(_shows(picture, p.text or ""),)) for p in super().draw(indices, level, key)]


def _shows(picture: Media, text: str) -> Message:
    return {"role": "user", "content": ({"type": "image", "media": picture}, {"type": "text", "text": text})}


def redrawn(problem: Problem, description: str) -> Problem | None:
    """Returns the problem with a grey picture whose brightness is the length of the description; None without a description."""
    picture = Media("image", np.full((2, 2, 3), min(len(description), 255), np.uint8))
    return replace(problem, messages=(_shows(picture, problem.question),)) if description else None


class EpisodeSource(ToySource):
    """A source whose problems have the way through the corridor (`demonstration`)."""

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        return [replace(p, meta=Frozen({**p.meta, "demonstration": WAY})) for p in super().draw(indices, level, key)]


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1 if the completion contains the answer anywhere, else 0."""
    return float(problem.answer in completion)


CHECKS: Mapping[str, Callable[[Problem, str], bool]] = Frozen(
    right=lambda problem, completion: problem.answer in completion, short=lambda problem, completion: len(completion) < 4
)
"""Criterion -> its check."""


@dataclass(frozen=True)
class VerifyByChecks:
    """The verdict of `verify`, with the checks of the criteria."""

    checks: ClassVar[Mapping[str, Callable[[Problem, str], bool]]] = CHECKS

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return verify(problem, completion)


@dataclass(frozen=True)
class Corridor:
    """A corridor with the cells 0 to 2 and the goal 3. The goal gives the reward 1. An episode has at most six turns.

    The first "b" or "c" in an action is the move: "b" moves forward, and "c" moves back. An action without these letters is illegal.
    """

    forks: ClassVar[bool] = True

    def start(self, problem: Problem, key: Key, world: World) -> Walk:
        return Walk()


class Walk:
    """One episode in the corridor. The observation is the letter of the cell; the state is the number of the cell."""

    def __init__(self) -> None:
        self.at, self.moves, self.first = 0, 0, Turn("a", state="0")

    def fork(self, key: Key) -> Walk:
        """Returns a copy in the same state. The method does not need the key, because nothing in the corridor is random."""
        return copy(self)

    async def step(self, action: str) -> Turn:
        self.moves += 1
        move = next((m for m in action if m in "bc"), None)
        self.at = max(0, self.at + {"b": 1, "c": -1, None: 0}[move])
        if self.at == 3:
            return Turn("d", 1.0, terminated=True)
        return Turn("abc"[self.at], truncated=self.moves == 6, state=str(self.at), valid=move is not None)


@dataclass(frozen=True)
class Guided:
    """The corridor with a guide. An action that begins with "h" calls the guide. The guide acts once, and earns 1 if its action begins with "b"."""

    forks: ClassVar[bool] = True

    def start(self, problem: Problem, key: Key, world: World) -> GuidedWalk:
        return GuidedWalk()


class GuidedWalk(Walk):
    """One episode in the corridor with a guide."""

    async def step(self, action: str) -> Turn:
        turn = await super().step(action)
        if not action.startswith("h") or turn.terminated:
            return turn
        return replace(turn, errand=Errand("explorer", "g", Advice(), "e"))


class Advice:
    """One action of the guide."""

    def __init__(self) -> None:
        self.first = Turn("f")

    async def step(self, action: str) -> Turn:
        return Turn(action, float(action.startswith("b")), terminated=True)


@dataclass(frozen=True)
class Relay:
    """The corridor with two seats that act in turn. A seat gets 0.1 for a legal action and -0.1 for an illegal action. Episodes can be copied."""

    seats: tuple[str, ...] = ("planner", "checker")
    forks: bool = True

    def start(self, problem: Problem, key: Key, world: World) -> RelayWalk:
        return RelayWalk()


class RelayWalk(Walk):
    """One episode of two seats in the corridor."""

    def __init__(self) -> None:
        super().__init__()
        self.first = replace(self.first, player="planner")

    def fork(self, key: Key) -> RelayWalk:
        return copy(self)

    async def step(self, action: str) -> Turn:
        seats = ("planner", "checker")
        acted, after = seats[self.moves % 2], seats[(self.moves + 1) % 2]
        turn = await super().step(action)
        return replace(turn, player=after, rewards=Frozen({acted: 0.1 if turn.valid else -0.1}))


def toy_proposed(problem: Problem, text: str) -> Problem | None:
    """Returns the problem that shows the first letter of the text; None for a text that does not begin with a letter from "a" to "g"."""
    return replace(problem, id=f"{problem.id}-{text[0]}", text=text[0], answer=chr(ord(text[0]) + 1)) if "a" <= text[:1] <= "g" else None


TOY = Task(
    "toy", ToySource(), ToySource(), verify, sampling=Sampling(max_tokens=6), provides=frozenset({"hints", "solution"}), proposed=toy_proposed,
    passages=lambda: ("b follows a", "c follows b"),
    pages=lambda: Frozen(a="b follows", b="c follows"),
)  # fmt: skip
"""Single answers. The policy sees a letter and must write the next one, so one row of its table is enough."""

TOY_PAIRS = replace(TOY, source=PairSource(), provides=frozenset({"chosen", "rejected"}))
"""Pairs of answers, which the problems contain."""

TOY_VALUED = replace(TOY, source=ValuedSource(), provides=TOY.provides | {"optimal_value"})
"""Single answers to problems with an optimal value."""

TOY_RECORDED = replace(TOY, source=RecordedSource(), provides=TOY.provides | {"answers", "rewards"})
"""Problems with recorded answers and their rewards."""

TOY_QUESTIONS = replace(TOY, source=QuestionSource(), held_out=QuestionSource(), provides=TOY.provides | {"questions"})
"""Single answers whose problems also have test questions."""

TOY_STATES = replace(TOY, source=StateSource(), provides=TOY.provides | {"state"})
"""Problems with a partial answer."""

TOY_SALIENT = replace(TOY, source=SalientSource(), held_out=SalientSource(), provides=TOY.provides | {"salient"})
"""Single answers whose problems also have letters in the order of their importance."""

TOY_EVIDENCE = replace(TOY, source=EvidenceSource(), held_out=EvidenceSource(), provides=TOY.provides | {"evidence", "queries"})
"""Problems with the passages that hold the answer."""


TOY_DOCUMENTS = replace(TOY, source=DocumentSource(), held_out=DocumentSource(), provides=TOY.provides | {"documents", "document"})
"""Single answers whose problems also have documents."""

TOY_TOOLS = replace(TOY, source=ToolSource(), held_out=ToolSource(), provides=TOY.provides | {"database", "demonstration"})
"""Single answers to problems with all data for built-in tools: passages, a database, and a demonstrated episode."""

TOY_CHECKLISTS = replace(
    TOY, source=ChecklistSource(), held_out=ChecklistSource(), verify=VerifyByChecks(), provides=TOY.provides | {"checklist"}
)
"""Single answers whose problems also have criteria with checks."""

TOY_PICTURES = replace(TOY, source=PictureSource(), held_out=PictureSource(), provides=frozenset({"hints", "solution", "images"}), redraw=redrawn)
"""Single answers about a picture and a letter."""

TOY_EPISODES = replace(
    TOY,
    source=EpisodeSource(),
    held_out=EpisodeSource(),
    verify=None,
    environment=Corridor(),
    sampling=Sampling(max_tokens=2),
    provides=frozenset({"hints", "solution", "demonstration"}),
)
"""Episodes of up to six turns."""


TOY_ERRANDS = replace(TOY_EPISODES, environment=Guided())
"""Episodes that may send a sub-agent."""


TOY_SEATS = replace(TOY_EPISODES, environment=Relay())
"""Episodes of two seats."""


MADE: Mapping[str, Callable[[], Task]] = {"flow": flow_2d, "controller": toy_control}
"""Kind of policy that a recipe trains (`gradus.policies.registry`) -> its toy task, for the kinds that read no text."""


def toy_task(recipe: Recipe) -> Task:
    """Returns the toy task for a recipe: for example points in the plane for a flow, episodes for parts that play them, or single answers.

    >>> from gradus import load_recipe
    >>> [toy_task(load_recipe(key)).name for key in ("grpo", "flow_grpo")]
    ['toy', 'flow_2d']
    """
    if recipe.environment is not None:
        single = TOY_EVIDENCE if "evidence" in recipe.requires else TOY_TOOLS
        return replace(single if of_task(recipe.environment) else TOY_EPISODES, environment=recipe.environment)
    if (made := MADE.get(kind_of(recipe).name)) is not None:
        return toy_reacher() if made is toy_control and counts_successes(recipe) else made()
    if any("seats" in getattr(part, "gives", ()) for part in parts_of(recipe.rollout)):
        return TOY_SEATS
    if any("errands" in getattr(part, "gives", ()) for part in parts_of(recipe.rollout)):
        return TOY_ERRANDS
    if any(getattr(part, "plays", "") == "episodes" for seam in (recipe.rollout, recipe.credit) for part in parts_of(seam)):
        return TOY_EPISODES
    if any("optimal_value" in getattr(part, "columns", ()) for part in parts_of(recipe.credit)):
        return TOY_VALUED
    if any("answers" in getattr(part, "columns", ()) for part in parts_of(recipe.rollout)):
        return TOY_RECORDED
    if any("state" in getattr(part, "columns", ()) for part in parts_of(recipe.rollout)):
        return TOY_STATES
    if "images" in recipe.requires:
        return TOY_PICTURES
    if "salient" in recipe.requires:
        return TOY_SALIENT
    if {"documents", "document"} & recipe.requires:
        return TOY_DOCUMENTS
    if "checklist" in recipe.requires:
        return TOY_CHECKLISTS
    if "questions" in recipe.requires:
        return TOY_QUESTIONS
    return TOY_PAIRS if {"chosen", "rejected"} & recipe.requires else TOY


def counts_successes(recipe: Recipe) -> bool:
    """Whether the selection or the credit rule of a recipe needs answers that are marked as right."""
    return any(hasattr(part, "asks_right") for seam in (recipe.selection, recipe.credit) for part in parts_of(seam))


def of_task(environment: Any) -> bool:
    """Whether the environment plays problems of any task that its `check_task` accepts. Other environments have their own problems."""
    return hasattr(environment, "check_task")


def parts_of(part: Any) -> Iterator[Any]:
    """Yields a part and all parts within it."""
    if isinstance(part, Mapping):
        for value in part.values():
            yield from parts_of(value)
    elif is_dataclass(part) and not isinstance(part, type):
        yield part
        for field in value_fields(part):
            yield from parts_of(getattr(part, field.name))
