"""Compares the final answers of two texts (`gradus.types.answers`): the verifier for data files with answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradus.types import NOT_APPLICABLE, Outcome, Problem
from gradus.types.answers import answered, final_answer, normalised, same_answer

__all__ = ["answered", "final_answer", "has_answer", "normalised", "same_answer", "verify"]


def has_answer(answer: Any) -> bool:
    """Returns whether `verify` can use this answer: a number, true, false, text that is not blank, or a list of these.

    Blank text is excluded, because otherwise an empty completion would be right.
    """
    items = answer if isinstance(answer, list | tuple) else [answer]
    return bool(items) and all(item is not None and not isinstance(item, Mapping | list | tuple) and str(item).strip() for item in items)


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the final answer equals the problem's answer, or one answer of its list; else 0.0. The result for a problem without an answer is
    NOT_APPLICABLE."""
    if not has_answer(problem.answer):
        return NOT_APPLICABLE
    accepted = problem.answer if isinstance(problem.answer, list | tuple) else [problem.answer]
    return float(any(same_answer(completion, answer) for answer in accepted))
