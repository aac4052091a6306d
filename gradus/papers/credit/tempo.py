"""TEMPO: merges the answers of a group into a tree of prefixes. A token at which answers separate gets the change of value at this token as extra
credit.

    V(s) = mean r_j, quad "over the answers j that begin with" s
    TD_(i,t) = V(s_(i,t+1)) - V(s_(i,t))
    A_(i,t) = (r_i - mean(r) + w TD_(i,t)) / (std(r))
    loss = -1/N sum_i sum_t min(rho_(i,t) A_(i,t), clip(rho_(i,t), 1 - 0.2, 1 + 0.28) A_(i,t))

$s_(i,t)$ are the tokens before token t of answer i, and r are the rewards of the group. The value of the root is the group's mean. If only one answer has a
prefix, the value of the prefix is the reward of this answer. So TD is 0 at all places where the tree does not branch; at these places
the method is GRPO. The sum of TD over an answer is $r_i - mean(r)$, so a late branch that decides the reward gets its share. The weight w is 1. N
counts the tokens of the mini-batch, and rho is the ratio to the policy at the start of the update. A group with equal rewards has no gradient. A
batch is cut into 8 mini-batches. Metric: clip_share.

Use if: the answers of a group share long prefixes, as with short answers, a small vocabulary, a low temperature, or branched sampling.
Avoid if: different tokens lead to the same state (see gigpo), or answers differ from the first tokens on. The method is then GRPO with a larger
advantage at these tokens (see grpo).
Reference: Tran et al., Exploiting Tree Structure for Credit Assignment in RL Training of LLMs, arXiv:2509.18314: the tree, its values, and the
advantage. The released script (fatebreaker/tempo) gives the clip, the mean over tokens, no KL, 7 answers per problem, and mini-batches of 64 of
512 problems.
Departures: The weight w is our choice. The deviation is the population deviation; in the released code it is the sample's plus 1e-6. A group of one
gets advantage 0; in the released code its advantage is NaN. Tokens of an environment belong to the prefix, but no action gets their change of value.
The tree of the released code ends at the first token of an environment. Contexts of a group share a tree only if they begin with the same prompt. The
released code also has a rollout that branches at the token with the highest entropy, but the released script does not use this rollout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.groups import Scale, group_relative
from gradus.credit.prefixes import prefix_changes
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Group, UserError
from gradus.types.parts import Credited, Signals, Task
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.types.spaces import Box


@dataclass(frozen=True)
class PrefixTree:
    """Gives each token the advantage of its trajectory within the group plus `weight` times the change of the prefix value at this token."""

    weight: float = 1.0  # weight of TD; 0: only the advantage of the trajectory counts
    scale: Scale = "population"  # the deviation of the group's rewards that divides both parts
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, weight="[0, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the actions of the task are numbers, because prefixes are compared token by token."""
        if isinstance(task.acting, Box):
            raise UserError(f"task {task.name} takes numbers as actions, but PrefixTree compares tokens; use a task whose answers are text")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(group) for group in groups]

    def _group(self, group: Group) -> list[Credited]:
        rewards = group.rewards
        whole = group_relative(rewards, scale=self.scale)
        if not whole.any() or not self.weight:
            return [Credited(np.full(t.actions, a)) for t, a in zip(group.trajectories, whole, strict=True)]
        unit = 1.0 if self.scale == "none" else float(rewards.std(ddof={"population": 0, "sample": 1}[self.scale]))
        steps = prefix_changes([t.contexts for t in group.trajectories], rewards)
        return [Credited(a + self.weight / unit * step) for a, step in zip(whole, steps, strict=True)]


tempo = grpo.derive(
    "tempo",
    "Answers of a group form a tree of prefixes; at a branch a token also gets the change of the mean reward below it.",
    family="credit",
    credit=PrefixTree(),
    objective__policy__trust=Clip(low=0.2, high=0.28),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    update__count=8,
)

claims = (
    same_weights(
        says="Without the weight of TD the final weights are those of the group-relative advantage.",
        source="arXiv:2509.18314, the advantage at tokens without a branch",
        against="tempo --credit GroupRelative",
        own={"credit.weight": "0"},
        task="countdown",
        fields={"prompts": "4", "group": "7", "study": "none"},
        budget="steps=2",
    ),
    Claim(
        says="On countdown the mean reward over 30 steps of 8 problems with 7 answers each is at least 0.02 above that without TD.",
        source="arXiv:2509.18314, main results (above GRPO on MATH and MedQA); the task and the size of the effect are ours",
        against="tempo --credit.weight 0",
        measure="reward:mean",
        better_by=0.02,
        task="countdown",
        fields={"prompts": "8", "group": "7", "learning_rate": "3e-4", "study": "none"},
        budget="steps=30",
    ),
)
