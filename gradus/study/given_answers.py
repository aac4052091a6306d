"""Evaluation on given answers. This study computes the objective on held-out solutions or preference pairs, without sampling and without a judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradus.objectives.terms import evaluate, needs_of, wants_of
from gradus.study.held_out import held_out_requests
from gradus.types import Group
from gradus.types.batch import make_batch
from gradus.types.parts import Task
from gradus.types.ranges import check_ranges

GIVEN = "expert"  # the source that a given answer has


@dataclass(frozen=True)
class GivenAnswers:
    """Evaluates the objective's terms for given answers on held-out problems. The best checkpoint has the lowest `held_out/loss`.

    `GivenAnswers` replaces the study of a run if the run's rollout gives all answers, and no reward can judge sampled answers.
    """

    problems: int = 256
    patience: int = 0  # the run stops early after this number of evaluations without improvement; 0: it never stops early
    target: float | None = None  # the run stops when held_out/loss is at most this number; None: no such stop

    def __post_init__(self) -> None:
        check_ranges(self, problems="[1, inf)", patience="[0, inf)")

    def judges(self, task: Task) -> bool:
        """Whether this study needs a reward. Always False."""
        return False

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        """Returns the metrics "held_out/loss" (the sum of the terms, in nats), "held_out/problems", and "held_out/NAME" for each metric of the terms.

        Terms for preferences have two metrics. `preferred` is the share of pairs whose better answer has the higher score. `margin` is the mean difference of
        the scores. If there are no given answers, or no terms for them, the loss is None.
        """
        requests = held_out_requests(world.task.held_out, self.problems, 1, world.task.level)
        groups = await run.memory.peek("rollout", recipe.rollout, "run", requests, world)
        given = [with_advantages(g) for g in groups if g.trajectories and all(t.source == GIVEN and t.actions for t in g.trajectories)]
        terms = {name: term for name, term in recipe.objective.items() if getattr(term, "source", None) == GIVEN}
        if not given or not terms:
            return {"held_out/loss": None, "held_out/problems": 0}
        batch = make_batch(given, await world.signals(given, needs_of(terms)))
        rows = {w: torch.from_numpy(np.concatenate(await world.score(batch.contexts, w, purpose="evaluate"))) for w in wants_of(terms)}
        loss, metrics = evaluate(terms, {want: found.requires_grad_() for want, found in rows.items()}, batch)
        named = {f"held_out/{name}": found.mean for name, found in metrics.items() if not name.startswith("loss/")}
        return {"held_out/loss": float(loss.detach()), **named, "held_out/problems": len(given)}


def with_advantages(group: Group) -> Group:
    """Gives every action of a group the advantage 1.

    A batch must have advantages, but terms for given answers do not read them.
    """
    return group.but(trajectories=tuple(t.but(advantages=np.ones(t.actions)) for t in group.trajectories))
