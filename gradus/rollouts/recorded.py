"""A rollout for offline learning: it gives recorded transitions and samples nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.rollouts.episodes import Episodes
from gradus.types import Context, Ended, Frozen, Group, Problem, Request, Trajectory, UserError
from gradus.types.contexts import Seen
from gradus.types.control import NEXT, TO_GO
from gradus.types.parts import Transitions, World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Recorded:
    """Gives the task's recorded transitions in the first step of the run, and nothing in later steps. Nothing is sampled.

    The transitions are one trajectory with the source "replay" in an auxiliary group, so the metrics of reward and accuracy leave out these transitions.
    """

    most: int = 1000  # largest number of turns of an episode at test time
    gamma: float | None = None  # discount in the stream `to_go`, which must equal the discount of the target; None: no such stream

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)", gamma="[0, 1)")

    @property
    def gives(self) -> frozenset[str]:
        return frozenset({"transitions"} if self.gamma is None else {"transitions", TO_GO})

    @property
    def test(self) -> Episodes:
        """The rollout of evaluation, which plays whole episodes."""
        return Episodes(self.most)

    def start(self) -> dict[str, Any]:
        return {"given": False}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns the group of transitions in the first step, and no group in later steps. Raises UserError if the task has no recorded transitions."""
        transitions = world.task.transitions
        if transitions is None:
            raise UserError(
                f'task "{world.task.name}" has no recorded transitions; add transitions to the task: '
                "dataclasses.replace(task, transitions=load_transitions(FILE))"
            )
        if state["given"]:
            return [], state
        return [Group("recorded", (trajectory_of(transitions, self.gamma),), aside=True)], {"given": True}


def rewards_to_go(rewards: np.ndarray, done: np.ndarray, ended: np.ndarray, *, gamma: float) -> np.ndarray:
    """Computes R_i = r_i + gamma R_{i+1} within an episode: one sample of the value of the recorded behaviour.

    R after a terminated row is 0. If an episode was cut off, its last reward is assumed to repeat without end, so R = r / (1 - gamma) at its last row.
    Args: `rewards` [N]. `done` bool [N]: whether the episode terminated at a row. `ended` bool [N]: whether the episode terminated or was cut off at
    a row. `gamma` in [0, 1).
    Returns: float64 [N].
    """
    found = np.zeros(len(rewards))
    after = 0.0
    for i in range(len(rewards) - 1, -1, -1):
        if done[i]:
            after = 0.0
        elif ended[i] or i + 1 == len(rewards):
            after = float(rewards[i]) / (1 - gamma)
        after = found[i] = float(rewards[i]) + gamma * after
    return found


def trajectory_of(transitions: Transitions, gamma: float | None = None) -> Trajectory:
    """Returns one trajectory, with one context of all rows. The streams `reward`, `done` and `next.NAME` of this context contain the recorded values.

    If the rollout has a discount `gamma`, the context also has the stream `to_go` (see `rewards_to_go`).
    """
    n = len(transitions.reward)
    at, length = np.arange(0, 2 * n, 2, dtype=np.int32), np.ones(n, np.int32)
    seen = [Seen(name, "array", np.array(rows), at.copy(), length.copy()) for name, rows in transitions.observation.items()]
    last = [Seen(name, "array", np.array(rows[-1:]), np.array([2 * n], np.int32), np.ones(1, np.int32)) for name, rows in transitions.next.items()]
    tokens, chosen = np.zeros(2 * n + 1, np.int32), np.append(np.tile([False, True], n), False)
    streams = {NEXT + name: np.array(rows) for name, rows in transitions.next.items()}
    streams |= {"reward": transitions.reward.astype(np.float32), "done": transitions.done.astype(bool)}
    if gamma is not None:
        streams[TO_GO] = rewards_to_go(transitions.reward, transitions.done, transitions.ended, gamma=gamma).astype(np.float32)
    if transitions.action.dtype.kind in "iu":
        tokens[1::2] = transitions.action
    else:
        streams["action"] = transitions.action.astype(np.float32)
    context = Context(tokens, chosen, streams=Frozen(streams), ended=Ended.LENGTH, seen=(*seen, *last))
    reward = float(transitions.reward.sum())
    return Trajectory("recorded", Problem("recorded", "recorded", text=""), (context,), reward=reward, ended=Ended.LENGTH, source="replay")
