"""Chooses problems by the mean reward that a value model predicts from the prompt, before any sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradus.curricula.rates import Choice, Nearest, candidates, rank_correlation
from gradus.types import Group, Request, UserError
from gradus.types.contexts import after_prompt
from gradus.types.parts import Source, Task, World
from gradus.types.prompts import prompt_of
from gradus.types.ranges import check_ranges
from gradus.types.signals import Value
from gradus.types.spaces import Box


@dataclass(frozen=True)
class PredictedRates:
    """Asks a value model for the mean reward of candidate problems, and requests the candidates that `choice` selects.

    For a request for n problems, the candidates are the next `factor` * n problems in the order of `ShuffledEpochs`, each once. Metrics:
    predicted_rate, the mean prediction for the requested problems; rank_correlation, Spearman's correlation of the predictions with the mean
    rewards of the step.

    Reference: Gao et al., Prompt Curriculum Learning, arXiv:2510.01135.
    """

    player: str = "critic"  # a player with a value head
    choice: Choice = Nearest(0.5)
    factor: int = 4  # candidates per requested problem
    group: int | None = None  # samples per problem; None: `group` of the setting
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, factor="[1, inf)", group="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the actions of the task are numbers, because such a task has no prompts in text."""
        if isinstance(task.acting, Box):
            raise UserError(
                f"task {task.name} takes numbers as actions, but PredictedRates needs prompts and answers in text; use a task whose answers are text"
            )

    def start(self) -> dict[str, Any]:
        return {"drawn": 0, "predicted": {}}

    async def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state has the number of candidates so far, and the predictions for the requested problems."""
        first = state["drawn"]
        problems, number = candidates(source, count, world, factor=self.factor, first=first, size=source.size)
        prompts = [world.opening(prompt_of(Request(p), world.task.system), self.player) for p in problems]
        rows = await world.score([after_prompt(p) for p in prompts], Value(), self.player)
        values = np.array([float(row[0]) for row in rows])
        chosen = self.choice.pick(values, count, world.seed.fold("predicted", first))
        for i in chosen:
            world.note("predicted_rate", values[i])
        predicted = {problems[i].id: float(values[i]) for i in chosen}
        requests = [Request(problems[i], count=self.group or world.group) for i in chosen]
        return requests, {"drawn": first + number, "predicted": {**state["predicted"], **predicted}}

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state without predictions, and records the rank correlation as a metric."""
        pairs = [(state["predicted"].get(g.trajectories[0].problem.id), g.rewards.mean()) for g in (*groups, *dropped)]
        known = [(p, r) for p, r in pairs if p is not None]
        if (seen := rank_correlation([p for p, _ in known], [r for _, r in known])) is not None:
            world.note("rank_correlation", seen)
        return {**state, "predicted": {}}
