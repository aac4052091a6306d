"""ROVER: learns the action values of the uniformly random policy, as log-ratios to the sampling policy; there is no clip, critic or policy
iteration.

    q_t = rho (log pi(a_t|s_t) - log pi_old(a_t|s_t))
    y_t = r - mean(r) + rho/V sum_v [log pi(v|s_(t+1)) - log pi_old(v|s_(t+1))]
    loss = mean over answers of the mean over tokens of (q_t - y_t)^2

Text grows as a tree: each token leads to one new state, and only an end has a reward. The uniform policy reaches a right end from each action of
positive value. So the values of the uniform policy rank the actions, and no policy improvement is needed. A softmax of the values keeps every way that
leads to a right end. $q_t$ is a value relative to the sampling policy: $pi = pi_old exp(q / rho)$, with rho = 1.

$y_t$ has no gradient. The term with the sum over all V tokens of the vocabulary is the uniform policy's value of the next state; this value is 0
after the last token. At every token, r - mean(r) is the reward minus the mean reward of the group. At $pi = pi_old$ the gradient equals the gradient
of $-2 (r - mean(r)) log pi$, a policy gradient. So the value of the next state has an effect only from the second of the four mini-batches on.
Metrics: fit_error, next_value.

Use if: rewards are verified, many different answers are right, and variety matters (pass@k).
Avoid if: each batch is used for one update, because the method is then REINFORCE with group-relative advantages (see grpo, rloo).
Reference: He et al., Random Policy Valuation is Enough for LLM Reasoning with Verifiable Rewards, 2025, arXiv:2509.24981: the theorem on the uniform
policy, the relative values and algorithm 1. The paper has 8 answers, batches of 128 problems in four mini-batches, and rate 1e-6.
Departures: None from algorithm 1. The released code averages over all tokens (`--objective.policy.average TokenMean`). The released script for
mathematics divides the advantage by the group's sample deviation (`--credit.scale sample`) and samples at temperature 0.6; the script for countdown has
5 answers. In an episode, tokens of the environment are skipped: the next state is the state in which the policy chooses its next token. The last
token of a context has no next state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import Average, SequenceMean, averaged
from gradus.objectives.rows import next_rows
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.readers import MeanOverVocabulary
from gradus.types.signals import LogProb, Signal, Want
from gradus.types.tally import Tally, tally


@dataclass(frozen=True)
class RandomValuation:
    """The loss is `coefficient` times the mean of (q - y)^2, the Bellman error of the uniformly random policy, with values as log-ratios to the start of the
    update.

    The value q, with gradient, is rho * (log pi - log pi_old) of the action. The target y, without gradient, is advantage + rho * mean over the vocabulary of
    (log pi - log pi_old) at the next action.
    """

    rho: float = 1.0  # temperature, in units of the reward per nat
    average: Average = SequenceMean()
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = True  # the next action is in the same context, and its value has no gradient
    wants: ClassVar[tuple[Want, ...]] = (LogProb(), MeanOverVocabulary())
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, rho="(0, inf)", coefficient="[0, inf)")

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        value, mean = (outputs[want] - batch.old.get(want, outputs[want].detach()) for want in (LogProb(), MeanOverVocabulary()))
        after = self.rho * next_rows(mean.detach(), batch.context)
        errors = self.rho * value - (batch.advantages + after)
        loss = averaged(self.average, errors.square() * batch.weight, batch, self.source)
        return self.coefficient * loss, {"fit_error": tally(errors.abs()), "next_value": tally(after.abs())}


rover = grpo.derive(
    "rover",
    "The values of the uniformly random policy, as log-ratios to the sampling policy, are fitted by least squares; the policy is their softmax.",
    family="objectives",
    credit=GroupRelative(scale="none"),
    objective__policy=RandomValuation(rho=1.0),
    objective__kl=None,
    players__reference=None,
    update__count=4,
)

claims = (
    same_weights(
        says="With one update per batch the next state has no value, and training is that of a policy gradient with twice its rate: equal weights.",
        source="arXiv:2509.24981, the loss at pi = pi_old",
        against=(
            "rover --update.count 1 --objective.policy PolicyGradient --objective.policy.trust Unclipped "
            "--objective.policy.average SequenceMean --objective.policy.coefficient 2"
        ),
        own={"update.count": "1"},
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none"},
    ),
    Claim(
        says="A problem has at least 1.15 times as many different right answers among 16 as after training with GRPO without a KL term.",
        source="arXiv:2509.24981, experiments on countdown and on diversity; the task and the size of the effect are ours",
        against="grpo --objective.kl none --players.reference none",
        measure="distinct",
        at_least=1.15,
        ground="many_ways",
    ),
)
