"""SPO: cuts an answer before tokens with a low probability, and gives each segment the change of the value; only these unsure tokens learn.

    A_k = V(s_k) - V(s_(k-1)), quad V(s_K) = R
    V(s_k) = mean of R over N continuations from s_k
    loss = 1/M sum_t -m_t min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.2) A_t) + mean over answers of 0.0001 sum_t m_t k_3
    m_t = 1{p_t < 0.9}, quad rho_t = (pi(a_t)) / (pi_old(a_t))

$p_t$ is the probability with which token t was sampled. A token with $p_t < 0.9$ is a cut point. The states $s_0$, $s_1$, ... are before the cut points
number 1, 6, 11, and so on. The last segment ends with the answer, and the value there is the reward R of the answer. N is 9, and no update uses the
continuations. For the unsure tokens of segment k, $A_t$ is $A_k$, whitened over the unsure tokens of the batch (`--credit.whitened false`: not
whitened). Likely tokens did not cause the change, so $m_t$ removes them, and M counts only the unsure tokens. An update has two epochs of 8
mini-batches.

This is SPO-chain, for short answers. SPO-tree, for long answers, is `--rollout SegmentTree --credit TreeChanges`: a tree with 6-6-6 branches grows in
segments of `tokens` tokens. The value of a leaf is its reward, and the value of an inner node is the mean over its children. The advantage of a node
is its value minus the value of its parent. Every node is a sample, and no continuation is dropped. Metrics: value, spread, continuations (per
answer), clip_share.

Use if: few tokens decide an answer, and continuations are cheap.
Avoid if: nearly all tokens are unsure, as at a high temperature, or sampling is the bottleneck (see grpo, tempo).
Reference: Guo et al., Segment Policy Optimization: Effective Segment-Level Credit Assignment in RL for Large Language Models, arXiv:2505.23564:
SPO-chain, SPO-tree and the probability mask. The numbers are as in the released configuration for GSM8K with RhoMath (AIFrameResearch/SPO).
Departures: A token with $p_t = 0.9$ counts as likely, as in the loss of the released code. The released code whitens over each micro-batch of all
devices, cuts $k_3$ to at most 10, and encodes texts before a cut point again. The trees of that code leave out nodes with advantage 0. The replay of
a batch's segments over several updates is left out. The temperature and the number of answers per problem come from the setting; in the released code
they are 0.6 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.gae import whiten
from gradus.credit.step_values import steps_of, value_changes
from gradus.objectives.aggregation import TokenMean
from gradus.papers.credit.vineppo import vineppo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.types.spans import CutPoints, unsure


@dataclass(frozen=True)
class SegmentChanges:
    """Gives every unsure token the change of value of its segment, and all other tokens the weight 0."""

    rho: float = 0.9
    whitened: bool = True  # whether advantages are whitened over the unsure tokens of the batch
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"step values": "--rollout MonteCarloValues"})

    def __post_init__(self) -> None:
        check_ranges(self, rho="(0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        trajectories = [t for g in groups for t in g.trajectories]
        masks = [np.concatenate([unsure(c, self.rho) for c in t.contexts]) for t in trajectories]
        rows = [self._of(t) for t in trajectories]
        counted = [mask & t.trained for mask, t in zip(masks, trajectories, strict=True)]
        if self.whitened:
            white = whiten([row[mark] for row, mark in zip(rows, counted, strict=True)])
            for row, mark, values in zip(rows, counted, white, strict=True):
                row[mark] = values
        each = iter([Credited(np.where(mask, row, 0.0), weights=mask.astype(np.float64)) for row, mask in zip(rows, masks, strict=True)])
        return [[next(each) for _ in g.trajectories] for g in groups]

    def _of(self, trajectory: Trajectory) -> np.ndarray:
        numbers, values = steps_of(trajectory)
        return np.where(numbers >= 0, np.append(value_changes(values, trajectory.value), 0.0)[numbers], 0.0)


spo_segment = vineppo.derive(
    "spo_segment",
    "Answers are cut at unsure tokens; each segment gets the change of its Monte Carlo value, and only unsure tokens learn.",
    family="credit",
    rollout__marking=CutPoints(),
    credit=SegmentChanges(),
    objective__policy__average=TokenMean(counted="weighted"),
)

claims = (
    same_weights(
        says="If every token is unsure and an answer is one segment, the final weights are those of VinePPO with answers of one step.",
        source="arXiv:2505.23564, the trajectory as one segment",
        against="vineppo --rollout.marking.most 1",
        own={"rollout.marking.rho": "2", "rollout.marking.every": "1000", "credit.rho": "2"},
        budget="steps=2",
    ),
    Claim(
        says="On arithmetic the mean reward over 15 steps is at least 0.02 above that of GRPO with as many updates.",
        source="arXiv:2505.23564, main results (6 to 12 points above PPO and GRPO on GSM8K); the task and the size of the effect are ours",
        against="grpo --update.epochs 2 --update.count 8",
        measure="reward:mean",
        better_by=0.02,
        task="arithmetic",
        fields={"prompts": "4", "group": "8", "learning_rate": "1e-4", "study": "none"},
        budget="steps=15",
    ),
)
