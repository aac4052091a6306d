"""StableReinforce: the log-ratio is clipped before the exponential, outlying advantages count as 0, and the reward checks that the reasoning fits the
verdict.

    d_t = clip(log pi(a_t) - log pi_old(a_t), log 10^(-3), log 10^3), quad rho_t = exp(d_t)
    loss = mean over tokens of -min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.2) A_t)
    A_t = 0 "if" |A_t| > 3, quad A_t = (hat R_t - mean(hat R))/(std(hat R)) "else"
    R = R_"result" (1 + 0.5 R_"cons") + 0.5 R_"format"

The method trains a model that reasons before it says which of two answers is better; the reward model is the policy. $R_"result"$ is 1 if the verdict
is right, else 0. $R_"cons"$ is 1 if a judge finds that the reasoning supports the verdict, -1 if the judge finds that the reasoning does not support it, and
0 if the judge has no opinion. $R_"format"$ is 1 if the answer has the form, else 0. So a right verdict with reasoning against it earns 0.5, plus 0.5 for the
form.

If an advantage is negative, its ratio has no upper bound in the clipped loss. With the clip of d the ratio is at most 1,000, so the loss stays finite, and
a token beyond the bounds has no gradient. Means and deviation are as in Reinforce++ (see reinforce_plus_plus). An outlier keeps its place in the
mean over tokens. `--search "Majority(count=5)"` takes a vote of five verdicts.

Use if: a policy learns by Reinforce++, and single rewards are far from the rest, or samples are stale.
Avoid if: the policy must learn from rare successes, because one success among eleven or more other tokens of equal return counts as an outlier.
Reference: Zhang et al., R1-Reward: Training Multimodal Reward Model Through Stable Reinforcement Learning, arXiv:2505.02835, section 4.
The released code (yfzhang114/r1_reward) has the clip of d, the values 1, -1 and 0 of $R_"cons"$, both weights 0.5, and 256 answers in two mini-batches.
Departures: According to our catalogue, the paper's text gives $R_"cons"$ the values 0 and 1; this recipe has the values of the code. The released
filter bounds the normalised value by the raw mean plus and minus 3; this is |A| <= 3 only if the mean is 0. This recipe has the paper's form. A slack
of 1e-6 covers rounding. The released code averages the loss over the tokens of each answer; here the mean is as in Reinforce++, over all tokens. The
released script also normalises rewards. The judge reads the whole answer; the released judge reads the three lines before the verdict. The policy
reads text, not pictures. The first training on long solutions of a stronger model is left out. By default the task's verifier judges the result, a
script judges the consistency, and an answer has the form if it has one "=". Two mini-batches and the KL coefficient 1e-3 are as in the released run.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from torch import Tensor

from gradus.credit.kl_penalty import KLPenalty
from gradus.credit.reward_to_go import RewardToGo
from gradus.objectives.ratios import Against, TokenRatio
from gradus.papers.bases.reinforce_plus_plus import reinforce_plus_plus
from gradus.papers.thinking.hrpo import MarkedOnce
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.judged import Judged
from gradus.rewards.scripted_judge import ScriptedJudge
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group
from gradus.types.batch import Batch
from gradus.types.parts import Credit, Credited, Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import Signal

SLACK = 1e-6


@dataclass(frozen=True)
class PreClipped:
    """log r_t = clip(log pi(a_t) - log pi_old(a_t), log least, log most), so an action beyond the bounds has no gradient."""

    least: float = 1e-3
    most: float = 1e3
    against: Against = "old"
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, least="(0, 1]", most="[1, inf)")

    def log_ratio(self, logprobs: Tensor, old: Tensor, batch: Batch) -> Tensor:
        return TokenRatio(self.against).log_ratio(logprobs, old, batch).clamp(math.log(self.least), math.log(self.most))


@dataclass(frozen=True)
class WithinSigma:
    """Sets to 0 each advantage of `rule` whose absolute value is above `limit`. The returns do not change."""

    rule: Credit = RewardToGo()
    limit: float = 3.0  # in standard deviations, if the rule divides by the deviation

    def __post_init__(self) -> None:
        check_ranges(self, limit="(0, inf)")

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        return [[replace(c, advantages=within(c.advantages, self.limit)) for c in row] for row in rows]


def within(advantages: np.ndarray, limit: float) -> np.ndarray:
    """Returns the advantages, with 0 in place of every |A| > limit + 1e-6."""
    return np.where(np.abs(advantages) <= limit + SLACK, advantages, 0.0)


@dataclass(frozen=True)
class VerdictReward(Combines):
    """The reward R_result (1 + weight R_cons) + form_weight R_format. `consistency` gives a value from 0 to 1; R_cons is 2 value - 1, and 0 if `consistency`
    does not apply or failed."""

    result: Reward = Verified()
    consistency: Reward = Judged(ScriptedJudge())
    form: Reward = MarkedOnce("=", required=True)
    weight: float = 0.5
    form_weight: float = 0.5
    name: ClassVar[str] = "verdict"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return tuple(dict.fromkeys((*self.result.needs, *self.consistency.needs, *self.form.needs)))

    def check(self, task: Task) -> None:
        for part in (self.result, self.consistency, self.form):
            check_reward(part, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        parts = await asyncio.gather(*(part.score(groups, signals, world) for part in (self.result, self.consistency, self.form)))
        return [[self._judged(*each) for each in zip(*rows, strict=True)] for rows in zip(*parts, strict=True)]

    def _judged(self, result: Judgement, consistency: Judgement, form: Judgement) -> Judgement:
        if not isinstance(result.reward, int | float) or not isinstance(form.reward, int | float):
            return result if not isinstance(result.reward, int | float) else form
        opinion = 2.0 * consistency.reward - 1.0 if isinstance(consistency.reward, int | float) else 0.0
        found = result.reward * (1 + self.weight * opinion) + self.form_weight * form.reward
        return Judgement(found, Frozen(verified=result.reward, consistent=opinion, form=form.reward))


stable_reinforce = reinforce_plus_plus.derive(
    "stable_reinforce",
    "The log-ratio is clipped before the exponential, outlying advantages count as 0, and reasoning must fit the verdict.",
    family="rewards",
    reward=VerdictReward(),
    credit=WithinSigma(KLPenalty(RewardToGo(), 0.001, "k1")),
    objective__policy__ratio=PreClipped(),
    update__count=2,
)

claims = (
    same_weights(
        says="With the verdict alone as reward and no outlier, the final weights are those of Reinforce++.",
        source="arXiv:2505.02835, section 4: the limit of wide bounds",
        against="reinforce_plus_plus --credit.coefficient 0.001 --update.count 2",
        own={"reward": "Verified", "credit.limit": "1000"},
    ),
    Claim(
        says="Where a batch is used for 32 updates, accuracy is at least 0.03 above that of Reinforce++ with the same reward.",
        source="arXiv:2505.02835, the stability of training; the size of the effect and the ground are ours",
        against="stable_reinforce --objective.policy.ratio TokenRatio --credit.limit 1000",
        measure="accuracy",
        better_by=0.03,
        ground="stale",
    ),
)
