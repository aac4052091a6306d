"""GPPO: keeps a bounded gradient for clipped tokens. The clip acts on the value of the ratio, and the gradient passes through the clip.

    loss = -1/N sum_i sum_t min(r A, clip(r, (1 - epsilon_l) r / (sg[r]), (1 + epsilon_h) r / (sg[r])) A) - alpha L
    grad loss_t = -F(r, A) A grad log pi
    F(r, A) = 1 + epsilon_h if A > 0 and r > 1 + epsilon_h; 1 - epsilon_l if A < 0 and r < 1 - epsilon_l; else r
    L = mean over right tokens of log pi

r is the token ratio between the trained policy and the sampling policy, A the group-relative advantage, and sg stops the gradient. N counts the tokens of
the mini-batch. The loss has the same value as PPO's clipped loss. Within the bounds it also has the same gradient. A token outside the bounds keeps
the gradient that it has at its bound; PPO gives such a token no gradient. So a rare token with A > 0 still becomes more likely, and an unlikely token
with A < 0 still becomes less likely. The bounds are as in dapo: $epsilon_l$ is 0.2 and $epsilon_h$ is 0.28.

L imitates right answers: right tokens are the tokens of right answers in the mini-batch, and alpha is 0.1. Groups with equal rewards are dropped. For
code the reward is the share of tests that pass: `--task code --task.reward share`. A batch is cut into 8 mini-batches; with a single mini-batch no
ratio leaves the bounds. Metric: clip_share, the share of tokens outside the bounds; in PPO these tokens have no gradient.

Use if: a batch is used for several updates, right answers are rare, and the clip drops the tokens that would change the policy most.
Avoid if: a batch is used for one update (see grpo), or samples are very stale, or the learning rate is high. In the last two cases the probabilities of
clipped tokens change further at every update, without a limit (see m2po).
Reference: Su et al. (Kuaishou), Klear-Reasoner: Advancing Reasoning Capability via Gradient-Preserving Clipping Policy Optimization, arXiv:2508.07629:
loss, gradient, imitation with alpha 0.1, share of passed tests as the reward for code. The released scripts have the bounds 0.2 and 0.28, 8 answers per
problem, no KL term, and 128 problems per batch in mini-batches of 16 (maths) or 32 (code).
Departures: The released loss is also constant if A < 0 and r is above 10 (the code's default is 3), but the paper's formula is not. The
means of the loss and of L are over the mini-batch; in the released code they are over each micro-batch. The authors later multiply the gradient of
tokens below the lower bound by 0.25 or 0.5, against a collapse of the entropy; this recipe has no such factor. The released advantage divides by
the deviation of the sample plus 1e-6. The released scripts sample 256 problems to fill a batch of 128; here dropped groups are not replaced. The
supervised stage and the choice of its data are not part of this recipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.imitation import ImitateRight
from gradus.objectives.ratios import Probability
from gradus.objectives.trust import surrogate
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.selection.filters import Informative
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.tally import Tally, tally


def held_log_ratio(log_ratio: Tensor, advantages: Tensor, *, low: float, high: float) -> Tensor:
    """Returns the log-ratio, at most log(1 + high) if A > 0 and at least log(1 - low) if A < 0. The bounds do not stop its gradient.

    Args: `log_ratio` [A] nats, with gradient; `advantages` [A], without gradient. Returns: [A].
    """
    least, most = torch.tensor([-low, high], dtype=torch.float64).log1p().tolist()
    free = log_ratio.detach()
    held = torch.where(advantages > 0, free.clamp(max=most), torch.where(advantages < 0, free.clamp(min=least), free))
    return log_ratio + (held - free)


@dataclass(frozen=True)
class PreservingClip:
    """PPO's clipped surrogate, but an action outside the bounds keeps the gradient that it has at its bound."""

    low: float = 0.2
    high: float = 0.28
    separable: ClassVar[bool] = True
    not_ratios: ClassVar[tuple[type, ...]] = (Probability,)  # its bounds lie around 1, the ratio of a policy that has not changed

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, 1]", high="[0, inf]")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        held = held_log_ratio(log_ratio, advantages, low=self.low, high=self.high)
        return surrogate(held, advantages), {"clip_share": tally(held.detach() != log_ratio.detach())}


gppo = grpo.derive(
    "gppo",
    "The clip acts on the value of the ratio only, so a clipped token keeps a bounded gradient; right answers are imitated.",
    family="objectives",
    objective__policy__trust=PreservingClip(low=0.2, high=0.28),
    objective__policy__average=TokenMean(),
    objective__imitation=ImitateRight(0.1),
    objective__kl=None,
    players__reference=None,
    selection=Informative(),
    update__count=8,
)

claims = (
    same_weights(
        says="With one update per batch no ratio leaves the bounds, and the final weights are those of PPO's clip.",
        source="arXiv:2508.07629, the loss: inside the bounds it is PPO's",
        against="gppo --objective.policy.trust Clip(low=0.2,high=0.28)",
        fields={"prompts": "4", "group": "4", "study": "none", "update.count": "1"},
    ),
    Claim(
        says="At 32 updates per batch the gradient of clipped tokens makes held-out accuracy at the end at least 0.03 higher than PPO's clip does.",
        source="arXiv:2508.07629, ablation of the clip (faster learning, higher scores); the ground and the size of the effect are ours",
        against="gppo --objective.policy.trust Clip(low=0.2,high=0.28)",
        better_by=0.03,
        ground="stale",
    ),
    Claim(
        says="At the paper's 8 updates per batch, held-out accuracy after 30 steps is at least 0.02 above that of PPO's clip.",
        source="arXiv:2508.07629, ablation of the clip (higher scores); the task, the rate and the size of the effect are ours",
        against="gppo --objective.policy.trust Clip(low=0.2,high=0.28)",
        measure="accuracy",
        better_by=0.02,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "learning_rate": "3e-4", "study": "none"},
        budget="steps=30",
        problems=200,
    ),
    Claim(
        says="The same at a third of that rate: held-out accuracy after 30 steps is at least 0.02 above that of PPO's clip.",
        source="arXiv:2508.07629, ablation of the clip; the rate is lower because PPO's clip itself hardly learns at 3e-4 with 8 updates per batch",
        against="gppo --objective.policy.trust Clip(low=0.2,high=0.28)",
        measure="accuracy",
        better_by=0.02,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "learning_rate": "1e-4", "study": "none"},
        budget="steps=30",
        problems=200,
    ),
)
