"""Scores of whole dialogues in several dimensions, and the contribution of each utterance to each score, by a judge that reads the dialogue.

Reference: Yu et al., Sotopia-RL: Reward Design for Social Intelligence, arXiv:2508.03905: dimensions, scores and attribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Protocol

import numpy as np

from gradus.rewards.combine import Combines
from gradus.rewards.judge import Criterion
from gradus.types import Failed, Frozen, Group, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.signals import Signal

DIMENSIONS = ("goal", "relationship", "knowledge")
MOST, HIGHEST = 10, 3  # largest score of an episode; largest attribution


def dialogue(trajectory: Trajectory, world: World) -> list[tuple[str, str]]:
    """Returns (text before the utterance, utterance) for every utterance of an episode. The first text is the whole prompt."""
    pairs: list[tuple[str, str]] = []
    for context in trajectory.contexts:
        if not context.actions:
            continue
        turns = iter(context.streams["turn"].tolist())
        marks = [next(turns) if chosen else -1 for chosen in context.chosen]  # -1: a token that the policy reads
        seen = world.text(context.prefix, trajectory.player)
        for mark, run in groupby(zip(marks, context.tokens.tolist(), strict=True), key=lambda pair: pair[0]):
            text = world.text(np.array([token for _, token in run], np.int32), trajectory.player)
            if mark < 0:
                seen = text
            else:
                pairs.append((seen, text))
                seen = ""
    return pairs


class Attributor(Protocol):
    async def points(self, trajectories: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[int]]: ...


def criteria_for(dimensions: Sequence[str], utterances: int) -> list[Criterion]:
    """Returns the criteria of an episode: for every dimension the score, then the attribution of each utterance."""
    return [
        c
        for name in dimensions
        for c in (Criterion(name, MOST), *(Criterion(f"contribution of utterance {i} to {name}", HIGHEST) for i in range(1, utterances + 1)))
    ]


@dataclass(frozen=True)
class ScriptedAttribution:
    """A scripted judge: `contributions` of the task's environment gives the scores and the attributions, with the private facts of both sides."""

    def check_dialogues(self, task: Task) -> None:
        """Raises UserError if the task's environment has no contributions."""
        if not hasattr(task.environment, "contributions"):
            raise UserError(
                f"ScriptedAttribution reads the contributions of a dialogue, but the environment of task {task.name} has none; take task negotiation, or a "
                "judge that is a model (WrittenPoints)"
            )

    async def points(self, trajectories: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[int]]:
        self.check_dialogues(world.task)
        return [self.of(t, criteria, world.task.environment) for t in trajectories]

    def of(self, trajectory: Trajectory, criteria: Sequence[Criterion], environment: Any) -> list[int]:
        """Returns the points of one dialogue. A dimension that the environment does not know has 0 points."""
        said = [line.removeprefix("you: ") for line in trajectory.completion.split("\n") if line.startswith("you: ")]
        found: dict[str, int] = {}
        for name, (score, attributed) in environment.contributions(trajectory.problem, said).items():
            found |= dict(zip((c.text for c in criteria_for((name,), len(said))), (score, *attributed), strict=True))
        return [found.get(c.text, 0) for c in criteria]


@dataclass(frozen=True)
class SocialScores(Combines):
    """The mean of the episode's scores, each from 0 to 1. `extra` has the dialogue, the scores and the attributions of a trajectory.

    Each dimension is a component. The judge reads the dialogue as lines "partner: ..." and "you: ...".
    """

    judge: Attributor = ScriptedAttribution()
    dimensions: tuple[str, ...] = DIMENSIONS
    name: ClassVar[str] = "social"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise UserError("SocialScores.dimensions is empty; give at least one name, such as goal")

    def check(self, task: Task) -> None:
        """Raises UserError if the judge cannot judge dialogues of the task."""
        if hasattr(self.judge, "check_dialogues"):
            self.judge.check_dialogues(task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        told = {t.id: dialogue(t, world) for g in groups for t in g.trajectories}
        found: dict[str, Judgement] = {}
        everyone = [t for g in groups for t in g.trajectories]
        for count in sorted({len(pairs) for pairs in told.values()}):
            mine = [t for t in everyone if len(told[t.id]) == count]
            shown = [t.but(completion=transcript(told[t.id])) for t in mine]
            rows = await self.judge.points(shown, criteria_for(self.dimensions, count), world) if count else [[] for _ in mine]
            found |= {t.id: self.judged(told[t.id], row) for t, row in zip(mine, rows, strict=True)}
        return [[found[t.id] for t in g.trajectories] for g in groups]

    def judged(self, pairs: Sequence[tuple[str, str]], points: Sequence[int]) -> Judgement:
        """Returns the judgement of an episode from the points in the order of `criteria_for`; a failure if the episode has no utterance."""
        if not pairs:
            return Judgement(Failed("the episode has no utterance to judge"))
        size = len(pairs) + 1
        scores = {name: points[k * size] for k, name in enumerate(self.dimensions)}
        attributed = {name: list(points[k * size + 1 : (k + 1) * size]) for k, name in enumerate(self.dimensions)}
        shares = {name: score / MOST for name, score in scores.items()}
        extra = Frozen(dialogue=[list(pair) for pair in pairs], scores=scores, attributions=attributed)
        return Judgement(sum(shares.values()) / len(shares), Frozen(shares), extra=extra)


def transcript(pairs: Sequence[tuple[str, str]]) -> str:
    """Returns the dialogue as lines. A line break within a text becomes a space."""
    return "\n".join(f"{who}: {' '.join(text.split())}" for pair in pairs for who, text in zip(("partner", "you"), pair, strict=True))
