"""Credit by the change of value. The credit of a step is the value after the step minus the value before the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.credit.gae import whiten
from gradus.types import Frozen, Group, Trajectory, UserError
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.readers import After
from gradus.types.signals import Read, Signal, Value, Values, Viewed
from gradus.types.spans import unsure

LAST = "last"  # a link, if a trajectory is a single step: whether this step ends the answer
SPAN, VALUE = "span", "value"  # the streams with the step's number (-1: no step), and the value before the step


def value_changes(values: np.ndarray, reward: float, *, gamma: float = 1.0) -> np.ndarray:
    """A_l = r_l + gamma V_(l+1) - V_l over the steps of an answer.

    The reward r_l is 0 except for the last step, which has the answer's reward. V after the last step is 0.

    Args: `values` [L]: the value before each step. Returns: [L] float64. With `gamma` 1 the results add up to reward - V_0.

    >>> value_changes(np.array([0.5, 0.75]), 0.0).tolist()
    [0.25, -0.75]
    """
    values = np.asarray(values, np.float64)
    after = gamma * np.append(values[1:], 0.0)
    if len(values):
        after[-1] += reward
    return after - values


def steps_of(trajectory: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """Returns the step of every action [A], and the value before each step [L]. Steps are counted from 0; an action without a step has -1.

    Raises UserError if the trajectory lacks a stream.
    """
    acting = [c for c in trajectory.contexts if c.actions]
    if any(not {SPAN, VALUE} <= c.streams.keys() for c in acting):
        raise UserError(f"trajectory {trajectory.id} has no values of steps; set --rollout MonteCarloValues")
    numbers, values, first = [], [], 0
    for context in acting:
        row, value = context.streams[SPAN], context.streams[VALUE]
        known = list(dict.fromkeys(row[row >= 0].tolist()))
        place = {number: first + k for k, number in enumerate(known)}
        numbers.append(np.array([place.get(n, -1) for n in row.tolist()], np.int64))
        values += [float(value[np.flatnonzero(row == n)[0]]) for n in known]
        first += len(known)
    return (np.concatenate(numbers) if numbers else np.zeros(0, np.int64)), np.array(values)


@dataclass(frozen=True)
class ValueChanges:
    """A_l = r_l + gamma V_(l+1) - V_l for all actions of step l, with V from the stream `value`. Actions without a step get 0.

    `whitened`: advantages are shifted and scaled to mean 0 and deviation 1. The mean and the deviation are computed from all actions of the batch that have a
    step and that updates use.
    """

    gamma: float = 1.0
    whitened: bool = True
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"step values": "--rollout MonteCarloValues"})

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = [self._of(t) for g in groups for t in g.trajectories]
        if self.whitened:
            rows = _whitened(rows)
        each = iter(rows)
        return [[Credited(next(each)[0]) for _ in g.trajectories] for g in groups]

    def _of(self, trajectory: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        numbers, values = steps_of(trajectory)
        changes = value_changes(values, trajectory.value, gamma=self.gamma)
        return np.where(numbers >= 0, np.append(changes, 0.0)[numbers], 0.0), (numbers >= 0) & trajectory.trained


@dataclass(frozen=True)
class TreeChanges:
    """Gives credit only to the unsure tokens of a tree: tokens with a probability below `rho` at sampling.

    Such a token gets the value of its node minus the value of the parent node. All other tokens get the weight 0.
    """

    rho: float = 0.9
    scale: Literal["none", "siblings"] = "none"  # "siblings": divided by the deviation of the siblings' values, if it is above 0
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"tree values": "--rollout SegmentTree"})

    def __post_init__(self) -> None:
        check_ranges(self, rho="(0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [[self._of(t) for t in g.trajectories] for g in groups]

    def _of(self, trajectory: Trajectory) -> Credited:
        links = trajectory.links
        if not {"value", "base", "unit"} <= links.keys():
            raise UserError(f"trajectory {trajectory.id} does not belong to a tree; set --rollout SegmentTree")
        mask = np.concatenate([unsure(c, self.rho) for c in trajectory.contexts])
        unit = links["unit"] if self.scale == "siblings" and links["unit"] > 0 else 1.0
        return Credited(np.where(mask, (links["value"] - links["base"]) / unit, 0.0), weights=mask.astype(np.float64))


@dataclass(frozen=True)
class StepChances:
    """Takes the value before each step (from the stream `value`) as the return. Only the first action of a step has a weight.

    The value before step k is the label of the text up to the end of step k - 1. With `last`, the answer's own reward is the return of the last action, so
    the whole answer has a label, too. A process reward model can learn from these labels. All advantages are 1, because only the returns matter here.
    """

    last: bool = False
    needs: ClassVar[tuple[Signal, ...]] = ()
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})
    asks: ClassVar[Mapping[str, str]] = Frozen({"step values": "--rollout MonteCarloValues"})

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [[_chances(t, last=self.last) for t in g.trajectories] for g in groups]


@dataclass(frozen=True)
class CriticAdvantage:
    """V(s + a) - V(s) at all tokens of a step, and R - V(s) at all tokens of a last step. V is the sigmoid of a head of `critic`."""

    critic: str = "critic"
    names_players: ClassVar[tuple[str, ...]] = ("critic",)

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.critic), Read(player=self.critic, reads=Viewed(Value(), After())))

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [[self._one(t, *(signals[need][t.id] for need in self.needs)) for t in g.trajectories] for g in groups]

    def _one(self, t: Trajectory, before: np.ndarray, after: np.ndarray) -> Credited:
        if not t.actions:
            return Credited(np.zeros(0))
        reached = t.value if t.links.get(LAST, True) else float(sigmoid(after[-1]))
        return Credited(np.full(t.actions, reached - float(sigmoid(before[0]))))


def sigmoid(values: np.ndarray) -> np.ndarray:
    """Returns 1 / (1 + exp(-v)), without overflow."""
    return 0.5 * (1 + np.tanh(np.asarray(values, np.float64) / 2))


def _chances(trajectory: Trajectory, *, last: bool) -> Credited:
    numbers, values = steps_of(trajectory)
    own = [trajectory.value] if last and len(numbers) else []
    if wrong := [v for v in (*values, *own) if not 0 <= v <= 1]:
        raise UserError(
            f"the critic learns probabilities, so the values of steps must be from 0 to 1, but a step of {trajectory.id} has the value "
            f"{wrong[0]:g}; scale the reward"
        )
    first = (numbers >= 0) & (np.diff(numbers, prepend=-1) != 0)
    returns = np.where(numbers >= 0, np.append(values, 0.0)[numbers], 0.0)
    if own and not first[-1]:  # if the last step is a single action, this action already has the label of the step before
        returns[-1], first[-1] = own[0], True
    return Credited(np.ones(len(numbers)), returns, first.astype(np.float64))


def _whitened(rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Shifts and scales all marked advantages together to mean 0 and deviation 1. All other advantages become 0."""
    flat = iter(whiten([row[mark] for row, mark in rows]))
    out = []
    for row, mark in rows:
        made = np.zeros_like(row)
        made[mark] = next(flat)
        out.append((made, mark))
    return out
