"""Stratified GRPO: first compares episodes with the same number of search calls, and blends this with the comparison of the whole group.

    A_i^S = (R_i - mu_k) / sigma_k
    A_i^G = (R_i - mu) / sigma
    A_i = alpha A_i^S + (1 - alpha) A_i^G
    loss = 1/N sum_i 1/|o_i| sum_t (-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i) + 0.001 KL_(i,t))

R is the reward of an episode: 1 for the exact answer, else 0. Stratum k contains the episodes of a question that call the search as often as episode
i. The rewards of the stratum have mean $mu_k$ and deviation $sigma_k$; mu and sigma are the mean and the deviation of the whole group. In every
stratum $A^S$ has mean 0, and variance 1 if the rewards of the stratum differ. A stratum of one episode, or with equal rewards, has $A^S = 0$. The
blend has alpha 0.8. $o_i$ are the tokens that the agent writes in episode i, rho is their ratio to the policy at the start of the update, and N
counts the episodes of the mini-batch.

$A^G$ contains $(mu_k - mu) / sigma$, which all episodes of a stratum share. This part rewards or punishes the number of calls alone. $A^S$ does not
have this part: a constant that is added to the rewards of one stratum changes nothing. The second part of the blend, (1 - alpha) of the usual
comparison, still shows which number of calls is better. An episode has at most 4 calls and an answer. With alpha = 0, or if all episodes have the
same number of calls, the method is GRPO.

Use if: an agent decides how often it calls a tool, the reward comes at the end, and groups are large enough for several episodes per number of calls.
Avoid if: all episodes have one structure (see grpo), most strata contain one episode because groups are small, or one number of calls is better for all
problems and should be learned fast.
Reference: Zhu et al., Stratified GRPO: Handling Structural Heterogeneity in Reinforcement Learning of LLM Search Agents, arXiv:2510.06214: the
advantage within strata, its decomposition, and the blend. No code of the authors was found.
Departures: The paper chooses alpha for each model; 0.8 is the choice here. No epsilon is added to a deviation, and a deviation is the population
deviation. A batch is cut into two mini-batches, so that the clip acts. The stratum is the number of calls. With `--credit.key Linked` an entry of the
episode's `links` is the stratum instead. A call is a line of the agent that begins with `search:`. Questions and corpus come from search_qa.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.credit.within import Calls, Stratum, Within
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.types import Group
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Blended:
    """A = blend * (advantage of `rule` within the trajectory's stratum) + (1 - blend) * (advantage of `rule` within the whole group).

    The returns and weights come from the comparison within the strata (see `Within`).
    """

    key: Stratum = Calls()
    rule: Credit = GroupRelative()
    blend: float = 0.8  # weight of the comparison within strata; 0: only the whole group counts

    def __post_init__(self) -> None:
        check_ranges(self, blend="[0, 1]")

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        inside = Within(self.key, self.rule).assign(groups, signals)
        if self.blend == 1:
            return inside
        whole = assigned(self.rule, groups, signals)
        return [[self._blended(s, w) for s, w in zip(*rows, strict=True)] for rows in zip(inside, whole, strict=True)]

    def _blended(self, inside: Credited, whole: Credited) -> Credited:
        apart = np.asarray(inside.advantages) - np.asarray(whole.advantages)
        return replace(inside, advantages=whole.advantages + self.blend * apart)


stratified_grpo = grpo.derive(
    "stratified_grpo",
    "Episodes are compared within strata of equally many search calls, and the result is blended with the comparison of the whole group.",
    family="credit",
    rollout=Episodes(max_turns=5),
    reward=EnvironmentReturn(),
    credit=Blended(),
    objective__kl__coefficient=0.001,
    update__count=2,
)

claims = (
    Claim(
        says=(
            "On twenty_questions, with the number of turns as the stratum, the mean accuracy over 12 steps is at least 0.05 above that of the "
            "comparison of whole groups."
        ),
        source="arXiv:2510.06214, main results (up to 11.3 points above GRPO); the task, its strata and the size of the effect are ours",
        against="stratified_grpo --credit.blend 0",
        measure="accuracy:mean",
        better_by=0.05,
        task="twenty_questions",
        options={"level": "1"},
        fields={
            "credit.key": "Linked",
            "credit.key.name": "turns",
            "rollout.max_turns": "8",
            "prompts": "4",
            "group": "8",
            "learning_rate": "3e-4",
            "study": "none",
        },
        budget="steps=12",
    ),
    same_weights(
        says="Without the share of the strata the final weights are those of the comparison of whole groups.",
        source="arXiv:2510.06214, the blend at alpha 0",
        against="stratified_grpo --credit GroupRelative",
        own={"credit.blend": "0"},
        task="frozen_lake",
        fields={"prompts": "2", "group": "4", "study": "none"},
        budget="steps=2",
    ),
)
