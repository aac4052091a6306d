"""S-GRPO: a chain of thought is cut at several places, and the policy answers immediately after each cut. Early right answers earn more.

    o_k = z_(<= t_k) + "inserted text" + a_k, quad t_1 < ... < t_m, quad o_(m+1) = "the whole answer"
    r_k = 2^(1 - N_k) "if" a_k "is right, else" 0
    A_k = r_k - mean(r)
    loss = -mean over k of 1/|o_k| sum_t min(rho A_k, clip(rho, 1 - 0.2, 1 + 0.2) A_k)

A thought z is cut at m = 8 random places. The inserted text asks the model to stop thinking, and has no loss. $N_k$ counts the right
answers among the exits up to and including k, so the first right exit gets 1, the second 1/2, the third 1/4. The exits of one thought are one serial
group. Every member of the group trains the tokens of the thought that it contains, so a token gets the sum of several terms. Exits before the first right
exit have a negative advantage, so the model does not learn to stop too early. A group with no right answer is left out. Metrics: thought, exits.

Use if: thoughts contain the answer long before they end.
Avoid if: answers have no thought that can be cut, or the first right answer only appears at the end (see grpo).
Reference: Dai, Yang and Si, S-GRPO: Early Exit via Reinforcement Learning in Reasoning Models, arXiv:2505.07686: the serial group, the halving reward,
the mean without deviation, and the inserted text. No official code was found.
Departures: A thought of n tokens has at most n - 1 exits. A group may have several answers of one problem, each with its own exits (`--group`). The
paper's number of updates per batch is unknown; with one update the clip never acts. There is no KL term. The thought ends at the mark `</think>`; other
models have another `--rollout.mark` and `--rollout.text`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.credit.within import Linked, Within
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.length import right_of
from gradus.rewards.reshaped import reshaped
from gradus.rewards.verified import Verified
from gradus.rollouts.exits import ForcedExits, RandomCuts
from gradus.selection.filters import MeanReward
from gradus.types import Group
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def halved(right: Sequence[bool] | np.ndarray, *, decay: float = 2.0) -> np.ndarray:
    """Returns decay^(1 - N_k) for right exits [m], where N_k counts the right exits up to and including k; 0 for wrong exits.

    >>> halved([False, True, True, False, True]).tolist()
    [0.0, 1.0, 0.5, 0.0, 0.25]
    """
    row = np.asarray(right, bool)
    return np.where(row, decay ** (1.0 - np.cumsum(row)), 0.0)


@dataclass(frozen=True)
class EarlyExit(Combines):
    """1 for the first right exit of a thought, divided by `decay` for each further right exit; 0 for a wrong exit. `reward` decides which answers
    are right.

    The exits of a thought are the trajectories with the same link `trace`, in the order of the group. An answer without this link is a thought with one exit.
    """

    reward: Reward = Verified()
    decay: float = 2.0
    name: ClassVar[str] = "early_exit"

    def __post_init__(self) -> None:
        check_ranges(self, decay="[1, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await reshaped(self.reward, groups, signals, world, lambda judged: [(self.values(g), {}) for g in judged])

    def values(self, group: Group) -> np.ndarray:
        """Returns the rewards [G] of a judged group."""
        found = np.zeros(len(group.trajectories))
        traces = [t.links.get("trace", f"alone {i}") for i, t in enumerate(group.trajectories)]
        for trace in Counter(traces):
            mine = np.array([t == trace for t in traces])
            found[mine] = halved(right_of(group)[mine], decay=self.decay)
        return found


s_grpo = grpo.derive(
    "s_grpo",
    "One thought is cut at several places, and each cut gets an answer; every further right exit earns half.",
    family="thinking",
    rollout=ForcedExits(RandomCuts(8)),
    reward=EarlyExit(),
    selection=MeanReward(low=1e-9),
    credit=Within(Linked("trace"), GroupRelative(scale="none")),
    objective__kl=None,
    players__reference=None,
)

_EXITS = {"rollout.mark": " =", "rollout.text": " =", "rollout.limit": "6", "rollout.places.count": "7", "group": "1"}

claims = (
    same_weights(
        says="Without exits, with the plain verdict and whole groups, the final weights are those of GRPO without deviation and KL.",
        source="arXiv:2505.07686, the group at m = 0",
        against="grpo --objective.kl none --players.reference none --credit.scale none --selection MeanReward --selection.low 1e-9",
        own={"rollout.places.count": "0", "reward": "Verified", "credit": "GroupRelative", "credit.scale": "none"},
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "study": "none", "warmup": "0"},
    ),
    Claim(
        says="From equally many answers per step, answers become at most 0.7 times as long as those of GRPO.",
        source="arXiv:2505.07686, abstract (35 % to 61 % shorter); the ground and 7 exits for each of 8 thoughts are ours",
        against="grpo --objective.kl none --players.reference none",
        own=_EXITS,
        measure="length",
        at_most=0.7,
        ground="wordy",
        budget="steps=30",
    ),
    Claim(
        says="The accuracy is at least 0.99 times that of GRPO.",
        source="arXiv:2505.07686, abstract (0.7 to 6.1 points higher); the ground and the bound are ours",
        against="grpo --objective.kl none --players.reference none",
        own=_EXITS,
        measure="accuracy",
        at_least=0.99,
        ground="wordy",
        budget="steps=30",
    ),
)
