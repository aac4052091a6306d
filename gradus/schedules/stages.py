"""Stages: several recipes in one run, one after another. Later stages can use the weights of a stage, and the rows of data that the stage makes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from gradus.types import Frozen, UserError
from gradus.types.moments import Event, Fallen, Level, Moment, Steps, Until
from gradus.types.ranges import check_ranges
from gradus.types.records import Group

Row = Mapping[str, Any]
"""A row of made data: `problem` (a `Problem`), or `prompt` (text or messages) with an optional `answer`. Other keys are columns of the problem."""

PREVIOUS, FIRST = "previous", "first"
"""The values of `Stage.start` that are not names of stages."""

_NAME = re.compile(r"[A-Za-z_]\w*")


class Harvest(Protocol):
    """Makes rows of data from the trajectories of a stage. Later stages read the rows as the task `made:NAME`.

    `provides` names the columns that every row has, such as "solution". A recipe may require such columns of its task. `reads` names the kind of task whose
    trajectories the harvest can read: "answers" (the default) or "episodes".
    """

    @property
    def provides(self) -> frozenset[str]: ...

    def rows(self, groups: Iterable[Group]) -> Sequence[Row]:
        """Returns the rows. `groups` gives all groups of the stage in the order of its steps. The groups can be read only once."""
        ...


@dataclass(frozen=True)
class Stage:
    """One of several recipes that run one after the other. At the end of the stage, the policy is evaluated and saved, and `makes` reads the trajectories of
    the stage.

    A stage begins with new optimisers, and its parts begin with empty states. Only a curriculum continues from the stage before, if both curricula have the
    same class and draw from the same source. Copies of the policy (such as a KL reference) are made from the policy at the start of the stage.
    """

    recipe: Any = None  # None: the run's own recipe; if a field of the stage's setting has its default, it gets the value of the run
    until: Until = Steps(100)  # Steps, Plateau, Level or Fallen
    start: str = PREVIOUS  # source of the policy's first weights: "previous" (the stage before), "first" (the model of the run), or the name of a stage
    players: Frozen[str] = field(default_factory=Frozen)  # player -> "STAGE.PLAYER": the player begins with the weights that PLAYER has at the end of STAGE
    makes: Any = None  # a `Harvest`; None: the stage makes no data
    task: str | None = None  # a task as for --task, or "made:STAGE" (the rows that a stage made); None: the task of the run
    changes: Frozen[Any] = field(default_factory=Frozen)  # dotted path of the recipe -> value, for this stage
    screen: Any = None  # a `Screened`: keeps only problems whose pass rate at the start of the stage lies in a band; None: all problems


@dataclass(frozen=True)
class Merge:
    """A stage without training: theta = sum_k w_k theta_k over the policies at the ends of the named stages.

    A merge counts as one step of the run.

    The sum is computed in float64 and rounded once. Raises UserError if there are fewer than two stages, or if the weights do not add up to 1.
    Reference: Wortsman et al., Model soups, arXiv:2203.05482.
    """

    weights: Frozen[float]

    def __post_init__(self) -> None:
        total = sum(self.weights.values())
        if len(self.weights) < 2 or abs(total - 1) > 1e-6:
            shown = ", ".join(f"{name} {weight:g}" for name, weight in self.weights.items()) or "none"
            raise UserError(f"the weights of a merge are {shown}, and their sum is {total:g}; give at least two stages, with weights that add up to 1")


@dataclass(frozen=True)
class Fuse:
    """A stage without training: theta = theta_0 + scale / K * sum_k tau_k over the K experts, where tau_k is made from theta_k - theta_0.

    theta_k are the weights of the policy at the end of the stage `experts[k]`. Each difference theta_k - theta_0 gets a common norm. Some entries of
    each difference become 0: a random share, and all entries with the wrong sign (see `gradus.players.merge.fused`). A fusion counts as one step of
    the run.

    Raises UserError if there is no expert, or if an expert occurs twice.
    Reference: LongCat-Flash-Thinking Technical Report, arXiv:2509.18883 (fusion of domain experts).
    """

    experts: tuple[str, ...]
    start: str = FIRST  # theta_0: "first" (the model of the run), or the name of the stage from which the experts started
    scale: float = 1.5  # sum of the K weights of the differences
    drop: float = 0.5  # share of the entries of a difference that become 0; the other entries are divided by 1 - drop

    def __post_init__(self) -> None:
        check_ranges(self, scale="(0, inf)", drop="[0, 1)")
        if not self.experts or len(set(self.experts)) != len(self.experts):
            raise UserError(f"Fuse.experts is {self.experts}; give the names of one or more stages, and each name only once")
        if self.start == PREVIOUS:
            raise UserError('Fuse.start is "previous"; name the stage with which the experts began, or leave out `start`')

    @property
    def weights(self) -> Frozen[float]:
        """Returns the weight of each expert's difference."""
        return Frozen({name: self.scale / len(self.experts) for name in self.experts})


Merges = Merge | Fuse
"""The stages without training."""


@dataclass(frozen=True)
class Stages:
    """Runs the named stages in order, and repeats the whole list `repeat` times.

    A later round finds earlier stages by their names.

    Steps, checkpoints and stored rollouts are counted over the whole run. Warm-up, decay, evaluations and `Moment.step` are counted within the stage.
    """

    stages: Frozen[Any]
    repeat: int = 1  # the whole list runs this number of times

    def __post_init__(self) -> None:
        check_ranges(self, repeat="[1, inf)")
        if not self.stages:
            raise UserError("there are no stages; write Stages(Frozen(first=Stage(...), second=Stage(...)))")
        for name, stage in self.stages.items():
            if not _NAME.fullmatch(name) or name in (PREVIOUS, FIRST):
                raise UserError(f'a stage cannot be named "{name}"; use letters, digits and _; the names {PREVIOUS} and {FIRST} are reserved')
            if not isinstance(stage, Stage | Merges):
                raise UserError(f"stage {name} is of type {type(stage).__name__}; it must be a Stage, a Merge or a Fuse")

    @property
    def steps(self) -> int:
        """Returns the largest number of steps of the run."""
        return self.repeat * sum(map(most_steps, self.stages.values()))

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        """Returns the recipe unchanged, because a run with stages replaces the whole recipe by the recipe of the current stage."""
        return recipe, ()


def most_steps(stage: Any) -> int:
    """Returns the largest number of steps of a stage; 1 for a merge or a fusion."""
    if isinstance(stage, Merges):
        return 1
    return stage.until.count if isinstance(stage.until, Steps) else int(stage.until.most)


def metric_of(until: Until) -> str | None:
    """Returns the metric of the evaluations that decides when a stage ends, or None if a number of steps decides."""
    return None if isinstance(until, Steps) else until.metric


def over(until: Until, steps: int, scores: Sequence[float]) -> bool:
    """Whether a stage ends.

    With a Plateau, the stage ends if the best of the last `evaluations` scores exceeds the best earlier score by less than `gain`.

    `steps`: the finished steps of the stage; `scores`: the metric in its evaluations so far, beginning with the evaluation at its start.

    >>> from gradus.types.moments import Plateau
    >>> over(Plateau("a", gain=0.02, evaluations=2), 60, [0.3, 0.5, 0.51, 0.505])
    True
    """
    if isinstance(until, Steps):
        return steps >= until.count
    if steps >= until.most:
        return True
    if isinstance(until, Level):
        return bool(scores) and scores[-1] >= until.at
    if isinstance(until, Fallen):
        return bool(scores) and scores[-1] < until.to * scores[0]
    before, last = scores[: -until.evaluations], scores[-until.evaluations :]
    return bool(before) and max(last) - max(before) < until.gain


def within(stages: Stages, steps: int) -> Stages:
    """Shortens or lengthens the stages, so that they have `steps` steps in all.

    Each stage has a limit on its steps. The steps are divided among the stages in proportion to these limits. Each stage keeps at least one step.

    If rounding gives too few or too many steps, the longest stages get or lose the difference. If there are several rounds, all rounds have the same number
    of steps, and a remainder of `steps` is not used.
    """
    lengths = {name: most_steps(stage) for name, stage in stages.stages.items()}
    merges = sum(isinstance(stage, Merges) for stage in stages.stages.values())
    total, due = sum(lengths.values()) - merges, steps // stages.repeat - merges
    if due < len(lengths) - merges:
        least = len(lengths) * stages.repeat
        raise UserError(f"--steps is {steps}, but {len(lengths)} stages in {stages.repeat} rounds need at least one step per stage and round; give {least} or more")
    share = {n: 1 if isinstance(stages.stages[n], Merges) else max(1, count * due // max(total, 1)) for n, count in lengths.items()}
    order = sorted((n for n in share if not isinstance(stages.stages[n], Merges)), key=lambda n: -lengths[n])
    while order and (left := due + merges - sum(share.values())):
        name = next(n for n in order if left > 0 or share[n] > 1)
        share[name] += 1 if left > 0 else -1
        order = [*order[1:], order[0]]
    made = {n: s if isinstance(s, Merges) else replace(s, until=_cut(s.until, share[n])) for n, s in stages.stages.items()}
    return replace(stages, stages=Frozen(made))


def _cut(until: Until, steps: int) -> Until:
    return Steps(steps) if isinstance(until, Steps) else replace(until, most=steps)
