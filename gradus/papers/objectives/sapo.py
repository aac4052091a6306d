"""SAPO: replaces the clip by a sigmoid gate on the ratio, so a token loses its gradient smoothly with its distance from the sampling policy.

    f(r) = 4/tau sigmoid(tau (r - 1))
    tau = tau_+ if A > 0, else tau_-
    loss = -1/G sum_i 1/|y_i| sum_t f(r_(i,t)) A_i
    grad loss = -1/G sum_i 1/|y_i| sum_t w(r_(i,t)) r_(i,t) A_i grad log pi(y_(i,t))
    w(r) = 4 p (1 - p) = "sech"^2(tau (r - 1) / 2), quad p = sigmoid(tau (r - 1))

$r_(i,t)$ is the ratio of token t of answer i between the trained policy and the sampling policy; $A_i$ is the group-relative advantage. The weight w is 1
at r = 1 for every tau, so the first update of a batch is the plain policy gradient. Far above 1, w falls as $exp(-tau (r - 1))$. The weight w is
never exactly zero, so no token is dropped. The value f(1) is 2/tau, not 1, so compare only the gradients with other methods, not the values of the
loss.

A negative advantage raises the logits of all other tokens, most of which were never sampled. Such updates are less stable, so they fade faster:
$tau_+$ is 1 and $tau_-$ is 1.05. If the ratios of an answer lie close together, the mean of its gates is close to one gate on the ratio of the whole
answer, as in gspo. If a few tokens of an answer have drifted, only these tokens lose gradient. A batch is cut into four mini-batches; with a single
mini-batch every ratio is 1, and the gate never acts. Metric: damped, the mean of 1 - w.

Use if: a batch is used for several updates, and the clip drops tokens whose gradient is still useful.
Avoid if: a batch is used for one update, because the gate then never acts (see grpo), or samples are very stale, or the learning rate is high. The gate
reduces the gradient only a little at ratios below 2, so it does not stop a policy that drifts (see m2po).
Reference: Gao et al. (Qwen), Soft Adaptive Policy Optimization, arXiv:2511.20347: the gate, its two temperatures and its gradient, and four
mini-batches per batch in its controlled experiments, which compare with GRPO and GSPO. The objective has no KL term.
Departures: No code of the authors was found. A log-ratio above 20 counts as 20, because the gradient of the gate is then 0 in floating-point numbers.
Public trainers with this loss also cut log-ratios at 20.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.objectives.ratios import Probability
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.tally import Tally, check_same_shape, tally

LARGEST = 20.0  # largest log-ratio, in nats


def gated_surrogate(log_ratio: Tensor, advantages: Tensor, *, positive: float, negative: float) -> tuple[Tensor, Tensor]:
    """Returns the losses -4/tau p A with p = sigmoid(tau (r - 1)), and the weights 4 p (1 - p) of the gradient -w r A.

    Args: `log_ratio` [A] nats, with gradient; `advantages` [A], without gradient; `positive`, `negative`: tau for A > 0 and for all other A.
    Returns: two tensors [A]; the weights have no gradient. Raises: ValueError if the shapes differ.
    """
    check_same_shape(log_ratio=log_ratio, advantages=advantages)
    tau = torch.full_like(log_ratio, negative).masked_fill(advantages > 0, positive)
    gate = torch.sigmoid(tau * (log_ratio.clamp(max=LARGEST).exp() - 1))
    p = gate.detach()
    return -4 / tau * gate * advantages, 4 * p * (1 - p)


@dataclass(frozen=True)
class SoftGate:
    """Damps the gradient of an action smoothly with the distance of its ratio from 1. Nothing is clipped."""

    positive: float = 1.0  # tau for A > 0; with a larger tau the gradient falls sooner
    negative: float = 1.05  # tau for A < 0
    separable: ClassVar[bool] = True
    not_ratios: ClassVar[tuple[type, ...]] = (Probability,)  # the gate is open at ratio 1, the ratio of a policy that has not changed

    def __post_init__(self) -> None:
        check_ranges(self, positive="(0, inf)", negative="(0, inf)")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        losses, weights = gated_surrogate(log_ratio, advantages, positive=self.positive, negative=self.negative)
        return losses, {"damped": tally(1 - weights)}


sapo = grpo.derive(
    "sapo",
    "A sigmoid gate on the ratio replaces the clip and damps each token smoothly; tokens with negative advantage are damped sooner.",
    family="objectives",
    objective__policy__trust=SoftGate(positive=1.0, negative=1.05),
    objective__kl=None,
    players__reference=None,
    update__count=4,
)

claims = (
    same_weights(
        says="With one update per batch every ratio is 1, the gate is open, and the final weights are those of the surrogate without a clip.",
        source="arXiv:2511.20347, the gradient weight at ratio 1; both temperatures are 1 here, so that the arithmetic has no rounding",
        against="sapo --objective.policy.trust Unclipped",
        own={"objective.policy.trust.negative": "1"},
        fields={"prompts": "4", "group": "4", "study": "none", "update.count": "1"},
    ),
    Claim(
        says="At 32 updates per batch the largest drop of held-out accuracy below its running best is at least 0.05 smaller than GRPO's.",
        source="arXiv:2511.20347, abstract (more stable than hard clipping); the ground, the size of the effect and 48 problems per evaluation are ours",
        against="grpo --objective.kl none",
        measure="held_out/accuracy:drop",
        better_by=-0.05,
        ground="stale",
        fields={"study.problems": "48"},
    ),
    Claim(
        says="At 8 updates per batch, held-out accuracy after 30 steps is at least 0.02 above GRPO's.",
        source="arXiv:2511.20347, main results (higher Pass@1 at equal budgets); task, rate, number of updates and size of the effect are ours",
        against="grpo --objective.kl none",
        measure="accuracy",
        better_by=0.02,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "learning_rate": "3e-4", "study": "none", "update.count": "8"},
        budget="steps=30",
        problems=200,
    ),
    Claim(
        says="The same at a third of that rate: held-out accuracy after 30 steps is at least 0.02 above GRPO's.",
        source="arXiv:2511.20347, main results; the rate is lower because GRPO itself hardly learns at 3e-4 with 8 updates per batch",
        against="grpo --objective.kl none",
        measure="accuracy",
        better_by=0.02,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "learning_rate": "1e-4", "study": "none", "update.count": "8"},
        budget="steps=30",
        problems=200,
    ),
)
