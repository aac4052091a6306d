"""The problems' own hints, as a ladder from least to most help, and prompts with a hint below.

`problem.meta["hints"]` maps kinds of hint, from abstract to concrete, to parts in reading order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gradus.rollouts.prompts import after, prompt_of
from gradus.types import Problem, Request, UserError


@dataclass(frozen=True)
class Hint:
    """One rung: its level from 1, its kind, and the text of its kind's parts so far."""

    level: int
    kind: str
    text: str


def ladder(problem: Problem, kinds: Sequence[str]) -> tuple[Hint, ...]:
    """All hints of a problem, kind after kind, each kind growing part by part. Raises UserError if a kind is missing or not a list of parts."""
    hints = problem.meta.get("hints")
    rungs: list[tuple[str, str]] = []
    for kind in kinds:
        parts = hints.get(kind) if isinstance(hints, Mapping) else None
        if not isinstance(parts, (list, tuple)) or not parts:
            raise UserError(
                f'problem {problem.id} has no hints of the kind "{kind}"; "hints" must map {", ".join(kinds)} to lists of parts '
                "in reading order"
            )
        rungs += [(kind, "".join(map(str, parts[: i + 1]))) for i in range(len(parts))]
    return tuple(Hint(level, *rung) for level, rung in enumerate(rungs, 1))


def hinted(request: Request, hint: Hint, form: str, system: str | None) -> Request:
    """One sample for the request's prompt with the hint below it, with its own random draws. "{}" in `form` is replaced by the hint."""
    prompt = after(prompt_of(request, system), form.replace("{}", hint.text))
    return replace(request, count=1, prompt=prompt, tags=(*request.tags, "hint", hint.level))
