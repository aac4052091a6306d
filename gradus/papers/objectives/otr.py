"""OTR: treats every position of a worked solution as an episode of one token; draws from the policy itself are rewarded if they hit the solution.

    loss = 1/N sum_x sum_t loss_t, quad loss_t = -1/K sum_k R(a_k) log pi(a_k | x, y_(<t)), quad a_k ~ pi_kappa(* | x, y_(<t))
    R(a) = 1 "if" a = y_t, quad "else" beta

x is a problem, y its worked solution, and N the number of solution tokens of the batch. The draws come from the current policy at temperature kappa,
without gradient. K is 256, beta -0.1, kappa 1. One forward pass gives both the draws and the loss, so a step costs as much as a step of sft.

A token of the solution that $n_t$ draws hit has the weight $n_t / K$. So the policy does not learn a token that it never draws, and probable wrong
tokens become less likely. At kappa 1 the mean gradient equals the gradient of $-(1 - beta) sg[pi(y_t)] log pi(y_t)$, because $log pi$ of a drawn
token has the mean gradient 0. So only the variance of the draws separates the method from imitation with the weight $pi(y_t)$.
`--objective.one_token.draws none` takes the mean over all tokens in place of draws. Metric: hit_share, the mean of $n_t / K$.

Use if: worked solutions exist that the model partly knows, and it must keep its other abilities.
Avoid if: the model gives the tokens of the solutions almost no probability, because they are then never drawn and not learned (see sft).
Reference: Ming et al., One-Token Rollout: Guiding Supervised Fine-Tuning of LLMs with Policy Gradient, arXiv:2509.26313, with K 256 and beta -0.1.
Departures: No code of the authors was found. kappa is 1; according to reviews the paper has a larger value, but we did not find this value. At another
kappa the mean gradient has no such simple form. The loss is averaged over all solution tokens. If a solution occurs several times in a step, each of
its positions always gets the same draws.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.aggregation import Average, TokenMean, averaged
from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.types import Context, Frozen, Key
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import Opened, Signal, Want
from gradus.types.tally import Tally, tally


def drawn(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """Returns the tokens [A, K] that the numbers `uniforms` [A, K] in [0, 1) draw from `probabilities` [A, V], by the inverse of their cumulative sums."""
    sums = probabilities.double().cumsum(-1)
    return torch.searchsorted(sums, uniforms.to(sums) * sums[:, -1:], right=True).clamp(max=sums.shape[-1] - 1)


def one_token_scores(logits: Tensor, targets: Tensor, uniforms: Tensor | None, *, beta: float, kappa: float) -> Tensor:
    """Returns [A, 2]: the mean over the draws of R(a) log pi(a), with gradient, and the share of draws that hit the target.

    Args: `logits` [A, V]; `targets` [A], the tokens of the solution; `uniforms` [A, K], a number in [0, 1) for each draw. If `uniforms` is None, the mean is
    over all tokens, weighted by their probabilities.
    """
    logs, target = logits.log_softmax(-1), targets.unsqueeze(1)
    chances = (logits.detach() / kappa).softmax(-1)
    if uniforms is None:
        rewards = torch.full_like(chances, beta).scatter(1, target, 1.0)
        scores = (chances * rewards * torch.where(chances > 0, logs, 0.0)).sum(-1)
        return torch.stack([scores, chances.gather(1, target).squeeze(1)], 1)
    tokens = drawn(chances, uniforms)
    hits = (tokens == target).to(logs)
    rewards = hits + beta * (1 - hits)
    return torch.stack([(rewards * logs.gather(1, tokens)).mean(1), hits.mean(1)], 1)


@dataclass(frozen=True)
class OneTokenScores(Want):
    """The mean of R(a) log pi(a) over the draws of a position, in nats, and the share of draws that hit the token of the context. [A, 2]"""

    draws: int | None = 256
    beta: float = -0.1
    kappa: float = 1.0
    redrawn: ClassVar[bool] = True
    opens: ClassVar[frozenset[str]] = frozenset({"logits"})

    def rows(self, opened: Opened, key: Key) -> Tensor:
        contexts = [context for context in opened.contexts if context.actions]
        targets = torch.from_numpy(np.concatenate([c.sequence[c.action_positions] for c in contexts]).astype(np.int64))
        numbers = None if self.draws is None else torch.from_numpy(np.concatenate([self._uniforms(c, key) for c in contexts]))

        def reduced(part: slice, logits: Tensor) -> Tensor:
            uniforms = None if numbers is None else numbers[part].to(logits.device)
            return one_token_scores(logits, targets[part].to(logits.device), uniforms, beta=self.beta, kappa=self.kappa)

        return opened.reduced(reduced)

    def _uniforms(self, context: Context, key: Key) -> np.ndarray:
        digest = hashlib.blake2b(context.beginning(len(context.sequence)), digest_size=8).hexdigest()
        return key.fold("one_token", digest).uniform(context.actions, self.draws or 1)


@dataclass(frozen=True)
class OneToken:
    """The loss: minus the mean of the scores of `OneTokenScores` over all actions of a source. This is a policy gradient of episodes of one token."""

    draws: int | None = 256  # draws per position; None: the mean is over all tokens, weighted by their probabilities
    beta: float = -0.1  # reward of a draw that misses
    kappa: float = 1.0  # temperature of the draws, as a multiple of the temperature of the context
    average: Average = TokenMean()
    coefficient: float = 1.0
    source: str = "expert"
    separable: ClassVar[bool] = True
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, draws="[1, inf)", beta="(-inf, 1]", kappa="(0, inf)")

    @cached_property
    def scores(self) -> OneTokenScores:
        """The request for the scores that the term reads."""
        return OneTokenScores(self.draws, self.beta, self.kappa)

    @property
    def wants(self) -> tuple[Want, ...]:
        return (self.scores,)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        rows = outputs[self.scores]
        losses = -rows[:, 0] * batch.weight
        return self.coefficient * averaged(self.average, losses, batch, self.source), {"hit_share": tally(rows[:, 1])}


otr = sft.derive(
    "otr",
    "Every position of a worked solution is an episode of one token; the policy's own draws are rewarded if they hit the solution.",
    family="objectives",
    objective=Frozen(one_token=OneToken()),
)

claims = (
    same_weights(
        says="With the mean over all tokens and beta 0, the final weights are those of imitation with each token's probability as its weight.",
        source="arXiv:2509.26313, the expected gradient at beta 0; the tolerance is that of rounding",
        against="sft --objective.imitation.weight Likelihood",
        own={"objective.one_token.draws": "none", "objective.one_token.beta": "0"},
        within=1e-5,
        budget="steps=2",
    ),
    Claim(
        says="After 60 steps on worked solutions of another form, the accuracy on an older skill is at least 0.1 above that of plain imitation.",
        source="arXiv:2509.26313, results outside the trained domain; the ground, the rate 1e-3 of both arms and the size of the effect are ours",
        against="sft",
        measure="accuracy@old",
        better_by=0.1,
        ground="two_skills",
        fields={"learning_rate": "1e-3"},
    ),
)
