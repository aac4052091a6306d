"""Second attempts: the player gets feedback on its answers and answers the problem again. The new answers join the group, or become an auxiliary group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.feedback import Attempt, Feedback, Told
from gradus.rollouts.ids import group_name
from gradus.types import Frozen, Group, Request, Trajectory, UserError
from gradus.types.parts import Rollout, World
from gradus.types.prompts import after, prompt_of
from gradus.types.ranges import check_ranges
from gradus.types.records import Outcome

Of = Literal["each", "wrong", "group", "best"]
Only = Literal["right", "better"]
Place = Literal["apart", "instead", "appended", "reserved"]

Pairs = dict[int, list[tuple[Trajectory, Trajectory]]]
"""The number of a group -> pairs of a first answer and a second attempt."""


@dataclass(frozen=True)
class Refine:
    """Lets the player answer again after feedback on its first answers, which `feedback` adds to the prompt.

    `of`: "each" gives a second attempt to every first answer. "wrong" gives a second attempt to every wrong first answer. "group" gives `count` attempts to a
    problem, with feedback on its first wrong answer (or on its first answer if no answer is wrong). "best" gives `count` attempts with feedback on the
    best answer of the problem (the shortest if several answers are equally good). The best `keep` second attempts of a problem are kept. If several are
    equally good, the earliest are kept. With `only` "right", a wrong second attempt is never kept. With "better", a second attempt is kept only if its reward
    is above the reward of its first answer. `place`: "instead" replaces first answers of the group by the second attempts. "appended" adds the second
    attempts to the group. "apart" makes them an auxiliary group. "reserved" samples `keep` fewer first answers per group, and fills the group with second
    attempts, or with further first answers if there are too few second attempts.

    A second attempt keeps its long prompt. To train a second attempt under the plain prompt, set `second` to `Reprompted`. An answer without a reward
    gets no second attempt, and a second attempt without a reward is not kept. A problem whose long prompt fills more than half of the model's context
    gets no second attempt. At test time `rollout` acts alone. Metrics, for the name "second": `second` is the share of the problems with second attempts.
    `second/right` is the share of right second attempts. `second/kept` is the share of these problems that keep a second attempt. `second/rescued` is
    computed from the problems with second attempts but no right first answer: the share of these problems that have a right second attempt.
    """

    rollout: Rollout = Auto()
    feedback: Feedback = Told()
    of: Of = "each"
    at_most: float = 1.0  # a group gets second attempts if its accuracy is at most this number; 0: only groups without a right answer
    count: int | None = None  # attempts per problem, if `of` is "group" or "best"; None: as many as first answers
    keep: int | None = None  # most second attempts that are kept per problem; None: all
    only: Only | None = None  # "right" or "better": the second attempts that may be kept; None: all
    place: Place = "instead"
    second: Rollout = Auto()  # makes the second attempts
    name: str = "second"  # in metrics, ids and links; one `Refine` within another one needs another name
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, at_most="[0, 1]", count="[1, inf)", keep="[0, inf)")
        if self.only not in (None, "right", "better"):
            raise UserError(f'Refine.only is "{self.only}"; it must be "right", "better" or "none"')
        if self.place == "reserved" and self.keep is None:
            raise UserError('Refine.place is "reserved", but Refine.keep is none; give the number of reserved places, such as 1')

    @property
    def asks_right(self) -> str | None:
        """The part to use instead if no answer is marked as right; None if no field asks for right answers."""
        return "Auto" if self.of in ("wrong", "group") or self.only == "right" or self.at_most < 1 else None

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order. If `place` is "apart", the second attempts become auxiliary groups."""
        opening = [replace(r, count=max(1, r.count - (self.keep or 0))) if self.place == "reserved" else r for r in requests]
        groups = one_each(await rolled(self.rollout, opening, world), opening, self)
        free = [r.count - o.count for r, o in zip(requests, opening, strict=True)]
        due = [(i, opening[i], t) for i, g in enumerate(groups) if free[i] or self.place != "reserved" for t in self._chosen(g)]
        found = await self._attempts(due, world)
        kept = {i: best([t for first, t in pairs if self._allowed(first, t)], self.keep) for i, pairs in found.items()}
        self._note(groups, found, kept, world)
        if self.place == "apart":
            world.also([Group(f"{group_name(requests[i])}/{self.name}", tuple(new), outcomes(found[i])) for i, new in kept.items() if new])
            return groups
        if self.place == "reserved":
            kept = {i: new[: free[i]] for i, new in kept.items()}
        made = [self._placed(g, kept[i], outcomes(found[i])) if i in kept else g for i, g in enumerate(groups)]
        return await self._filled(made, {i: n - len(kept.get(i, ())) for i, n in enumerate(free)}, opening, world)

    async def _attempts(self, due: Sequence[tuple[int, Request, Trajectory]], world: World) -> Pairs:
        """Returns the second attempts. `due`: the number of the group, the request, and the first answer."""
        texts = await self.feedback.texts([(r, t) for _, r, t in due], world) if due else []
        asked = [(i, t, self._request((r, t), text, world)) for (i, r, t), text in zip(due, texts, strict=True) if text is not None]
        fitting = [(i, t, request) for i, t, request in asked if fits(request, world)]
        made = one_each(await rolled(self.second, [r for *_, r in fitting], world), [r for *_, r in fitting], self) if fitting else []
        found: Pairs = {}
        for (i, first, _), group in zip(fitting, made, strict=True):
            found.setdefault(i, []).extend((first, self._second(t, first)) for t in group.trajectories)
        return found

    async def _filled(self, groups: list[Group], left: dict[int, int], opening: Sequence[Request], world: World) -> list[Group]:
        """Fills groups with further first answers. `left`: the number of missing answers of each group."""
        more = {i: replace(opening[i], count=n, sample=opening[i].sample + opening[i].count) for i, n in left.items() if n > 0}
        if not more:
            return groups
        added = dict(zip(more, one_each(await rolled(self.rollout, list(more.values()), world), list(more.values()), self), strict=True))
        return [
            g.but(trajectories=(*g.trajectories, *added[i].trajectories), pool=(*g.pool, *added[i].pool)) if i in added else g
            for i, g in enumerate(groups)
        ]

    def _allowed(self, first: Trajectory, second: Trajectory) -> bool:
        """Whether a second attempt may be kept."""
        return second.failed is None and (second.right or self.only != "right") and (second.value > first.value or self.only != "better")

    def _chosen(self, group: Group) -> list[Trajectory]:
        """Returns the first answers on which feedback is given."""
        judged = [t for t in group.trajectories if t.failed is None]
        if not judged or (group.accuracy or 0.0) > self.at_most:
            return []
        if self.of == "best":
            return [min(judged, key=lambda t: (-t.value, t.actions))]
        wrong = [t for t in judged if not t.right]
        return judged if self.of == "each" else wrong if self.of == "wrong" else [*wrong, *judged][:1]

    def _request(self, attempt: Attempt, text: str, world: World) -> Request:
        request, first = attempt
        prompt = after(prompt_of(request, world.task.system), text)
        count = self.count or request.count if self.of in ("group", "best") else 1
        return replace(request, count=count, prompt=prompt, sample=0, tags=(*request.tags, self.name, first.id))

    def _second(self, attempt: Trajectory, first: Trajectory) -> Trajectory:
        """Returns the second attempt with the name of the attempt and the id of the first answer in its links."""
        return attempt.but(links=Frozen({**attempt.links, "attempt": self.name, "first": first.id}))

    def _placed(self, group: Group, kept: Sequence[Trajectory], tried: Sequence[Outcome]) -> Group:
        """Returns the group with the kept second attempts. The pool of the group gets the rewards of all second attempts."""
        pool = (*group.pool, *tried)
        if self.place != "instead":
            return group.but(trajectories=(*group.trajectories, *kept), pool=pool)
        new = tuple(kept[: len(group.trajectories)])
        return group.but(trajectories=(*new, *group.trajectories[len(new) :]), pool=pool)

    def _note(self, groups: Sequence[Group], found: Pairs, kept: dict[int, list[Trajectory]], world: World) -> None:
        for i, group in enumerate(groups):
            world.note(self.name, float(i in found))
            if i in found:
                right = [t.right for _, t in found[i]]
                world.note(f"{self.name}/right", sum(right) / len(right))
                world.note(f"{self.name}/kept", float(bool(kept[i])))
                if group.accuracy == 0.0:
                    world.note(f"{self.name}/rescued", float(any(right)))


def fits(request: Request, world: World) -> bool:
    """Whether the request's prompt fills at most half of the model's context."""
    return 2 * len(world.prompt(request).sequence) <= world.context_length(request.player)


def best(attempts: Sequence[Trajectory], keep: int | None) -> list[Trajectory]:
    """Returns the `keep` attempts with the highest rewards, the best first; None: all in their order. Attempts without a reward are left out."""
    judged = [t for t in attempts if t.failed is None]
    return judged if keep is None else sorted(judged, key=lambda t: -t.value)[:keep]


def outcomes(pairs: Sequence[tuple[Trajectory, Trajectory]]) -> tuple[Outcome, ...]:
    """Returns the rewards of the judged second attempts, with the failures."""
    return tuple(t.reward for _, t in pairs if t.reward is not None)
