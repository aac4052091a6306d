"""A vote of score vectors: many samples score the same responses, and the sums of the scores decide. A meta model can choose the samples that count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.demonstrations import told
from gradus.tasks.text.scoring import reordered, scores_of
from gradus.types import Frozen, Group, Problem, Request, Trajectory, UserError
from gradus.types.parts import Rollout, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Value


def voted(samples: Sequence[Sequence[float]], meta: Sequence[float] | None, keep: float) -> list[float]:
    """Returns the sums of the scores per response, [n], over the ceil(keep * k) samples with the largest meta scores. If meta scores are equal, the earlier
    samples count.

    >>> voted([[3, 5], [6, 4], [2, 7]], None, 0.5), voted([[3, 5], [6, 4], [2, 7]], [0.9, 0.1, 0.8], 2 / 3)
    ([11, 16], [5, 12])
    """
    order = list(range(len(samples)))
    if meta is not None:
        order = sorted(order, key=lambda m: -meta[m])[: math.ceil(keep * len(samples) - 1e-9)]
    return [sum(samples[m][i] for m in order) for i in range(len(samples[0]))]


@dataclass(frozen=True)
class ScoreVote:
    """Samples `count` score vectors per problem, each for the responses in another random order, and adds these vectors. The answer has the mean scores.

    With a player `meta`, only some samples count: the share `keep` with the largest values of this player.
    """

    count: int = 32
    keep: float = 0.5
    meta: str | None = "meta"
    shuffled: bool = True
    rollout: Rollout = Auto()

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)", keep="(0, 1]")

    @property
    def names_players(self) -> tuple[str, ...]:
        return () if self.meta is None else ("meta",)

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the vote on one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` judged votes on each problem."""
        asked = [self._asked(r, j, world) for r in requests for j in range(r.count * self.count)]
        groups = await rolled(self.rollout, [one for one, _ in asked], world)
        samples = [(g.trajectories[0], order) for g, (_, order) in zip(groups, asked, strict=True)]
        values = await self._values([t for t, _ in samples], world)
        made, at = [], 0
        for r in requests:
            made.append(Group(r.problem.id, tuple(self._vote(r, i, samples, values, at + i * self.count, world) for i in range(r.count))))
            at += r.count * self.count
        return await world.judge(made)

    def _asked(self, request: Request, number: int, world: World) -> tuple[Request, list[int]]:
        if "responses" not in request.problem.meta:
            raise UserError(f"ScoreVote reads the responses of a problem, but problem {request.problem.id} has no column responses; take a task such as scoring")
        size, name = len(request.problem.meta["responses"]), request.sample * self.count + number
        key = world.key.fold("responses", request.problem.id, *request.tags, name)
        order = key.permutation(size).tolist() if self.shuffled else list(range(size))
        return replace(request, count=1, sample=0, prompt=None, problem=reordered(request.problem, order, str(name))), order

    async def _values(self, samples: Sequence[Trajectory], world: World) -> list[float] | None:
        if self.meta is None:
            return None
        rows = await world.score([t.contexts[0] for t in samples], Value(), self.meta)
        return [float(row[-1]) if len(row) else -math.inf for row in rows]

    def _vote(
        self, request: Request, index: int, samples: Sequence[tuple[Trajectory, list[int]]], values: list[float] | None, at: int, world: World
    ) -> Trajectory:
        """Returns the vote of the samples from number `at` on, without a reward. The scores are in the order of the problem's responses."""
        first, scores, meta = samples[at][0], list[list[float]](), list[float]()
        for m in range(at, at + self.count):
            t, order = samples[m]
            if (found := scores_of(t.completion, len(order))) is not None:
                scores.append([found[order.index(i)] for i in range(len(order))])
                meta.append(values[m] if values is not None else 0.0)
        text = first.completion
        if scores:
            used = len(scores) if values is None else math.ceil(self.keep * len(scores) - 1e-9)
            text = "=" + " ".join(f"{total / used:.6f}" for total in voted(scores, None if values is None else meta, self.keep))
        context = told(world.prompt(request), text, request, world)
        return first.but(id=f"{first.id}/vote/{index}", problem=request.problem, contexts=(context,), completion=text, reward=None, components=Frozen())
