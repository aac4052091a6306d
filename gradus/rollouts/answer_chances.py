"""After each step of an answer: the probability that the player, asked to answer at once, gives each candidate answer. The candidates are the right answer
and the
wrong answers of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.spans import STREAM, check_text, places, rows_of, streamed
from gradus.types import Context, Frozen, Group, Request, Trajectory, UserError
from gradus.types.answers import answered, final_answer
from gradus.types.parts import Rollout, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb
from gradus.types.spans import STEPS, Marking, ends

CHANCES = "chance"  # float64 [A, 2, 1 + hypotheses]: before and after the action's step, for the right answer and each hypothesis; NaN without a step


@dataclass(frozen=True)
class AnswerChances:
    """Adds two streams to the answers: `span` is the step of each action, and `chance` contains the probabilities (chances) of the candidate answers before
    and after this step.

    To measure the chance of a candidate before a step, the player scores the text before the step, then `lead`, then the candidate. The chance is the geometric
    mean of the probabilities of the candidate's tokens and of the end token. After the last step the answer is known: the chance of the given answer is 1, and all
    other chances are 0. The hypotheses of a group are its first distinct wrong answers. `player` scores the answers without gradient. Metrics: `hypotheses`
    (number per group), `truth_chance` (the chance of the right answer before the first step).
    """

    rollout: Rollout = Auto()
    marking: Marking = STEPS
    hypotheses: int = 5  # largest number of wrong answers of a group
    lead: str = "="  # text before an answer
    player: str = "policy"
    gives: ClassVar[frozenset[str]] = frozenset({"spans", "answer chances"})
    plays: ClassVar[str] = "answers"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, hypotheses="[0, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text."""
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout` with both streams. Raises UserError if a problem has no reference answer, or if an answer has several
        contexts."""
        groups = await rolled(self.rollout, requests, world)
        marks = {t.id: rows_of(self.marking, t, world) for g in groups for t in g.trajectories}
        candidates = {g.key: self.candidates(g) for g in groups}
        asked = {
            (context.beginning(at), answer): (context, at, answer)
            for g in groups
            for t in g.trajectories
            for context, row in zip(t.contexts, marks[t.id], strict=True)
            for at in places(context, row)
            for answer in candidates[g.key]
        }
        pieces = [asking(context.until(at), self.lead, answer, world, self.player) for context, at, answer in asked.values()]
        scored = await world.score(pieces, LogProb(), self.player) if pieces else []
        chances = {key: float(np.exp(row.astype(np.float64).mean())) for key, row in zip(asked, scored, strict=True)}
        out = []
        for g in groups:
            rows = {t.id: self._rows(t, marks[t.id], candidates[g.key], chances) for t in g.trajectories}
            out.append(streamed(streamed(g, STREAM, {t.id: marks[t.id] for t in g.trajectories}), CHANCES, rows))
            world.note("hypotheses", len(candidates[g.key]) - 1)
            known = [chances[c.beginning(int(c.action_positions[0])), candidates[g.key][0]] for t in g.trajectories for c in t.contexts if c.actions]
            world.note("truth_chance", float(np.mean(known)) if known else 0.0)
        return out

    def candidates(self, group: Group) -> list[str]:
        """Returns the right answer and the first distinct wrong answers of a group. Answers are distinct if their normalised forms differ."""
        problem = group.trajectories[0].problem
        if problem.reference is None:
            raise UserError(
                f"problem {problem.id} has no reference answer, but AnswerChances reads the chance of the reference answer; use a task whose "
                "problems have reference answers"
            )
        found: dict[object, str] = {}
        for t in group.trajectories:
            if not t.right and (form := answered(t.completion)) is not None and form != answered(problem.reference):
                found.setdefault(form, final_answer(t.completion).rpartition("=")[2].strip())
        return [problem.reference, *found.values()][: 1 + self.hypotheses]

    def _rows(self, t: Trajectory, marks: Sequence[np.ndarray], answers: Sequence[str], chances: dict[tuple[bytes, str], float]) -> list[np.ndarray]:
        """Returns the chances [A, 2, 1 + hypotheses] of each context's actions: for each candidate answer, before and after the step of the action."""
        if sum(c.actions > 0 for c in t.contexts) > 1:
            raise UserError(
                f"AnswerChances reads answers of one context, but trajectory {t.id} has {len(t.contexts)} contexts; use a rollout with one "
                "context per answer, such as Auto"
            )
        given = [float(t.right), *(float(not t.right and answered(t.completion) == answered(a)) for a in answers[1:])]
        out = []
        for context, row in zip(t.contexts, marks, strict=True):
            filled = np.full((len(row), 2, 1 + self.hypotheses), np.nan)
            states = [*([chances[context.beginning(at), a] for a in answers] for at in places(context, row)), given]
            for k, number in enumerate(dict.fromkeys(row[row >= 0].tolist())):
                filled[row == number, :, : len(answers)] = [states[k], states[k + 1]]
            out.append(filled)
        return out


def asking(start: Context, lead: str, answer: str, world: World, player: str) -> Context:
    """Returns the context `start`, then `lead`, then the answer and the end token. Only the tokens after `lead` are actions."""
    piece = world.told(lead + answer, player)
    after = ends(piece.tokens, lambda tokens: world.text(tokens, player)) > len(lead)
    after[int(after.argmax()) if after.any() else -1 :] = True  # the end token has no text
    return replace(piece, chosen=after, parent=(start, len(start.sequence)), streams=Frozen())
