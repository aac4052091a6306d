"""Orders the hints of a problem from least to most help, and adds a hint to the end of a prompt.

`problem.meta["hints"]` maps each kind of hint to its parts in reading order. The kinds go from abstract to concrete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gradus.types import Problem, Request, UserError
from gradus.types.prompts import after, prompt_of


@dataclass(frozen=True)
class Hint:
    """One hint: its level (from 1), its kind, and its text. The text consists of the first parts of this kind."""

    level: int
    kind: str
    text: str


def ladder(problem: Problem, kinds: Sequence[str]) -> tuple[Hint, ...]:
    """Returns all hints of a problem, kind after kind. Within a kind, each hint has one part more than the previous hint.

    Raises UserError if a kind is missing or is not a list of parts.
    """
    hints = problem.meta.get("hints")
    rungs: list[tuple[str, str]] = []
    for kind in kinds:
        parts = hints.get(kind) if isinstance(hints, Mapping) else None
        if not isinstance(parts, (list, tuple)) or not parts:
            raise UserError(
                f'problem {problem.id} has no hints of the kind "{kind}"; "hints" must map {", ".join(kinds)} to lists of parts, in the order of '
                "reading"
            )
        rungs += [(kind, "".join(map(str, parts[: i + 1]))) for i in range(len(parts))]
    return tuple(Hint(level, *rung) for level, rung in enumerate(rungs, 1))


def hinted(request: Request, hint: Hint, form: str, system: str | None) -> Request:
    """Returns a request for one sample, with its own random draws. The prompt of this request ends with `form`, in which the hint replaces "{}"."""
    prompt = after(prompt_of(request, system), form.replace("{}", hint.text))
    return replace(request, count=1, prompt=prompt, tags=(*request.tags, "hint", hint.level))
