"""Evaluation of a reward model: the share of pairs of held-out answers that the model orders correctly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradus.selection.filters import without_failures
from gradus.study.held_out import held_out_requests, of_problems
from gradus.study.judged import ExamTable, best_of_table, calibration_error, pair_chances
from gradus.study.summary import mean
from gradus.types import Group
from gradus.types.parts import Reward, Task
from gradus.types.ranges import check_ranges
from gradus.types.signals import Values


@dataclass(frozen=True)
class PairAccuracy:
    """Measures the share of pairs of held-out answers whose values have the same order as their rewards.

    The recipe's rollout makes the answers.
    """

    problems: int = 64
    samples: int = 8  # number of answers per problem, for problems without a given pair
    player: str = "policy"  # the player whose value head scores the answers
    reward: Reward | None = None  # the reward that judges evaluations; None: the recipe's reward
    patience: int = 0  # the run stops early after this number of evaluations without improvement; 0: it never stops early
    target: float | None = None  # the run stops when held_out/accuracy reaches this number; None: no such stop
    of_judge: ClassVar[bool] = True  # the trained model judges answers and writes none, so an evaluation has the tables of this study and no pass@k

    def __post_init__(self) -> None:
        check_ranges(self, problems="[1, inf)", samples="[2, inf)", patience="[0, inf)", target="[0, inf)")

    def judges(self, task: Task) -> bool:
        """Whether this study needs verdicts in addition to those of the recipe's rollout. Always False, because the study scores the answers of this rollout.
        """
        return False

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        """Returns the metrics "held_out/NAME":

        - `accuracy`: the share of pairs in the right order. `problems`: the number of problems that have a pair with different rewards. `low` and `high`: the
          95 % interval of the accuracy over these problems.
        - `reward`: the mean reward of the answers. `picked`: the mean reward of each problem's answer with the highest score.
        - `calibration_error`: the calibration error of sigmoid(s_i - s_j), the predicted chance that answer i is better than answer j.
        """
        return self._measured(await self.scored(run, recipe, world))

    async def tables(self, run: Any, recipe: Any, world: Any) -> list[ExamTable]:
        """Returns the tables of an evaluation: the metrics of `measure`, and the best-of-n curve if all problems have the same number of answers."""
        scored = await self.scored(run, recipe, world)
        found = self._measured(scored)
        names = ("held_out/problems", "held_out/accuracy", "held_out/low", "held_out/high", "held_out/calibration_error", "held_out/reward")
        row = tuple(None if (value := found.get(name)) is None else float(value) for name in names)
        judged = ExamTable("reward model: share of pairs in the right order", tuple(name.partition("/")[2] for name in names), (row,))
        return [judged, best_of_table([(scores, np.asarray(group.rewards, np.float64)) for group, scores in scored])]

    def _measured(self, scored: Sequence[tuple[Group, np.ndarray]]) -> dict[str, float | None]:
        shares, rewards, picked = [], [], []
        chances: list[float] = []
        outcomes: list[float] = []
        for group, scores in scored:
            share = pair_accuracy(scores, group.rewards)
            shares += [] if share is None else [share]
            rewards.append(float(group.rewards.mean()))
            picked.append(float(group.rewards[int(np.argmax(scores))]))
            for whole, part in zip((chances, outcomes), pair_chances(scores, group.rewards), strict=True):
                whole += part
        means = {"held_out/reward": mean(rewards), "held_out/picked": mean(picked)}
        return {**of_problems(shares), **means, "held_out/calibration_error": calibration_error(chances, outcomes)}

    async def scored(self, run: Any, recipe: Any, world: Any) -> list[tuple[Group, np.ndarray]]:
        """Returns the groups of the held-out problems, each with the scores of its answers. Answers without a reward are left out."""
        requests = held_out_requests(world.task.held_out, self.problems, self.samples, world.task.level)
        groups = without_failures(await run.memory.peek("rollout", recipe.rollout, "run", requests, world))
        groups = [g for g in groups if all(t.actions for t in g.trajectories)]
        signal = Values(player=self.player)
        rows = (await world.signals(groups, (signal,)))[signal]
        return [(g, last_rows(g, rows)) for g in groups]


def last_rows(group: Group, rows: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns [G]: the value before the last action of each answer."""
    return np.array([rows[t.id][-1] for t in group.trajectories], dtype=np.float64)


def pair_accuracy(scores: Sequence[float] | np.ndarray, rewards: Sequence[float] | np.ndarray) -> float | None:
    """Returns the share of pairs whose scores have the same order as their rewards.

    Only pairs with different rewards count. A pair with equal scores counts as one half. Returns None if no pair has different rewards.

    >>> pair_accuracy([3.0, 1.0, 1.0], [1.0, 1.0, 0.0])  # of the two pairs one is right and one undecided
    0.75
    """
    scores, rewards = np.asarray(scores, np.float64), np.asarray(rewards, np.float64)
    better, worse = np.nonzero(rewards[:, None] > rewards[None, :])
    if not len(better):
        return None
    lead = scores[better] - scores[worse]
    return float(np.mean((lead > 0) + 0.5 * (lead == 0)))
