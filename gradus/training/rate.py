"""Stores the learning rate of a run in its plan, and makes a line about a learning rate that a rule chose."""

from __future__ import annotations

from dataclasses import replace

from gradus.players.rates import reason
from gradus.recipe.core import Recipe
from gradus.schedules.stages import Stage
from gradus.training.course import recipe_of, staged, with_rates
from gradus.training.plan import Plan
from gradus.training.run import Run


def with_its_rate(planned: Plan, run: Run) -> Plan:
    """Returns the plan with the learning rate of `run` as a number, so that a resumed run does not compute its rate again."""
    if run.stages is not None:
        return replace(planned, recipe=with_rates(planned.recipe, run.stages.legs))
    return replace(planned, recipe=planned.recipe.but(setting__learning_rate=run.recipe.setting.learning_rate))


def chosen_rate(planned: Plan) -> str | None:
    """Returns a line about the learning rates that a rule chose. If the run has stages, the line contains their names.

    Returns None if the recipe or the optimiser of the policy sets the rate, or if the policy does not learn.
    """
    recipe = planned.recipe
    if not staged(recipe):
        return f"learning rate {reason(recipe, planned.model)}, by rule; change it with --learning_rate X" if _by_rule(recipe) else None
    stages: dict[str, list[str]] = {}
    for name, stage in recipe.schedule.stages.items():
        if isinstance(stage, Stage) and _by_rule(own := recipe_of(recipe, name)):
            stages.setdefault(reason(own, planned.model), []).append(name)
    told = [f"learning rate of stage{'s' * (len(names) > 1)} {', '.join(names)}: {rate}, by rule" for rate, names in stages.items()]
    return f"{'; '.join(told)}; change it with --learning_rate X" if told else None


def _by_rule(recipe: Recipe) -> bool:
    """Whether a policy learns and its recipe sets no rate."""
    rule = (recipe.players["policy"].optimizer if "policy" in recipe.players else None) or recipe.optimizer
    return recipe.setting.learning_rate is None and getattr(rule, "lr", 0.0) is None and bool(recipe.objective)
