"""The rule that splits files of rows. A run stores its number, so that a later version splits the files of the run as before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

RULE = 2
"""Today's rule. Rule 1 kept the first row of a held-out prompt only, and all training rows."""

rule_of_splits: ContextVar[int] = ContextVar("rule of splits", default=RULE)


@contextmanager
def split_by(rule: int) -> Iterator[None]:
    """A context in which files are split by a rule, for runs that began under it."""
    token = rule_of_splits.set(rule)
    try:
        yield
    finally:
        rule_of_splits.reset(token)
