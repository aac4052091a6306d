"""The question in words, as on the command line, and its facts. The facts come from the task, from the settings, and from a probe of the model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gradus.advice.facts import Facts, goal_of, offers, rewards_of
from gradus.advice.probe import probed
from gradus.comparison.experiment import Experiment
from gradus.comparison.terms import experiment_of
from gradus.players.rates import with_rate
from gradus.policies.registry import LANGUAGE_MODEL
from gradus.training.plan import Plan, load_task
from gradus.training.run import sampling_of
from gradus.types import Key, UserError
from gradus.types.parts import Task
from gradus.types.ranges import check_ranges

REFERENCE = "grpo"
"""The reference recipe. This recipe gives the facts about settings, and every first recipe is compared with it."""


@dataclass(frozen=True)
class Asked:
    """A question: the settings (those of a comparison), and the size of the probe.

    `noisy`: whether the user declares that verdicts can be wrong.
    """

    experiment: Experiment
    task: Task
    noisy: bool = False
    problems: int = 16  # number of problems of the probe; 0: no probe
    samples: int = 16  # number of answers per problem of the probe

    def __post_init__(self) -> None:
        check_ranges(self, problems="[0, inf)", samples="[1, inf)")

    @property
    def plan(self) -> Plan:
        """Returns the plan of the reference recipe with the settings of the question."""
        return self.experiment.plan(self.experiment.arms[0], 0)


def asked_of(*, noisy: bool = False, problems: int = 16, samples: int = 16, **terms: Any) -> Asked:
    """Makes the question from words as on the command line. `terms`: the arguments of `gradus.comparison.terms.experiment_of`; these arguments may name a ground."""
    experiment = experiment_of([REFERENCE], **terms)
    if experiment.task is None:
        experiment = replace(experiment, task=LANGUAGE_MODEL.task)
    return Asked(experiment, load_task(experiment.task, dict(experiment.task_options)), noisy, problems, samples)


def facts_of(asked: Asked) -> tuple[Facts, str]:
    """Returns the facts, and the reason why no probe was made ("" if there was a probe)."""
    planned, task = asked.plan, asked.task
    judged = rewards_of(asked.experiment.reward, {text: os.path.isdir(text) for text in asked.experiment.reward})
    probe, reason = _probe(asked, own=judged["function"] and not judged["learned"])
    found: dict[str, Any] = {**offers(task), **judged, **settings(planned, task), **probe, "goal": _goal(asked)}
    return Facts(**found, noisy=asked.noisy or _declared(task)), reason


def settings(planned: Plan, task: Task) -> dict[str, Any]:
    """Returns the facts from the settings of a run: {"rate", "updates", "max_tokens"}."""
    recipe, setting = planned.recipe, planned.recipe.setting
    ruled = rule_rate(planned)
    return {
        "rate": 1.0 if setting.learning_rate is None else setting.learning_rate / ruled,
        "updates": getattr(recipe.update, "epochs", 1) * getattr(recipe.update, "count", 1),
        "max_tokens": sampling_of(recipe, task).max_tokens,
    }


def rule_rate(planned: Plan) -> float:
    """Returns the learning rate of a recipe that sets no rate: the rate that the rule gives for this model."""
    bare = replace(planned.recipe, setting=replace(planned.recipe.setting, learning_rate=None))
    found = with_rate(bare, planned.model).setting.learning_rate
    assert found is not None
    return found


def _goal(asked: Asked) -> str:
    return goal_of(asked.experiment.measure, asked.task.name, asked.experiment.others)


def _declared(task: Task) -> bool:
    """Whether the first problem of the task has the mark for noisy verdicts."""
    return any(problem.meta.get("noisy") for problem in task.source.draw([0], task.level, Key(0).fold("problems")))


def _probe(asked: Asked, own: bool) -> tuple[Mapping[str, float | None], str]:
    if not asked.problems:
        return {}, "you asked for none"
    try:
        return probed(asked.plan, asked.task, asked.problems, asked.samples, own=own), ""
    except UserError as error:
        return {}, str(error)
