"""Checks a recipe with stages: every stage must fit its task, and produce the output that later stages need. Then checks the method of each stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gradus.checks.findings import Finding, collected, guarded
from gradus.checks.learning import of_learning
from gradus.checks.method import of_method
from gradus.training.course import Leg, course
from gradus.training.plan import load_task, task_of

if TYPE_CHECKING:
    from gradus.training.plan import Plan


def first_stage(plan: Plan, found: list[Finding]) -> Plan | None:
    """Checks all stages and returns the plan of the first stage alone, for the checks that need task and model.

    Returns None if the stages do not fit together.
    """
    task = guarded("task", found, lambda: task_of(plan))
    legs: Sequence[Leg] | None = None if task is None else guarded("stages", found, lambda: course(plan.recipe, task, load_task))
    if legs is None:
        return None
    told = ", ".join(f"{leg.name} ({'a merge' if leg.merges else f'{leg.recipe.key}, at most {leg.steps} steps'})" for leg in legs)
    found.append(Finding("stages", "ok", f"in order: {told}; the checks below with task and model are those of {legs[0].name}"))
    seen = []
    for leg in legs:
        if leg.merges or leg.recipe in seen:
            continue
        seen.append(leg.recipe)
        mine: list[Finding] = []
        collected("method", mine, of_learning(leg.recipe))
        collected("method", mine, of_method(leg.recipe))
        found += [replace(finding, says=f"stage {leg.name}: {finding.says}") for finding in mine]
    return replace(plan, recipe=legs[0].recipe)
