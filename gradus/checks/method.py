"""Checks whether a method is sound. The check does small test updates at two micro-batch sizes, with the method's objective, credit, selection and update.

This takes about a second.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradus.checks.findings import Finding
from gradus.recipe.core import Recipe


def of_method(recipe: Recipe) -> Iterator[Finding]:
    """Yields the faults that `gradus.testing.methods.diagnose` finds. If there are no faults, yields one finding with the result of the check."""
    from gradus.testing.methods import diagnose

    faults = diagnose(recipe)
    for fault in faults:
        yield Finding("method", fault.verdict, fault.says, fault.remedy)
    if all(fault.verdict == "note" for fault in faults):
        yield Finding("method", "ok", "two toy steps: the gradient is sound, and the same at every micro-batch size")
