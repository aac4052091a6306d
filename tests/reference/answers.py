"""Random answers for the plain loops of credit rules, and their records."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.types import Context, Frozen, Group, Problem, Trajectory, prompt_context
from gradus.types.signals import Entropy, LogProbs, Values

Answer = list[float]  # a number an action


@dataclass(frozen=True)
class Sample:
    """A trajectory of some actions."""

    reward: float
    at: tuple[float, ...]  # rewards that fell at single actions
    cuts: tuple[int, ...]  # actions of each of its contexts
    turns: tuple[int, ...]  # the turn of every action
    states: tuple[int, ...]  # the state of every action's turn
    values: tuple[float, ...]
    now: tuple[float, ...]
    reference: tuple[float, ...]
    prm: tuple[float, ...]
    trained: bool = True

    @property
    def rewards(self) -> Answer:
        """What fell at each action; what remains of the reward is at the last."""
        out = list(self.at)
        out[-1] += self.reward - sum(out)
        return out


def samples(seed: int) -> list[list[Sample]]:
    """Groups of 3, 2, 1 and 2, the last of equal rewards."""
    draw = random.Random(seed)

    def made(reward: float, cuts: tuple[int, ...], trained: bool = True) -> Sample:
        count = sum(cuts)
        turns = [0]
        for _ in range(count - 1):
            turns.append(turns[-1] + draw.choice((0, 1)))
        where = [draw.choice((7, 8)) for _ in range(turns[-1] + 1)]
        rows = [tuple(float(np.float32(draw.uniform(-2, -0.2))) for _ in range(count)) for _ in range(4)]
        at = tuple(draw.choice((0.0, -0.25, 0.5)) for _ in range(count))
        return Sample(reward, at, cuts, tuple(turns), tuple(where[t] for t in turns), *rows, trained=trained)

    return [
        [made(1.0, (2,)), made(0.0, (2, 3)), made(0.25, (4,), trained=False)],
        [made(0.5, (3,)), made(0.75, (1,))],
        [made(0.3, (2,))],
        [made(0.1, (2,)), made(0.1, (3, 1))],
    ]


def records(given: list[list[Sample]]) -> tuple[list[Group], dict[Any, dict[str, np.ndarray]]]:
    """The same as the library's records and signals."""
    groups = []
    signals: dict[Any, dict[str, np.ndarray]] = {
        Values(player="critic"): {},
        LogProbs(): {},
        LogProbs(player="reference"): {},
        LogProbs(player="prm"): {},
    }
    prompt = prompt_context([1])
    for g, members in enumerate(given):
        made = []
        for i, s in enumerate(members):
            contexts, start = [], 0
            for count in s.cuts:
                mine = range(start, start + count)
                contexts.append(
                    Context(
                        np.full(count, 2, np.int32),
                        np.ones(count, bool),
                        rewards=tuple((k, "step", s.at[j]) for k, j in enumerate(mine) if s.at[j]),
                        streams=Frozen(turn=np.array([s.turns[j] for j in mine]), state=np.array([s.states[j] for j in mine])),
                        parent=(prompt, 1),
                    )
                )
                start += count
            name = f"g{g}/{i}"
            made.append(Trajectory(name, Problem("p", "t", text="a"), tuple(contexts), reward=s.reward, trained=s.trained))
            for signal, row in zip(signals, (s.values, s.now, s.reference, s.prm), strict=True):
                signals[signal][name] = np.array(row, np.float32)
        groups.append(Group(f"g{g}", tuple(made)))
    signals[LogProbs(player="prm", fresh=True)] = signals[LogProbs(player="prm")]
    signals[LogProbs(fresh=True)] = signals[LogProbs()]
    signals[Entropy(fresh=True)] = {name: -row for name, row in signals[LogProbs()].items()}
    return groups, signals


# the formulas
