"""Prioritized KL: weighs the KL penalty of every token by how certain the start model was, so that exploration is free at the few critical tokens.

    d_t = 1/2 (log pi_ref(a_t | s_t) - log pi(a_t | s_t))^2
    c_t = 1 + (log max_a q(a | s_t)) / (log V), quad q = softmax(z_ref / tau)
    w_t = c_t^150
    loss = mean over tokens of [-A_t log pi(a_t | s_t) + 5 w_t d_t - 0.001 H_t]

$z_ref$ are the logits of the model at the start, V is the size of the vocabulary, and $H_t$ the entropy of the policy. The certainty $c_t$ is 1 if
the start model has one possible token, and 0 if all tokens are equally likely. The exponent is large, so a slightly uncertain token has nearly no
penalty. The weight has no gradient. $A_t$ is the advantage from a critic (gamma 1, lambda 0.95), not whitened. The reward is 1 for a right answer and
-1 for a wrong one, at the last token. Each batch is used for one update, as in A2C. `--objective.kl.weight.exponent 0` gives the plain KL penalty. Metric:
kl, without weights.

Use if: a model solves easy problems, fails at harder problems because of a few tokens, and a KL penalty must protect its other abilities.
Avoid if: the start model is uncertain nearly everywhere, because all weights are then near 0 (see ppo).
Reference: Vassoyan et al., Ignore the KL Penalty! Boosting Exploration on Critical Tokens to Enhance RL Fine-Tuning, arXiv:2502.06533. The released
code (jvasso/llm-rl-arithmetic) has this certainty, exponent 150, coefficient 5, the estimator k2, entropy coefficient 0.001 and tau 4.
Departures: tau is 1. At tau 4 all weights of the built-in model are below 0.001 and the method has no KL penalty; set `--objective.kl.weight.tau 4`
for a model with larger logits. The certainty is defined as in the run of the released code. Another setting of the code is max q itself:
`--objective.kl.weight.certainty probability`. The released code samples at temperature 2, and computes $d_t$ and $H_t$ at this temperature. The
released actor and critic share a network, and the critic's loss has the coefficient 0.1; here the critic is a separate player. The released code has
mini-batches of two tokens, so it makes many updates per batch, and it uses no ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
from torch import Tensor

from gradus.credit.gae import GAE
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.kl import KL
from gradus.objectives.terms import EntropyBonus
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.verified import Verified
from gradus.types import Key
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Read, Signal, Want

Measure = Literal["share", "probability"]


def certainty_of(logits: Tensor, *, tau: float, measure: Measure = "share") -> Tensor:
    """Returns [A] in [0, 1]: max q for "probability", 1 + log(max q) / log V for "share", with q = softmax(logits / tau). Args: `logits` [A, V]."""
    largest = (logits / tau).log_softmax(-1).amax(-1)
    return largest.exp() if measure == "probability" else (1 + largest / max(math.log(logits.shape[-1]), 1e-12)).clamp(min=0)


@dataclass(frozen=True)
class CertaintyAt(Want):
    """The certainty of the distribution before the action at tau times the temperature of the context. [A]"""

    tau: float = 1.0
    measure: Measure = "share"
    opens: ClassVar[frozenset[str]] = frozenset({"logits"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        return opened.reduced(lambda part, logits: certainty_of(logits, tau=self.tau, measure=self.measure))


@dataclass(frozen=True)
class CertaintyWeight:
    """A weight: the certainty of a player at each action, to the power of the exponent."""

    exponent: float = 150.0
    tau: float = 1.0
    certainty: Measure = "share"  # "share": 1 + log(max q) / log V; "probability": max q
    player: str = "reference"

    def __post_init__(self) -> None:
        check_ranges(self, exponent="[0, inf)", tau="(0, inf)")

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return (Read(self.player, reads=CertaintyAt(self.tau, self.certainty)),)

    def factors(self, old: Tensor, batch: Batch) -> Tensor:
        return torch.pow(batch.signals[self.needs[0]].to(old), self.exponent)


prioritized_kl = ppo.derive(
    "prioritized_kl",
    "The KL penalty is weighted by the certainty of the start model, so that exploration is free at critical tokens.",
    family="objectives",
    reward=2 * Verified() - 1,
    credit=GAE(gamma=1.0, lam=0.95, whitened=False),
    objective__policy__trust=Unclipped(),
    objective__kl=KL(5.0, "k2", average=TokenMean(), weight=CertaintyWeight()),
    objective__entropy=EntropyBonus(0.001),
    players__critic__objective__value__clip=None,
    update__epochs=1,
)

claims = (
    same_weights(
        says="With the exponent 0 the final weights are those of the plain KL penalty.",
        source="arXiv:2502.06533, the weight at exponent 0",
        against="prioritized_kl --objective.kl.weight none",
        own={"objective.kl.weight.exponent": "0"},
    ),
    Claim(
        says="At the same coefficient, the mean reward over 40 steps is at least 0.04 above that of the plain KL penalty.",
        source="arXiv:2502.06533, section 5.3 (higher success on longer sums); task, rate and size of the effect are ours",
        against="prioritized_kl --objective.kl.weight none",
        measure="reward:mean",
        better_by=0.04,
        task="arithmetic",
        options={"level": "2", "operations": "+"},
        fields={"prompts": "8", "group": "8", "learning_rate": "3e-4", "warmup": "0", "study": "none"},
        budget="steps=40",
    ),
)
