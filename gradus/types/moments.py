"""Three kinds of records: the position of a run in time (for schedules), the events of a schedule, and the conditions for the end of a stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gradus.types.frozen import Frozen
from gradus.types.keys import Key
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Moment:
    """The state of the run at the start of a step, as a schedule reads it."""

    step: int  # finished steps of the stage
    steps: int  # steps of the stage
    last: Mapping[str, float] = field(default_factory=Frozen)  # metrics of the previous step; empty at the start
    evaluated: Mapping[str, float] = field(default_factory=Frozen)  # newest evaluation; empty before the first evaluation
    evaluations: int = 0  # evaluations so far
    stage: str = ""  # name of the stage; empty without stages
    key: Key = Key()  # for draws of this step

    @property
    def progress(self) -> float:
        """The finished share of the steps, in [0, 1]."""
        return self.step / max(self.steps, 1)


@dataclass(frozen=True)
class ResetOptimizer:
    """The player's optimiser forgets its moments."""

    player: str = "policy"


@dataclass(frozen=True)
class CopyWeights:
    """`to` gets the weights of `of`."""

    of: str
    to: str


@dataclass(frozen=True)
class AverageWeights:
    """`to` gets the mean (1 - share) * weights of `to` + share * weights of `of`."""

    of: str
    to: str
    share: float = 0.5

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]")


@dataclass(frozen=True)
class Freeze:
    """The player gets no updates until a `Release`."""

    player: str


@dataclass(frozen=True)
class Release:
    """The player gets updates again."""

    player: str


@dataclass(frozen=True)
class StopHere:
    """The run, or the stage, ends before this step."""

    reason: str = "the schedule ended it"


Event: TypeAlias = "ResetOptimizer | CopyWeights | AverageWeights | Freeze | Release | StopHere"


@dataclass(frozen=True)
class Steps:
    """A stage ends after `count` steps."""

    count: int = 100

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")


@dataclass(frozen=True)
class Plateau:
    """A stage ends when the best value of `metric` has increased by less than `gain` over the last `evaluations` evaluations. It ends after `most` steps at
    the latest."""

    metric: str = "held_out/accuracy"
    gain: float = 0.01
    evaluations: int = 2
    most: int = 1000

    def __post_init__(self) -> None:
        check_ranges(self, gain="[0, inf)", evaluations="[1, inf)", most="[1, inf)")


@dataclass(frozen=True)
class Level:
    """A stage ends when an evaluation finds that `metric` is `at` or more. It ends after `most` steps at the latest."""

    metric: str = "held_out/accuracy"
    at: float = 0.9
    most: int = 1000

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)")


@dataclass(frozen=True)
class Fallen:
    """A stage ends when an evaluation finds that `metric` is below `to` times its value at the start of the stage. It ends after `most` steps at the
    latest."""

    metric: str = "held_out/entropy"
    to: float = 0.6
    most: int = 200

    def __post_init__(self) -> None:
        check_ranges(self, to="(0, 1]", most="[1, inf)")


Until: TypeAlias = "Steps | Plateau | Level | Fallen"
