"""AttnRL: answers branch again at steps to which later steps attend most; hard problems get more branches, and each node of the tree has its own
advantage.

    F_k = sum_(j >= k + D) S_(j,k), quad FCI_k = max over layers and heads of F_k
    m = ceil(n exp(-acc)), quad B_t = ceil(0.1 floor(B_(t-1) W / w) + 0.9 B_(t-1))
    A(v) = ((V(v) - V(root)) + (V(v) - V(parent))) / sqrt(N_v)

The policy answers a problem n = 6 times; acc is the share of right answers. $S_(j,k)$ is the mean attention from the tokens of step j to the tokens
of step k; D is 4. The prompt and the first step get FCI 0. In m of the answers the policy starts again at N = 2 steps. These are the first steps that
satisfy two conditions. First, the FCI of the step is at least the quantile 0.8 of the FCI of all steps of the answer. If this quantile is 0, the smallest
positive FCI is the bound. Second, the step is at least 512 tokens after the start and after the previous chosen step. If there are too few such steps, the
first of the other steps are chosen, too. If acc is 0, all answers branch. If 0 < acc < 1, all answers of the rarer kind (right or wrong) branch, and random
answers of the other kind branch, too, until m answers branch. If acc is 1, m random answers branch, but only if the mean FCI of the problem is above the
average of all earlier problems with acc 1.

A node v is a piece of text between two branch points, and V(v) is the mean reward of the $N_v$ leaves below this node. Each path to a leaf is a
sample; its tokens get the A of their nodes. Samples without any advantage have weight 0. The number w counts the samples with an advantage. The number of
problems $B_t$ changes so that w stays near W. W is 30 times the number of problems in the setting. Metrics: contrast (share of branched answers whose leaves
differ in reward), branched, problems.

Use if: answers are long, have many steps, and only the outcome is judged.
Avoid if: answers have few steps, so that most are branch points (see spo_segment, vineppo), or attention weights are too expensive (see arpo, tempo).
Reference: Liu et al., Attention as a Compass: Efficient Exploration for Process-Supervised RL in Reasoning Models, arXiv:2509.26628. All numbers are as in
the released code (RyanLiu112/AttnRL) and in its script, which has W = 64 * 6 * 5 for 64 problems.
Departures: Each step samples and updates; in the paper branches are generated together with the answers of the next batch. The answers to the tasks
here do not mark the end of thinking, so all steps except the first count. The released code repeats a point if a step is missing; here fewer branches
are made. $B_t$ is at most 4 times the number of problems in the setting. The built-in model needs a smaller D, a smaller distance than 512 tokens,
and a smaller W. A step makes 4 updates; the released script makes one update per 192 samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.curricula.size_by_use import SizeByUse
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.kl import KL
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.attention_tree import AttentionTree
from gradus.types import Group
from gradus.types.parts import Credited, Signals
from gradus.types.signals import Signal


def path_advantages(leaves: Sequence[tuple[int, int | None, float, int]]) -> list[np.ndarray]:
    """Returns the advantages [A] of each leaf. A leaf: (number of its first answer, tokens shared with this answer, reward, tokens A). For a first
    answer the shared tokens are None."""
    root = float(np.mean([reward for _, _, reward, _ in leaves]))
    out = []
    for own in leaves:
        kin = [leaf for leaf in leaves if leaf[0] == own[0]]
        last_cut = own[3] - 1 if own[1] is None else own[1]
        cuts = sorted({s for _, s, _, _ in kin if s is not None and s <= last_cut})
        row, before = np.zeros(own[3]), root
        for first, last in zip([0, *cuts], [*cuts, own[3]], strict=True):
            alone = own[1] is not None and first >= own[1]
            below = [own[2]] if alone else [r for _, s, r, _ in kin if s is None or s > first]
            value = float(np.mean(below))
            row[first:last] = (value - root + value - before) / np.sqrt(len(below))
            before = value
        out.append(row)
    return out


@dataclass(frozen=True)
class NodeAdvantage:
    """Gives every token the advantage of its node in the tree of the problem. A trajectory without any advantage gets the weight 0."""

    needs: ClassVar[tuple[Signal, ...]] = ()

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(g) for g in groups]

    def _group(self, group: Group) -> list[Credited]:
        leaves = [(t.links.get("origin", -i - 1), t.links.get("shared"), t.value, t.actions) for i, t in enumerate(group.trajectories)]
        return [Credited(row, weights=np.full(len(row), float(row.any()))) for row in path_advantages(leaves)]


attnrl = grpo.derive(
    "attnrl",
    "Answers branch again at steps to which later steps attend most, and every node of the tree has its own advantage.",
    family="credit",
    curriculum=SizeByUse(),
    rollout=AttentionTree(),
    credit=NodeAdvantage(),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__policy__average=TokenMean(counted="weighted"),
    objective__kl=KL(0.001, average=TokenMean(counted="weighted")),
    update__count=4,
    setting__group=6,
)

_SMALL = {"curriculum.wanted": "6", "rollout.gap": "2", "rollout.reads.delta": "1"}

claims = (
    same_weights(
        says="Without branches the final weights are those of independent answers with the same advantages.",
        source="arXiv:2509.26628, N = 0",
        against="attnrl --rollout Auto",
        own={"rollout.branches": "0"},
    ),
    Claim(
        says="Of the answers that branch, at least 1.1 times as many have leaves with different rewards as with branches at random steps.",
        source="arXiv:2509.26628, the comparison of branch points; the task, the measure and the size are ours (the paper: more informative samples)",
        against="attnrl --rollout.at random",
        measure="contrast:mean",
        at_least=1.1,
        task="arithmetic",
        fields={**_SMALL, "prompts": "6", "learning_rate": "1e-4", "study": "none"},
        budget="steps=6",
    ),
)
