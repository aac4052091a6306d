"""A library of short texts in front of every prompt. The library is the state of a rollout, and an extractor edits the library after every batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from gradus.rollouts.auto import Auto, rolled
from gradus.types import Group, Request, Trajectory, UserError
from gradus.types.parts import Rollout, World
from gradus.types.prompts import before, prompt_of


@dataclass(frozen=True)
class Add:
    text: str


@dataclass(frozen=True)
class Delete:
    index: int


@dataclass(frozen=True)
class Modify:
    index: int
    text: str


Edit = Add | Delete | Modify
"""A change of the library. The indices are counted before any edit. Texts without an edit are kept."""

Replay = Callable[[Sequence[str]], Awaitable[float]]
"""Returns the mean reward of new answers to the batch's problems with a given library. Every library gets the same random draws."""


class Extractor(Protocol):
    async def edits(self, groups: Sequence[Group], library: Sequence[str], replay: Replay, world: World) -> list[Edit]:
        """Returns edits of the library. Every group in `groups` has winners and losers."""
        ...


@dataclass(frozen=True)
class Recalling:
    """Runs `rollout` with the text of the experience library in front of every prompt, in training and in evaluation. An empty library adds nothing.

    After every batch the extractor gets the groups that have winners and losers. If there is no such group, the extractor is not called.
    """

    extractor: Extractor
    rollout: Rollout = Auto()
    words: int = 32  # largest number of words per text; longer texts are cut
    most: int | None = 16  # largest number of texts in the library; the oldest are removed first; None: no limit
    heading: str = "Experiences:"

    def __post_init__(self) -> None:
        if self.words < 1 or (self.most is not None and self.most < 1):
            raise UserError(f"recalling: `words` is {self.words} and `most` is {self.most}; each must be 1 or more")

    def start(self) -> dict[str, list[str]]:
        return {"library": []}

    @property
    def test(self) -> Recalling:
        return replace(self, rollout=getattr(self.rollout, "test", self.rollout))

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, list[str]]) -> tuple[list[Group], dict[str, list[str]]]:
        """Returns the judged groups of `rollout`, and the unchanged state."""
        return await self._with(state["library"], requests, world), state

    async def _with(self, library: Sequence[str], requests: Sequence[Request], world: World) -> list[Group]:
        asked = [recalled(r, library, self.heading, world.task.system) for r in requests]
        return await rolled(self.rollout, asked, world)

    async def learn(
        self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, list[str]]
    ) -> dict[str, list[str]]:
        """Returns the state with the edited library. The extractor makes the edits from the groups of the batch that have winners and losers."""
        library, mixed = state["library"], [g for g in groups if all(winners_and_losers(g))]
        if not mixed:
            return state
        edits = await self.extractor.edits(mixed, library, partial(self._replay, (*groups, *dropped), world), world)
        return {"library": edited(library, edits, words=self.words, most=self.most)}

    async def _replay(self, groups: Sequence[Group], world: World, library: Sequence[str]) -> float:
        first = [(g, g.trajectories[0]) for g in groups]
        requests = [Request(t.problem, len(g.trajectories), t.player, tags=("replay", g.key), trained=False) for g, t in first]
        found = await self._with(library, requests, world)
        values = [t.value for g in found for t in g.trajectories if t.failed is None]
        return sum(values) / len(values) if values else 0.0


def winners_and_losers(group: Group) -> tuple[list[Trajectory], list[Trajectory]]:
    """Returns the trajectories with rewards above the group's mean, and the trajectories with rewards below it. If all rewards are equal, both lists are empty."""
    judged = [t for t in group.trajectories if t.failed is None]
    if not judged or len({t.value for t in judged}) == 1:
        return [], []
    mean = sum(t.value for t in judged) / len(judged)
    return [t for t in judged if t.value > mean], [t for t in judged if t.value < mean]


def numbered(library: Sequence[str]) -> str:
    """Lists the texts with their indices, one per line."""
    return "\n".join(f"[{i}] {text}" for i, text in enumerate(library))


def recalled(request: Request, library: Sequence[str], heading: str, system: str | None) -> Request:
    """Returns the request with the library in front of its prompt."""
    return replace(request, prompt=before(prompt_of(request, system), f"{heading}\n{numbered(library)}")) if library else request


def edited(library: Sequence[str], edits: Sequence[Edit], *, words: int, most: int | None = None) -> list[str]:
    """Makes all edits of the library together: deleted texts are removed, modified texts keep their position, new texts follow in order.

    A text that is deleted and modified is deleted. If a text is modified several times, the last edit counts. Texts are cut to one line of at most
    `words` words; empty and repeated texts are left out. If more than `most` texts remain, the first texts are removed.
    Raises: ValueError if the library does not have the index of an edit.
    """
    for edit in edits:
        if not isinstance(edit, Add) and not 0 <= edit.index < len(library):
            raise ValueError(f"{edit} names a text that does not exist, because the library has only {len(library)} texts")
    gone = {e.index for e in edits if isinstance(e, Delete)}
    new = {e.index: e.text for e in edits if isinstance(e, Modify)}
    kept = [new.get(i, text) for i, text in enumerate(library) if i not in gone]
    texts = [" ".join(text.split()[:words]) for text in (*kept, *(e.text for e in edits if isinstance(e, Add)))]
    whole = list(dict.fromkeys(text for text in texts if text))
    return whole if most is None else whole[-most:]
