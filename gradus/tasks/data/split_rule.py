"""The rule for splitting files of rows.

A run stores the number of its rule, so that a later version of Gradus splits the run's files in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

RULE = 2
"""The number of the present rule. Rule 1 kept all training rows, but only the first row of each held-out prompt."""

rule_of_splits: ContextVar[int] = ContextVar("rule of splits", default=RULE)


@contextmanager
def split_by(rule: int) -> Iterator[None]:
    """A context manager within which files are split by the given rule. Runs that began under an older rule use this context manager."""
    token = rule_of_splits.set(rule)
    try:
        yield
    finally:
        rule_of_splits.reset(token)
