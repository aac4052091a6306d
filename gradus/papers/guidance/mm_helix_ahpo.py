"""AHPO: GRPO, and imitation of an expert's solution only for problems that the policy still solves too rarely. Both losses are in the same step.

    loss = L_on + xi(q) L_off
    L_on = 1/N sum_i 1/|o_i| sum_t -min(rho A_i, clip(rho, 1 - 0.2, 1 + 0.2) A_i)
    L_off = -1/|y| sum_t log pi(y_t | q, y_(<t))
    xi(q) = (1 if sum_i [o_i right] < 2; 0 otherwise)

The policy gives N = 8 answers o_i to the problem q. A_i is the reward standardised over these answers, and y is the expert's solution. Both losses are
averaged over the problems of the batch. If no answer is right, only the expert's term acts. If two or more answers are right, this term is 0, and
learning is pure RL. There is no KL term and one update per batch, so rho is 1.

The gate counts right answers by the verifier, not by the reward, so points for the form do not change the gate. A group of 9 has 8 sampled answers
and the solution. The policy reads pictures if its model does; the method does not depend on the kind of input.

Use if: rewards are so sparse that many groups have no right answer, and an expert's solution exists for each problem.
Avoid if: the policy solves most problems (see grpo), or solutions should always be imitated (see chord, luffy).
Reference: Zhao et al., MM-HELIX: Boosting Multimodal Long-Chain Reflective Reasoning with Holistic Platform and Adaptive Hybrid Policy Optimization,
arXiv:2510.08540, section 4 (adaptive hybrid policy optimisation). The public code has the generators and verifiers of the 42 puzzles, not the training.
Departures: The threshold 2 of 8, the weight 1 and the divisor of L_off are our choices. The 42 puzzles in pictures, and the expert solutions that a
strong model writes from skeletons, are not included. Tasks of this library with a solver, a verifier and levels replace both (sudoku4, zebra,
shapes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.groups import Scale, group_relative
from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import Imitation
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.mixed_policy import MixedPolicy
from gradus.types import Group, Trajectory
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def gate(group: Group, *, least: int) -> bool:
    """Returns whether fewer than `least` of the policy's own answers are right. In a group without the policy's own answers, the gate is open."""
    return sum(t.right for t in group.trajectories if t.source == "policy") < least


@dataclass(frozen=True)
class Guided:
    """Standardises the rewards of the policy's own answers. The given answers get the weight 1 if fewer than `least` of the policy's own answers are right,
    else the weight 0."""

    least: int = 2  # the gate is closed if at least this number of answers is right; 0: the gate is never open
    scale: Scale = "population"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, least="[0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._assigned(group) for group in groups]

    def _assigned(self, group: Group) -> list[Credited]:
        own = [t for t in group.trajectories if t.source == "policy"]
        advantages = dict(zip((t.id for t in own), group_relative(np.array([t.value for t in own]), scale=self.scale), strict=True))
        opened = gate(group, least=self.least)

        def credited(t: Trajectory) -> Credited:
            if t.source == "policy":
                return Credited(np.full(t.actions, advantages[t.id], np.float64))
            return Credited(np.ones(t.actions), weights=np.full(t.actions, float(opened)))

        return [credited(t) for t in group.trajectories]


mm_helix_ahpo = grpo.derive(
    "mm_helix_ahpo",
    "GRPO, and imitation of an expert's solution only for problems that the policy solves too rarely.",
    family="guidance",
    rollout=MixedPolicy(),
    credit=Guided(),
    objective__imitation=Imitation(average=SequenceMean()),
    objective__kl=None,
    players__reference=None,
    setting__group=9,
    requires=frozenset({"solution"}),
)

_SMALL = {"prompts": "8", "group": "9", "learning_rate": "3e-4", "warmup": "0", "eval_every": "0", "study.problems": "64", "study.greedy": "false"}

claims = (
    same_weights(
        says="With a gate that is never open, the final weights are those of GRPO without a KL term on the policy's own answers.",
        source="arXiv:2510.08540, the loss at xi = 0",
        against="grpo --objective.kl none --players.reference none --group 4",
        own={"credit.least": "0", "group": "5"},
        fields={"prompts": "4", "study": "none"},
        within=1e-6,
    ),
    Claim(
        says="Where the policy almost never solves a problem, accuracy after 5 steps is at least 0.1 above that of GRPO with as many answers per group.",
        source="arXiv:2510.08540, ablation of training strategies (above on-policy RL); the ground and the size of the effect are ours",
        against="grpo --objective.kl none --players.reference none",
        measure="accuracy",
        better_by=0.1,
        ground="weak_to_strong",
        seeds=3,
    ),
    Claim(
        says="On chains of four string functions, accuracy after 24 steps is at least 0.02 above that of 12 steps of SFT and 12 of GRPO.",
        source="arXiv:2510.08540, ablation of training strategies (above SFT, then RL); the task, the steps and the size of the effect are ours",
        against="sft:12,grpo:12",
        measure="accuracy",
        better_by=0.02,
        task="string_ops",
        options={"level": "4"},
        fields=_SMALL,
        budget="steps=24",
        problems=100,
    ),
)
