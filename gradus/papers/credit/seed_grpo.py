"""SEED-GRPO: the more the answers to a question differ in meaning, the smaller are their advantages. If all answers mean the same, the advantages stay.

    p_k = |C_k| / G
    SE = -1/K sum_(k=1)^K ln p_k
    A_i = (r_i - mean(r)) / (std(r)) * f(alpha SE / (ln G))
    f(x) = 1 - x
    loss = 1/N sum_i 1/|o_i| sum_t (-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i) + 0.04 KL_(i,t))

The G answers to a question are sorted into K classes $C_k$ of equal final answers. The semantic entropy SE of the classes is 0 for one class, and has
its maximum ln G if all answers differ. Because alpha is 0.5, f is between 0.5 and 1. For a question f is one number, and it has no gradient. Other forms of f
(`law`) are exp(-x) ("exponential") and $(1 - x)^2$ ("focal"). With `entropy` "shannon", SE is $-sum_k p_k ln p_k$. $o_i$ are the tokens of answer i,
rho is their ratio to the policy at the start of the update, and N counts the answers of the mini-batch. A batch is cut into 8 mini-batches. alpha = 0
gives GRPO. Metric: clip_share.

Use if: answers can be compared, and verdicts are noisy or the model lacks knowledge, so that a reward is more reliable if the samples agree.
Avoid if: verdicts are exact and hard questions should be learned fast (see grpo, dapo), or a question has many right answers, because different answers are
then no sign of uncertainty.
Reference: Chen et al., SEED-GRPO: Semantic Entropy Enhanced GRPO for Uncertainty-Aware Policy Optimization, arXiv:2505.12346: the entropy of clusters,
its maximum, and the three forms of f. The repository of the authors (Dreamer312/SEED-GRPO) has no code yet.
Departures: alpha, the exponent of the focal form and the 8 mini-batches are our choices. The paper estimates $p_k$ from the likelihoods of the
answers in the class; here $p_k$ is the share of the answers. Meanings are equal if the final answers are equal as numbers or as text. A completion without a
final answer is a class by itself. Summaries of the paper disagree about the deviation in the advantage. Here the deviation of GRPO is used;
`--credit.rule.scale none` leaves the division out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.credit.scaled import Scaled
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Group, UserError
from gradus.types.answers import EntropyForm, answer_classes, semantic_entropy
from gradus.types.parts import Signals, Task
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.types.spaces import Box


@dataclass(frozen=True)
class Certainty:
    """Gives all actions of a group the factor f(alpha * SE / ln G), with SE the entropy of the group's classes of equal answers. G = 1 gives f(0) = 1."""

    alpha: float = 0.5  # strength of the entropy's effect; 0: the factor is always 1
    law: Literal["linear", "exponential", "focal"] = "linear"  # f(x): 1 - x, exp(-x) or (1 - x)^power
    power: float = 2.0  # exponent of the focal form
    entropy: EntropyForm = "clusters"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, inf)" if self.law == "exponential" else "[0, 1]", power="(0, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the actions of the task are numbers, because classes need answers in text."""
        if isinstance(task.acting, Box):
            raise UserError(f"task {task.name} takes numbers as actions, but Certainty compares texts; use a task whose answers are text")

    def factors(self, groups: Sequence[Group], signals: Signals) -> list[list[np.ndarray]]:
        return [[np.full(t.actions, self.of([t.completion for t in g.trajectories])) for t in g.trajectories] for g in groups]

    def of(self, completions: Sequence[str]) -> float:
        """Returns the factor of a group with these completions."""
        counts = list(Counter(answer_classes(completions)).values())
        most = math.log(len(completions))
        x = self.alpha * min(semantic_entropy(counts, form=self.entropy) / most, 1.0) if most else 0.0
        return {"linear": 1 - x, "exponential": math.exp(-x), "focal": (1 - x) ** self.power}[self.law]


seed_grpo = grpo.derive(
    "seed_grpo",
    "Questions whose sampled answers differ in meaning move the policy less: their semantic entropy scales the advantages down.",
    family="credit",
    credit=Scaled(GroupRelative(), Certainty()),
    update__count=8,
)

claims = (
    Claim(
        says="If a fifth of the verdicts is wrong, the held-out accuracy after 8 steps is at least 0.03 above that of unscaled advantages.",
        source="arXiv:2505.12346, main results (above GRPO on five benchmarks); the wrong verdicts, the task and the size of the effect are ours",
        against="seed_grpo --credit.factor.alpha 0",
        measure="accuracy",
        better_by=0.03,
        task="noisy",
        options={"of": "arithmetic", "level": "2", "missed": "0.2", "fooled": "0.2"},
        fields={"prompts": "8", "group": "8", "learning_rate": "1e-4", "study": "none"},
        budget="steps=8",
    ),
    same_weights(
        says="With alpha 0 the final weights are those of the group-relative advantage.",
        source="arXiv:2505.12346, the scaled advantage at alpha 0",
        against="seed_grpo --credit GroupRelative",
        own={"credit.factor.alpha": "0"},
        fields={"prompts": "4", "group": "8", "study": "none"},
        budget="steps=2",
    ),
)
