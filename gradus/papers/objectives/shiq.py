"""ShiQ: fits the model's own logits to the soft Bellman equation over the whole rest of an answer. Values start at 0, and any recorded answers can be
used.

    q(s, a) = beta (g(s, a) - log pi_ref(a|s)), quad v(s) = beta log sum_a exp g(s, a)
    d(s) = beta (log sum_a exp g(s, a) - log sum_a exp g_ref(s, a))
    loss = mean over answers of 1/T sum_t (sum_(k >= t) [r_k - beta (log pi(a_k|s_k) - log pi_ref(a_k|s_k))] - d(s_t))^2

The model has the logits g and their softmax $pi$; the start model has $g_ref$ and $pi_ref$. $s_t$ is the text before token $a_t$ of
an answer of T tokens, and $r_t$ is the reward at this token, often 0 before the last token. In this form of q the optimal policy under the penalty
$beta KL(pi, pi_ref)$ is the softmax of g itself, and v is the value of this policy. The arbitrary values of the start model's logits are subtracted
as a potential, which does not change the optimal policy. So d is 0 at the start, and the error of each token is the reward that follows.

The sum over the rest of the answer replaces the value of the next state, so a reward at the end affects all tokens in the first update. The gradient passes
through $log pi$ and d. The logits themselves matter, not only their softmax: $log pi(a) - log pi_ref(a) + d / beta = g(a) - g_ref(a)$. The answers need
no pairs and can come from any sampler that can give every answer. beta is 0.1. The data is as in the base, copg: answers of the start model,
collected in the first stage or read from a file. In an episode the sum is over the policy's own tokens. Metrics: fit_error, value_shift.

Use if: scored answers or episodes exist (single and bad answers can be used, too), or rewards belong to single tokens or turns.
Avoid if: fresh samples are affordable (see rloo, grpo), or the logits are restricted, for example by a cap.
Reference: Clavier et al., ShiQ: Bringing back Bellman to LLMs, arXiv:2505.11081: the change of variables, the shift by the start values, the multi-step
loss.
Departures: Our own choices are the mean over the tokens of an answer, the number of answers and the number of passes. Logits are divided by the
temperature of sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.objectives.aggregation import Average, SequenceMean, averaged, pulling
from gradus.objectives.rows import sums_from_here
from gradus.objectives.scores import trajectory_means
from gradus.papers.objectives.copg import COLLECT, copg
from gradus.recipe.claim import Claim
from gradus.schedules.harvests import AnswersAndRewards
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen
from gradus.types.batch import Batch
from gradus.types.moments import Steps
from gradus.types.ranges import check_ranges
from gradus.types.readers import LogSumExp
from gradus.types.signals import LogProb, LogProbs, Read, Signal, Want
from gradus.types.tally import Tally, tally


@dataclass(frozen=True)
class PathConsistency:
    """The loss is `coefficient` times the mean of (reward to go - beta * log-ratio to go - d)^2, the multi-step soft Bellman error on logits.

    The advantage of an action is its reward to go. The log-ratio compares with `player`. The number d is beta times a difference: the log-sum-exp of the
    logits minus the log-sum-exp of `player`'s logits.
    """

    beta: float = 0.1  # temperature of the KL, in units of the reward per nat
    average: Average = SequenceMean()
    player: str = "reference"
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False  # an error contains all later actions of the trajectory
    unit: ClassVar[str] = "trajectory"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(), LogSumExp())

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf)", coefficient="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (LogProbs(player=self.player), Read(player=self.player, reads=LogSumExp()))

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logs, values = (outputs[want] - batch.signals[signal] for want, signal in zip(self.wants, self.needs, strict=True))
        to_go = sums_from_here(pulling(logs, batch.weight), batch.trajectory, batch.position)
        shift = self.beta * pulling(values, batch.weight)
        errors = batch.advantages - self.beta * to_go - shift
        mine = torch.unique(batch.trajectory)
        seen = {"fit_error": tally(trajectory_means(errors.detach().abs(), batch)[mine]), "value_shift": tally(shift.abs())}
        return self.coefficient * averaged(self.average, errors.square(), batch, self.source), seen


shiq = copg.derive(
    "shiq",
    "The soft Bellman equation is fitted on the model's own logits, over the rest of each recorded answer; all values start at 0.",
    family="objectives",
    objective__policy=PathConsistency(beta=0.1, source="expert"),
    schedule=Stages(
        Frozen(
            collect=Stage(until=Steps(16), changes=COLLECT, makes=AnswersAndRewards(least=1)),
            fit=Stage(until=Steps(160), task="made:collect"),
        )
    ),
)

claims = (
    Claim(
        says="At the start model the error of every token is the reward that follows, so its mean is that of the rewards of the answers.",
        source="arXiv:2505.11081, the shift by the values of the start model",
        against="shiq --objective.policy LogRatioRegression --objective.policy.source expert",
        measure="fit_error:mean",
        at_least=0.9999,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "0"},
        budget="steps=6",
        seeds=2,
    ),
    Claim(
        says="From the same fixed answers of the start model, the share of best arms is at least 0.05 above that of CoPG.",
        source="arXiv:2505.11081, offline experiments (ShiQ above CoPG with rewards at the end); the task and the size of the effect are ours",
        against="copg",
        measure="accuracy",
        better_by=0.05,
        ground="table",
        budget="steps=66",
    ),
)
