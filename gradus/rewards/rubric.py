"""The reward `Rubric`: a judge gives points by criteria, and the criteria may change while the policy learns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from gradus.rewards.combine import Combines
from gradus.rewards.judge import Criterion, Judge, criteria_of, kept_criteria
from gradus.types import Failed, Frozen, Group, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


class Reviser(Protocol):
    async def rubrics(self, samples: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[Criterion]]:
        """Writes complete new rubrics from judged samples and the present criteria. The caller then merges these rubrics into one.

        If there is no new rubric, the criteria do not change.
        """
        ...


@dataclass(frozen=True)
class Rubric(Combines):
    """A reward: the sum of the points that `judge` gives for the criteria.

    With a reviser, the criteria change after every `every`-th batch.

    The reviser gets `samples` answers of that batch with their rewards, and its rubrics are merged into one. Answers that were judged
    before a change keep their rewards. The criteria are stored with the run as state. Evaluations read the criteria and never change them.
    Metric `rubric/items`: the number of criteria after the batch.
    """

    criteria: tuple[Criterion, ...]  # the criteria at the start of the run
    judge: Judge
    reviser: Reviser | None = None  # None: the criteria do not change
    every: int = 10  # number of batches between two changes of the criteria
    samples: int = 20  # answers shown to the reviser; fewer if the batch has fewer
    name: ClassVar[str] = "rubric"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True  # points do not mark an answer as right

    def __post_init__(self) -> None:
        check_ranges(self, every="[1, inf)", samples="[1, inf)")
        if not self.criteria:
            raise UserError("Rubric.criteria is empty; give at least one Criterion")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the judge cannot judge the first criteria on this task."""
        if hasattr(self.judge, "check_criteria"):
            self.judge.check_criteria(self.criteria, task)

    def start(self) -> dict[str, Any]:
        return {"criteria": kept_criteria(self.criteria), "batches": 0, "changes": 0}

    async def score(
        self, groups: Sequence[Group], signals: Signals, world: World, state: dict[str, Any]
    ) -> tuple[list[list[Judgement]], dict[str, Any]]:
        criteria = criteria_of(state["criteria"])
        rows = iter(await self.judge.points([t for g in groups for t in g.trajectories], criteria, world))
        judged = [[judgement(next(rows), criteria) for _ in g.trajectories] for g in groups]
        return judged, state

    async def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state after a batch. After every `every`-th batch, the reviser's merged rubrics become the criteria."""
        state = {**state, "batches": state["batches"] + 1}
        if self.reviser is not None and state["batches"] % self.every == 0:
            answers = [t for g in (*groups, *dropped) for t in g.trajectories if not isinstance(t.reward, Failed)]
            chosen = [answers[i] for i in sorted(world.key.fold("rubric").permutation(len(answers))[: self.samples])]
            new = merged(await self.reviser.rubrics(chosen, criteria_of(state["criteria"]), world))
            state = {**state, "criteria": kept_criteria(new), "changes": state["changes"] + 1} if new else state
        world.note("rubric/items", len(state["criteria"]))
        return state


def judgement(points: Sequence[int], criteria: Sequence[Criterion]) -> Judgement:
    """Adds up the points. The judgement also contains the points of each criterion, for people to read."""
    return Judgement(float(sum(points)), extra=Frozen({c.text: p for c, p in zip(criteria, points, strict=True)}))


def merged(rubrics: Iterable[Sequence[Criterion]]) -> list[Criterion]:
    """Returns all criteria in order, without repetitions. If texts differ only in case and spaces, only the first text stays."""
    known: dict[str, Criterion] = {}
    for criterion in (c for rubric in rubrics for c in rubric):
        known.setdefault(" ".join(criterion.text.lower().split()), criterion)
    return list(known.values())
