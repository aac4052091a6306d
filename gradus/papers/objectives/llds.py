"""LLDS: a penalty keeps the likelihood of non-negative answers. The penalty acts only on tokens that became less likely, in actions that also became
less likely.

    loss = loss_GRPO + lambda/(sum_(i in P) |y_i|) sum_(i in P) sum_(a in y_i) g_a sum_(t in a) max(0, delta_t)
    delta_t = log pi_old(y_t) - log pi(y_t)
    g_a = 1 "if" sum_(t in a) delta_t > 0, quad "else" 0

P contains the answers with an advantage of at least 0, including those of groups with equal rewards. An answer $y_i$ consists of actions a. An action
is a sequence of tokens that the policy wrote, without text of a tool in between. The fall of a token's log-probability since the start of the update is
delta. The penalty raises the log-probability of the tokens with $g_a$ = 1 and delta > 0, with equal force. lambda is 0.2. No sum contains text
of tools.

GRPO with tools also lowers the likelihood of good answers, because wrong answers share most of their tokens with good answers. Unlikely answers have
large gradients, which lower the likelihood further. At the first update of a batch every delta is 0, so a batch is cut into 10 mini-batches (of 256
answers in the released code). Metrics: penalised_share, lost_logprob (mean penalty per token of P) and preserved_logprob (mean log-probability of the tokens
of P).

Use if: an agent with tools trains for long, and the likelihood of right answers falls while the reward still rises.
Avoid if: each batch is used for one update, because the penalty is then 0 (see grpo), or groups with equal rewards should have no effect (see dapo).
Reference: Deng et al., On Group Relative Policy Optimization Collapse in Agent Search: The Lazy Likelihood-Displacement, arXiv:2512.04220, version 2:
the gate of an action, lambda 0.2 (0.3 for a model of 7B after instruction tuning). The batch, the clip 0.2, KL 0.001 and the means are as in the
released code.
Departures: In the released code the penalty is divided by all tokens of the micro-batch, an entropy bonus has the coefficient 0.001, and the deviation
is the sample's plus 1e-6. `--objective.preserve.gate response` is the gate of an answer, as in the first version of the paper; the second version
finds this gate worse. `--objective.preserve.last` is the constant weight of the last action; in the paper this weight rises from 0 to 1 with the
number of valid searches. The recipe runs on every task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.kl import KL
from gradus.objectives.rows import written_stretches
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types.batch import Batch, segment_sum
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, Signal, Want
from gradus.types.tally import Tally, check_same_shape, tally


def lost_likelihood(falls: Tensor, counted: Tensor, unit: Tensor) -> Tensor:
    """Returns g_a max(0, delta) [A], with gradient. The gate g_a of a unit is 1 if the falls of its counted tokens have a positive sum.

    Args: `falls` [A], delta in nats; `counted` [A], the factor of each token in the sum and in the result, 0 outside of P; `unit` [A], the number of
    its unit.
    """
    check_same_shape(falls=falls, counted=counted)
    sums = segment_sum(falls.detach() * counted, unit, int(unit.max()) + 1 if len(unit) else 0)
    return torch.where((sums > 0).index_select(0, unit), falls.clamp(min=0) * counted * (falls > 0), 0.0)


@dataclass(frozen=True)
class PreserveLikelihood:
    """The loss is `coefficient` times the mean of g_a max(0, log pi_old - log pi) over the tokens of the mini-batch with A >= 0."""

    coefficient: float = 0.2
    gate: Literal["action", "response"] = "action"  # the penalty acts only if the log-probability of this whole text falls
    last: float = 1.0  # factor on the penalty of an answer's last action, which contains the final answer
    source: str = "policy"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, coefficient="[0, inf)", last="[0, 1]")

    @property
    def separable(self) -> bool:
        return self.gate == "action"  # an action lies in one context, an answer may not

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logprobs = outputs[LogProb()]
        falls = (logprobs.detach() if batch.old_logprobs is None else batch.old_logprobs) - logprobs
        kept, stretch = batch.advantages >= 0, written_stretches(batch)
        lost = lost_likelihood(falls, batch.weight * kept, stretch if self.gate == "action" else batch.trajectory)
        whole = sum(int((t.advantages >= 0).sum()) for t in batch.trajectories if t.source == self.source and t.advantages is not None)
        ends = (batch.position == batch.in_trajectory - 1).to(batch.weight)
        last = segment_sum(ends, stretch, int(stretch.max()) + 1 if len(stretch) else 0).index_select(0, stretch)  # 1 in the last action of an answer
        loss = self.coefficient * (lost * (1 - (1 - self.last) * last)).sum() / max(whole, 1)
        return loss, {"penalised_share": tally(lost[kept] > 0), "lost_logprob": tally(lost[kept]), "preserved_logprob": tally(logprobs[kept])}


llds = grpo.derive(
    "llds",
    "A penalty keeps the likelihood of answers with advantage 0 or more, only on tokens that became less likely in actions that became less likely.",
    family="objectives",
    objective__policy__average=TokenMean(),
    objective__kl=KL(0.001, average=TokenMean()),
    objective__preserve=PreserveLikelihood(),
    update__count=10,
)

claims = (
    same_weights(
        says="Without its coefficient the final weights are those of GRPO with the same mini-batches.",
        source="arXiv:2512.04220, the objective at lambda = 0",
        against="llds --objective.preserve None",
        own={"objective.preserve.coefficient": "0"},
        fields={"prompts": "4", "group": "5", "study": "none"},
        budget="steps=2",
    ),
    Claim(
        says="With 32 updates per batch non-negative answers lose at most 0.7 times the log-likelihood that they lose without the penalty.",
        source="arXiv:2512.04220, section on LLDS (the penalty prevents the fall); size of the effect and the ground are ours",
        against="llds --objective.preserve.coefficient 0",
        measure="lost_logprob:mean",
        at_most=0.7,
        ground="stale",
    ),
)
