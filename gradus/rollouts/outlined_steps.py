"""Writers of long solutions: first an outline of titles, then one step per title. The writer is a program or a player.

Reference: Chae et al., One Missing Piece for Open-Source Reasoning Models, arXiv:2506.02338: outlines, and steps by a model with short reasoning.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import ClassVar, Protocol

from gradus.rollouts.demonstrations import answer_text
from gradus.rollouts.ids import group_name
from gradus.types import Problem, Request, Sampling
from gradus.types.parts import World
from gradus.types.prompts import filled
from gradus.types.ranges import check_ranges

CHECK = " no"  # a step that contains this text is a check


def outlined(flow: Sequence[str], budget: int) -> tuple[str, ...]:
    """Returns an outline of `budget` titles in a flow: pairs of a try and its check, then the conclusion. An odd rest begins with the flow's first intent.

    >>> outlined(("plan", "try", "check", "conclude"), 3), outlined(("plan", "try", "check", "conclude"), 4)
    (('try', 'check', 'conclude'), ('plan', 'try', 'check', 'conclude'))
    """
    *opening, a, b, last = flow
    pairs, rest = divmod(budget - 1, 2)
    return (*((opening or ["plan"])[:1] * rest), *(a, b) * pairs, last)


@dataclass(frozen=True)
class Record:
    """A trace that is being written: the request, the flow of the nearest seed, the budget, the number of the try, and the outline and steps so far."""

    request: Request
    flow: tuple[str, ...]
    budget: int
    number: int = 0
    outline: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


class Writer(Protocol):
    async def outlines(self, records: Sequence[Record], world: World) -> list[tuple[str, ...]]:
        """Returns one outline per record, with as many titles as its budget. An outline of another length is dropped."""
        ...

    async def next(self, records: Sequence[Record], world: World) -> list[str]:
        """Returns the next step of each record."""
        ...


@dataclass(frozen=True)
class Solver:
    """A writer by program. A try has a new wrong result, a check repeats this result, and the conclusion is the worked solution."""

    columns: ClassVar[frozenset[str]] = frozenset({"solution"})

    async def outlines(self, records: Sequence[Record], world: World) -> list[tuple[str, ...]]:
        return [outlined(r.flow, r.budget) for r in records]

    async def next(self, records: Sequence[Record], world: World) -> list[str]:
        return [self._step(r, world) for r in records]

    def _step(self, r: Record, world: World) -> str:
        problem, title = r.request.problem, r.outline[len(r.steps)]
        if title == "conclude":
            return answer_text(problem, "solution")
        if title == "check":
            return r.steps[-1].rpartition("=")[2] + CHECK
        if title != "try":
            return f"to {problem.answer}"
        rng = world.seed.fold("try", world.step, group_name(r.request), r.number, len(r.steps)).random()
        return missed(rng, problem, {step.rpartition("=")[2] for step in r.steps})


def missed(rng: random.Random, problem: Problem, seen: set[str]) -> str:
    """Returns a try with a wrong result that is not in `seen`. The try is one of the problem's `misses`; if there are none, it is the worked solution with
    one letter or digit of its result changed. If no such result is left, returns the worked solution, so the trace repeats a step.
    """
    solution = answer_text(problem, "solution")
    before, mark, result = solution.rpartition("=")
    given = [str(miss) for miss in problem.meta.get("misses", ())]
    at = rng.randrange(max(1, len(result)))
    others = "0123456789" if result[at:][:1].isdigit() else ascii_lowercase
    tries = given or [f"{before}{mark}{result[:at]}{other}{result[at + 1 :]}" for other in others]
    left = [text for text in tries if text.rpartition("=")[2] not in {result, *seen}]
    return rng.choice(left) if left else solution


@dataclass(frozen=True)
class WrittenSteps:
    """A player writes the outline, one title per line, and then one step per call. The writer does not learn from these words; the policy learns them
    as its traces."""

    player: str = "writer"
    outline: str = "{problem}\nA similar problem is solved in these steps: {flow}\nWrite an outline of {budget} steps for this problem, one title per line."
    step: str = "{problem}\noutline: {outline}\nso far: {steps}\nWrite the step: {title}"
    max_tokens: int = 256
    temperature: float = 0.7
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, max_tokens="[1, inf)", temperature="[0, inf)")

    async def outlines(self, records: Sequence[Record], world: World) -> list[tuple[str, ...]]:
        said = await self._said(self.outline, records, world)
        return [tuple(line.strip() for line in one.split("\n") if line.strip()) for one in said]

    async def next(self, records: Sequence[Record], world: World) -> list[str]:
        return [one.strip().replace(";", ",") for one in await self._said(self.step, records, world)]

    async def _said(self, form: str, records: Sequence[Record], world: World) -> list[str]:
        sampling = Sampling(max_tokens=self.max_tokens, temperature=self.temperature)
        asked = [
            replace(
                r.request, count=1, player=self.player, sampling=sampling, trained=False, prompt=({"role": "user", "content": self._filled(form, r)},),
                tags=(*r.request.tags, "write", r.number, len(r.outline), len(r.steps)),
            )
            for r in records
        ]  # fmt: skip
        return [world.text(c.tokens[c.chosen], self.player) for (c,) in await world.sample(asked)]

    def _filled(self, form: str, r: Record) -> str:
        title = r.outline[len(r.steps)] if r.outline else ""
        known = {"problem": r.request.problem.question, "flow": ", ".join(r.flow), "budget": str(r.budget), "outline": ", ".join(r.outline)}
        return filled(form, **known, steps="; ".join(r.steps), title=title)
