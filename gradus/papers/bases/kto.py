"""KTO: learns from single answers, each desirable or not, instead of pairs. The loss of an answer depends on its log-ratio minus the policy's mean drift.

    h = sum_t [log pi(y_t | x) - log pi_ref(y_t | x)]
    z_0 = max(0, mean over mini-batch of sum_t [log pi(y_t | u) - log pi_ref(y_t | u)])
    loss_y = lambda_D (1 - sigmoid(beta (h - z_0))) if y desirable, else lambda_U (1 - sigmoid(beta (z_0 - h)))
    grad loss_y = -lambda_D beta s (1 - s) grad h if y desirable, else lambda_U beta s (1 - s) grad h

The loss is the mean of $loss_y$ over answers y. The symbol h is the log-ratio of an answer, under its prompt x, to the start model $pi_ref$. The
prompt u is the prompt of another problem. $z_0$ estimates the drift $KL(pi, pi_ref)$ and has no gradient. The symbol s is the sigmoid in $loss_y$, so
answers whose h is far above or far below $z_0$ have a small gradient. The factor beta is 0.1 and $lambda_D = lambda_U = 1$.

An answer is desirable if its reward is above `above` (one half). If a problem has a given pair, the better answer is desirable and the worse answer
is not. For other problems the policy samples, and every sample counts, even in groups of equal rewards. The loss is one mean over desirable and
undesirable answers together. The given answers and the sampled answers have separate means, which are added. If desirable or undesirable answers are rare,
raise the lambda of the rare kind. $(lambda_D n_D) / (lambda_U n_U)$ should stay between 1 and 4/3, where $n_D$ answers are desirable and $n_U$ answers are
not. This rule is TRL's advice; `--objective.sampled.desirable` sets $lambda_D$ of the sampled answers.

Use if: answers are marked one by one as good or bad, and no pairs of a better and a worse answer to one problem exist.
Avoid if: pairs exist (see dpo), or if all answers of a step belong to one problem, so that no other prompt gives $z_0$ (see grpo).
Reference: Ethayarajh et al., KTO: Model Alignment as Prospect Theoretic Optimization, arXiv:2402.01306, eq. 8. The drift is estimated from mismatched
prompts and answers of the batch, as in section 4.1. beta 0.1 and both lambdas 1 are as in the released code and TRL 1.16.
Departures: Answers are sampled at every step, and an answer is desirable if its reward is above a bound; the paper learns from given answers. $z_0$
is computed once per step, with the weights that sampled the answers; the paper computes $z_0$ at every update. All answers of a problem take the
prompt of the next problem as u. If a step has only one problem, there is no other prompt, and $z_0$ is the mean of h over the answers to this
problem. The loss of a term is the mean over the answers of the mini-batch that belong to this term (given or sampled answers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.objectives.aggregation import pulling
from gradus.objectives.scores import LogRatio, Score, scored, trajectory_sums
from gradus.papers.bases.dpo import dpo
from gradus.recipe.claim import Claim
from gradus.rollouts.mismatched_prompts import STREAM, MismatchedPrompts
from gradus.selection.filters import Everything
from gradus.types import Frozen, UserError
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, Signal, Want
from gradus.types.tally import Tally, check_same_shape, tally


def prospect_losses(gains: Tensor, desirable: Tensor, *, beta: float, weights: tuple[float, float]) -> Tensor:
    """Computes lambda (1 - sigmoid(+-beta gain)) per answer, with + if the answer is desirable, else -.

    Args: `gains` [N]: h - z0, nats, with gradient; `desirable` [N] bool; `weights`: the lambda of desirable answers, and the lambda of the other
    answers. Returns: [N].
    """
    check_same_shape(gains=gains, desirable=desirable)
    first, second = gains.new_tensor(weights)
    lost = torch.sigmoid(-beta * torch.where(desirable, gains, -gains))
    return torch.where(desirable, first, second) * lost


@dataclass(frozen=True)
class Prospect:
    """The loss is `coefficient` times the mean over trajectories of lambda (1 - sigmoid(+-beta (score - z0))). The stream "mismatched" of the mini-batch
    gives z0."""

    beta: float = 0.1
    desirable: float = 1.0  # lambda of trajectories whose reward is above `above`
    undesirable: float = 1.0  # lambda of all other trajectories
    above: float = 0.5
    score: Score = LogRatio()
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False  # the loss couples the actions of a trajectory, and z0 couples all trajectories
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)
    asks: ClassVar[Mapping[str, str]] = Frozen({"mismatched": "--rollout MismatchedPrompts"})

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf)", desirable="[0, inf)", undesirable="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.score.needs

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        ids = batch.trajectory.unique()
        scores = scored(self.score, pulling(outputs[LogProb()], batch.weight), batch).index_select(0, ids)
        if any(STREAM not in c.streams for c in batch.contexts):
            raise UserError(
                f'the objective reads the KL drift from the stream "{STREAM}", but the rollout does not write this stream; set --rollout '
                "MismatchedPrompts"
            )
        drift = trajectory_sums(batch.stream(STREAM), batch).index_select(0, ids).mean().clamp(min=0)
        wanted = torch.tensor([batch.trajectories[int(i)].value > self.above for i in ids])
        losses = prospect_losses(scores - drift, wanted, beta=self.beta, weights=(self.desirable, self.undesirable))
        seen = {"drift": tally(drift), "gain/desirable": tally(scores[wanted]), "gain/undesirable": tally(scores[~wanted])}
        return self.coefficient * losses.sum() / batch.counts[self.source].trajectories, seen


kto = dpo.derive(
    "kto",
    "The loss of a single answer, desirable or not, depends on its log-ratio minus the policy's mean drift; no pairs.",
    rollout=MismatchedPrompts(),
    selection=Everything(),
    objective=Frozen(sampled=Prospect(), given=Prospect(source="expert")),
)

claims = (
    Claim(
        says="From single answers without pairs, accuracy after 15 steps is at least 0.9 of that of DPO from pairs of the same answers.",
        source="arXiv:2402.01306, abstract (matches or exceeds methods of preferences); the size of the effect and the task are ours",
        against="dpo",
        measure="accuracy",
        at_least=0.9,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=15",
        problems=60,
        samples=2,
    ),
)
