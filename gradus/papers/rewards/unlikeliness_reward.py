"""Unlikeliness reward: likely right answers of a group earn less, so that GRPO also reinforces rare right answers.

    l_i = mean_t log pi_old(y_(i,t))
    r_i = R_i (1 - beta_rank (rank_i) / G)
    A_i = (r_i - mean(r)) / (std(r))

$R_i$ is the verdict, 0 or 1. $rank_i$ is the rank of $l_i$ among all G right and wrong answers of the group: 0 for the least likely answer, and G - 1 for the
likeliest. beta_rank is 0.25. A wrong answer keeps 0. GRPO alone has a rank bias: answers that are already likely get most of the gain, so
the distribution becomes sharper and pass@N falls. Groups with equal verdicts are dropped. A second pass over each batch also helps: the likely answers reach
the clip first, so a later pass changes only the unlikely answers. The KL coefficient is 0.1.

The likelihoods are measured when the answers are sampled. If a group has a single right answer, the factor only rescales its reward, and the
advantages do not change.

Use if: problems have several right answers, many samples per problem are used at test time, and pass@N falls during training.
Avoid if: only the accuracy of a single answer counts, or groups are so small that they rarely have two right answers (see grpo, rep_exp).
Reference: He, Fried and Welleck, Rewarding the Unlikely: Lifting GRPO Beyond Distribution Sharpening, arXiv:2506.02355, sections 3 and 4: rank bias,
reward with beta_rank 0.25, two epochs per batch, groups of 32, 16 problems per batch, KL 0.1. The released code (AndreHe02/rewarding-unlikely-release)
ranks the mean log-probabilities of all answers of a group and has the sample deviation plus 1e-6.
Departures: The deviation has no epsilon. Two epochs are two updates on the whole batch. The released trainer averages the loss over all tokens, and
collects mixed groups until it has 256 answers; here the loss is averaged over each answer, and a step has the mixed groups of its 16 problems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.confidence import mean_logprob
from gradus.rewards.reshaped import by_group, reshaped
from gradus.rewards.verified import Verified
from gradus.selection.filters import Mixed
from gradus.types import Group, Trajectory
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def rank_factors(likelihoods: Sequence[float], beta: float) -> list[float]:
    """Returns 1 - beta * rank / G for each of the G likelihoods. The least likely answer has rank 0. If two likelihoods are equal, the earlier answer has the
    lower rank.

    >>> rank_factors([-1, -4, -2, -3], 0.25)
    [0.8125, 1.0, 0.875, 0.9375]
    """
    ranks = np.argsort(np.argsort(likelihoods, kind="stable"), kind="stable")
    return (1 - beta * ranks / max(len(ranks), 1)).tolist()


@dataclass(frozen=True)
class Unlikely(Combines):
    """Multiplies the value of `reward` by 1 - beta * rank / G. The likeliest answer of the group has the rank G - 1."""

    reward: Reward = Verified()
    beta: float = 0.25  # beta_rank; 0: the value of `reward`
    name: ClassVar[str] = "unlikely"

    def __post_init__(self) -> None:
        check_ranges(self, beta="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await reshaped(self.reward, groups, signals, world, by_group(self.paid))

    def paid(self, answers: Sequence[Trajectory]) -> list[tuple[float, Mapping[str, float]]]:
        """Returns the rewards of a group's answers, and their factors as the component `factor`."""
        factors = rank_factors([mean_logprob(t) for t in answers], self.beta)
        return [(t.value * factor, {"factor": factor}) for t, factor in zip(answers, factors, strict=True)]


unlikeliness_reward = grpo.derive(
    "unlikeliness_reward",
    "Likely right answers of a group earn less than unlikely right answers; a batch is used twice.",
    family="rewards",
    reward=Unlikely(),
    selection=Mixed(),
    credit=GroupRelative("sample"),
    objective__kl=KL(0.1),
    update__epochs=2,
    setting__group=32,
)

claims = (
    same_weights(
        says="With beta_rank 0 the final weights are those of GRPO with two epochs on mixed groups.",
        source="arXiv:2506.02355, beta_rank 0",
        against="grpo --credit.scale sample --selection Mixed --objective.kl.coefficient 0.1 --update.epochs 2",
        own={"reward.beta": "0"},
    ),
    Claim(
        says="On machines with several best arms, answers of the trained policy name more different best arms than with beta_rank 0: at least 0.2 of eight.",
        source="arXiv:2506.02355, section 3.2 (multiplicity of solutions); the ground, 32 answers per machine and the size of the effect are ours",
        against="unlikeliness_reward --reward.beta 0",
        measure="distinct",
        better_by=0.2,
        ground="table",
        fields={"group": "32", "prompts": "4", "objective.kl.coefficient": "0.04"},
    ),
    Claim(
        says="On problems with many right answers, the entropy of the policy after 12 steps is at least 0.05 nats above that with beta_rank 0.",
        source="arXiv:2506.02355, section 4.3 (less sharpening, higher pass@N); the ground and the size of the effect are ours",
        against="unlikeliness_reward --reward.beta 0",
        measure="entropy:last",
        better_by=0.05,
        ground="many_ways",
        fields={"group": "16", "prompts": "4"},
    ),
)
