"""Labels of steps from continuations of wrong drafts, and pairs of a wrong draft and a right answer, made of the same continuations."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.demonstrations import given, told
from gradus.rollouts.ids import group_name
from gradus.rollouts.refine import fits
from gradus.rollouts.spans import STREAM, check_text, places, rows_of, streamed
from gradus.rollouts.values import VALUES, Start, continued
from gradus.types import Group, Key, Request, Trajectory
from gradus.types.parts import Rollout, Task, World
from gradus.types.prompts import before, prompt_of
from gradus.types.ranges import check_ranges
from gradus.types.spans import STEPS, Marking


def labels_of(hits: Sequence[int]) -> list[int]:
    """Returns the raw labels: 1 for a prefix with at least one right continuation.

    >>> labels_of([3, 1, 0, 1])
    [1, 1, 0, 1]
    """
    return [int(hit > 0) for hit in hits]


def cleaned(labels: Sequence[int]) -> list[int]:
    """Returns the labels after the clean-up: all labels before a label 1 are 1.

    >>> cleaned([1, 1, 0, 1]), cleaned([1, 0, 0])
    ([1, 1, 1, 1], [1, 0, 0])
    """
    good = max((i + 1 for i, label in enumerate(labels) if label), default=0)
    return [1] * good + [0] * (len(labels) - good)


def uses_results(completion: str, said: str) -> bool:
    """Whether the final answer of a completion contains the last digit of each result in `said`, its first steps. A last digit 0 always counts as used.
    A result that is no number always counts as used, too, as in string_ops.
    """
    final = completion.rpartition("=")[2]
    return all(result[-1] in f"0{final}" for result in re.findall(r"=(\d+)\s", said))


def balanced(labels: Sequence[Sequence[int]], key: Key) -> list[list[bool]]:
    """Returns which labels of all drafts are kept: at every depth equally many of both kinds, drawn at random. The label of the empty prefix is dropped."""
    kept = [[False] * len(row) for row in labels]
    for depth in range(1, max(map(len, labels), default=0)):
        kinds = [[i for i, row in enumerate(labels) if len(row) > depth and row[depth] == kind] for kind in (0, 1)]
        for kind, rows in enumerate(kinds):
            order = np.argsort(key.fold("balance", depth, kind).uniform(len(rows)))
            for i in order[: min(map(len, kinds))]:
                kept[rows[i]][depth] = True
    return kept


def refining(request: Request, player: str, draft: str, world: World) -> Request:
    """Returns the request that shows a refiner the problem and a draft."""
    prompt = before(prompt_of(request, world.task.system), f"draft: {draft}")  # the problem stays next to the answer, as in its plain prompt
    return replace(request, player=player, prompt=prompt, count=1, tags=(*request.tags, player))


@dataclass(frozen=True)
class RepairDraft:
    """A draft, and the step of each action. `repairs`: for each step of a wrong draft, the right continuations from before this step."""

    request: Request
    made: Trajectory
    row: np.ndarray
    repairs: Sequence[Sequence[str]] = ()

    @property
    def starts(self) -> list[Start]:
        return [Start(self.made, self.made.contexts[0], at) for at in places(self.made.contexts[0], self.row)]

    @property
    def labels(self) -> list[int]:
        """The labels of the empty prefix, of the prefixes after each step but the last, and of the whole draft."""
        return [1] * (len(self.starts) + 1) if self.made.right else cleaned([*labels_of([len(r) for r in self.repairs]), 0])

    def marked(self, step: int, world: World) -> str:
        """Returns the text with the mark before a step, counted from 0."""
        return f"{said_before(self.starts[step], world)}[BAD] {self.made.completion[len(said_before(self.starts[step], world)) :]}"


def said_before(start: Start, world: World) -> str:
    """Returns the text of the answer before a state."""
    places = start.context.action_positions
    return world.text(start.context.sequence[places[places < start.at]], start.trajectory.player)


@dataclass(frozen=True)
class StepRepairs:
    """Adds labels of prefixes to the drafts of `rollout`, as the streams `span` and `value`. Both refiners get pairs of a prompt and an answer as auxiliary
    groups. A draft without a reward gets no label and no pair."""

    rollout: Rollout = Auto()
    marking: Marking = STEPS
    count: int = 8  # continuations per prefix of a wrong draft
    plays: ClassVar[str] = "answers"
    gives: ClassVar[frozenset[str]] = frozenset({"spans", "step values"})
    asks_right: ClassVar[str] = "Auto"

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text."""
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        groups = one_each(await rolled(self.rollout, requests, world), requests, self)
        drafts = [RepairDraft(r, t, rows_of(self.marking, t, world)[0]) for r, g in zip(requests, groups, strict=True) for t in g.trajectories]
        drafts = await self._continued([d for d in drafts if d.made.failed is None and d.made.actions], world)
        kept = balanced([d.labels[:-1] for d in drafts], world.key.fold("labels"))
        streams = {d.made.id: _streams(d, keep) for d, keep in zip(drafts, kept, strict=True)}
        world.note("good_labels", float(np.mean([label for d in drafts for label in d.labels[1:]] or [0])))
        self._pair(drafts, len(groups), world)
        for i, name in enumerate((STREAM, VALUES)):
            rows = {t.id: [streams[t.id][i] if t.id in streams else np.full(c.actions, -1) for c in t.contexts] for g in groups for t in g.trajectories}
            groups = [streamed(g, name, rows) for g in groups]
        return groups

    async def _continued(self, drafts: Sequence[RepairDraft], world: World) -> list[RepairDraft]:
        """Returns the drafts with the repairs of the wrong ones. Equal prefixes share their continuations."""
        starts = {start.context.beginning(start.at): (d, start) for d in drafts if not d.made.right for start in d.starts}
        found = dict(zip(starts, await asyncio.gather(*(self._right(d, start, world) for d, start in starts.values())), strict=True))
        return [d if d.made.right else replace(d, repairs=[found[s.context.beginning(s.at)] for s in d.starts]) for d in drafts]

    async def _right(self, draft: RepairDraft, start: Start, world: World) -> list[str]:
        made = await continued(start, self.count, sampling_of(draft.request, world), world)
        return [t.completion for t in made if t.failed is None and t.right and uses_results(t.completion, said_before(start, world))]

    def _pair(self, drafts: Sequence[RepairDraft], problems: int, world: World) -> None:
        """Gives each wrong draft a pair for the global refiner and a pair for the local refiner, if there is a right text to learn."""
        pairs = []
        for d in (d for d in drafts if not d.made.right and d.repairs):
            same = [o for o in drafts if o.request.problem.id == d.request.problem.id]
            right = [text for o in same for text in ([o.made.completion] if o.made.right else [t for some in o.repairs for t in some])]
            step = d.labels[1:].index(0)
            pairs += [(d, "global_refiner", d.made.completion, right), (d, "local_refiner", d.marked(step, world), d.repairs[step])]
        for player in ("global", "local"):
            world.note(f"{player}_pairs", sum(bool(texts) for _, name, _, texts in pairs if name == f"{player}_refiner") / problems)
        world.also([found for d, name, shown, texts in pairs if texts and (found := _pair_of(d, name, shown, texts, world)) is not None])


def _pair_of(draft: RepairDraft, player: str, shown: str, texts: Sequence[str], world: World) -> Group | None:
    """Returns the group of one pair, whose answer is drawn from `texts`; None if the prompt is too long."""
    asked = refining(replace(draft.request, tags=(*draft.request.tags, draft.made.id)), player, shown, world)
    if not fits(asked, world):
        return None
    (u,) = world.key.fold("pair", player, draft.made.id).uniform(1)
    context = told(world.prompt(asked), texts[int(u * len(texts))], asked, world)
    return Group(group_name(asked), (given(asked, 0, context, world, reward=1.0, component="refinement"),), pool=(1.0,))


def _streams(draft: RepairDraft, kept: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the streams of a draft: the step of each action, -1 if the label before this step is dropped, and the label."""
    spans, values = np.full(len(draft.row), -1, np.int32), np.full(len(draft.row), np.nan)
    for k, number in enumerate(dict.fromkeys(draft.row[draft.row >= 0].tolist())):
        if kept[k]:
            spans[draft.row == number], values[draft.row == number] = number, draft.labels[k]
    return spans, values
