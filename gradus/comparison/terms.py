"""The terms of a comparison in the words of the command line, and the terms of a proving ground."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradus.comparison.experiment import Experiment, arm_of, seeds_of
from gradus.comparison.ground import Ground, ground_of
from gradus.comparison.measures import Measure
from gradus.comparison.starts import elsewhere_of, terms_of
from gradus.rewards.functions import reward_from
from gradus.training.budget import budget_of
from gradus.types import UserError

SEEDS, BUDGET, SAMPLES = 3, "steps=20", 4


def experiment_of(
    recipes: Sequence[str],
    *,
    ground: str | None = None,
    seeds: int | str | Sequence[int] | None = None,
    budget: str | None = None,
    measure: str | None = None,
    shows: Sequence[str] = (),
    others: Sequence[str] = (),
    samples: int | None = None,
    task_options: Mapping[str, str] | None = None,
    fields: Mapping[str, str] | None = None,
    said: Callable[[str], None] | None = None,
    **terms: Any,
) -> Experiment:
    """Makes the experiment from the words of the command line. If an argument is None, the ground's term is used; without a ground, the default is used.

    `terms`: task, model, profile, problems, device, reward. Fields and further measures are added to those of the ground. `said` gets a
    sentence before a start model is made. Raises UserError if a ground is given together with a task or task options, because a ground has its own task.
    """
    given = {name: value for name, value in terms.items() if value is not None}
    found = ground_of(ground) if ground is not None else None
    if found is not None and (given.get("task") is not None or task_options):
        raise UserError(f"the ground {found.name} has its own task; leave out --task and the task options, or leave out --ground")
    base: dict[str, Any] = {} if found is None else terms_of(found, said)
    base |= given
    if "reward" in base:
        base["reward"] = rewards_in_words(base["reward"])
    if task_options:
        base["task_options"] = tuple(task_options.items())
    base["fields"] = tuple({**dict(base.get("fields", ())), **(fields or {})}.items())
    base["measure"] = measure or base.get("measure", "accuracy")
    own = () if found is None else found.measures
    base["shows"] = tuple(name for name in dict.fromkeys((*own, *shows)) if name != base["measure"])
    base["others"] = (*base.get("others", ()), *(elsewhere_of(text) for text in others))
    needed = max(Measure(name).samples for name in (base["measure"], *base["shows"]))
    base["samples"] = samples or max(base.get("samples", SAMPLES), needed)
    base["budget"] = budget_of(budget) if budget is not None else base.get("budget", budget_of(BUDGET))
    numbers = SEEDS if seeds is None else seeds
    base["seeds"] = seeds_of(str(numbers)) if isinstance(numbers, int | str) else tuple(numbers)
    return Experiment(tuple(arm_of(word) for word in recipes), **base)


def rewards_in_words(given: Any) -> tuple[str, ...]:
    """The rewards as texts. `given`: a text, a function at the top level of a file, a pair (reward, weight), or a list of these.

    Raises UserError for any other reward, because the training processes cannot load it.
    """
    if not given:
        return ()
    told = []
    for one in given if isinstance(given, list) or (isinstance(given, tuple) and not _is_pair(given)) else [given]:
        what, weight = one if _is_pair(one) else (one, 1.0)
        made = what if isinstance(what, str | Path) else getattr(reward_from(what), "path", None)
        if made is None:
            raise UserError(
                f"the reward {getattr(what, '__name__', type(what).__name__)} exists only in this process, but a comparison trains in other "
                "processes; define the reward at the top level of a file, and give FILE.py:FUNCTION"
            )
        told.append(f"{made}*{weight:g}" if weight != 1.0 else str(made))
    return tuple(told)


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], int | float)


def calibration(ground: Ground, said: Callable[[str], None] | None = None) -> Experiment:
    """The comparison that shows whether the ground separates its pair."""
    arms = dict.fromkeys((ground.pair.better, ground.pair.worse, *ground.arms))
    return experiment_of(tuple(arms), ground=ground.name, seeds=ground.seeds, measure=ground.pair.measure, said=said)
