"""KDRL: GRPO and the reverse KL to a teacher, both on the policy's own answers. The weight of the teacher falls during training.

    loss = 1/Z sum_i sum_t [-min(rho A_i, clip(rho, 1 - 0.2, 1 + 0.2) A_i) + beta_s D_(i,t)]
    D_(i,t) = 1/2 (log pi(y_t) - log pi_T(y_t))^2
    beta_s = max(0.001, 0.005 - 0.00005 s)

A_i is the reward standardised in the group, and rho is the ratio of a token to the sampling policy. Z is the number of all tokens of the batch,
$pi_T$ is the teacher, and s is the step. There is no KL to a reference model. D is the k2 estimate at the sampled token. If the samples come from the
current policy, the expected gradient of D is the gradient of KL(pi || pi_T). In contrast, the k3 estimate has the expected gradient of KL(pi_T ||
pi). So the policy imitates first and follows the reward later.

The teacher reads only sampled answers, in one pass, and needs the policy's tokens. Name its folder: `--players.teacher.model FOLDER`. Without a folder the
teacher is the start model, and the term is a KL penalty. `--objective.distillation.weight WrongOnly` distils only wrong answers (reward 0), and
`WrongOnly(level=group)` only groups without a right answer. For a constant weight, use `--schedule ConstantSchedule --objective.distillation.coefficient
0.002`. For the exact divergence at every token in place of k2, use `--objective.distillation Distillation(player=teacher)`.

Use if: a stronger model with the same tokens exists, and rewards can be computed.
Avoid if: no such model exists (see grpo), or only its finished answers are available (see luffy, chord).
Reference: Xu et al., KDRL: Post-Training Reasoning LLMs via Unified Knowledge Distillation and Reinforcement Learning, arXiv:2506.02208: the k2 estimate, the
annealed weight (0.005 to 0.001), reward-guided masks. We read summaries, but not the paper, and found no public code.
Departures: The KL is divided by the number of all tokens, also under a mask; the summaries do not give this divisor. D is not multiplied by the
ratio, so it is exact only in the first update on a batch. There is one update per batch, so the clip 0.2 does not act; one of the summaries has no
clip. The deviation of a group is the population deviation. At level group, the group consists of the problem's answers in the mini-batch. The variant
with -beta_s (log pi - log pi_T) in the advantage in place of D is not implemented.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.schedules.ramp import Ramp
from gradus.types import UserError
from gradus.types.batch import Batch
from gradus.types.players import Player


@dataclass(frozen=True)
class WrongOnly:
    """A weight: 1 for the actions of wrong answers, else 0. At level "group": 1 if no answer to the problem has a reward above 0."""

    level: str = "answer"  # "answer" or "group"

    def __post_init__(self) -> None:
        if self.level not in ("answer", "group"):
            raise UserError(f'WrongOnly.level is "{self.level}"; it must be "answer" or "group"')

    def factors(self, old: Tensor, batch: Batch) -> Tensor:
        wrong = [t.value <= 0 for t in batch.trajectories]
        if self.level == "group":
            solved = {t.problem.id for t, is_wrong in zip(batch.trajectories, wrong, strict=True) if not is_wrong}
            wrong = [t.problem.id not in solved for t in batch.trajectories]
        return torch.tensor(wrong, dtype=old.dtype, device=old.device)[batch.trajectory]


kdrl = grpo.derive(
    "kdrl",
    "GRPO plus the reverse KL to a teacher on the policy's own answers; the weight of the teacher falls.",
    family="guidance",
    objective__policy__average=TokenMean(),
    objective__kl=None,
    objective__distillation=KL(0.005, "k2", player="teacher", average=TokenMean()),
    players__reference=None,
    players__teacher=Player(),
    schedule=Ramp("objective.distillation.coefficient", ((0, 0.005), (80, 0.001))),
)

TAUGHT = {"prompts": "8", "group": "4", "learning_rate": "3e-4", "warmup": "0", "study.problems": "64", "study.greedy": "false", "eval_every": "0"}

claims = (
    same_weights(
        says="Without the teacher's term the final weights are those of GRPO with a mean over all tokens.",
        source="arXiv:2506.02208, the objective at beta 0",
        against="grpo --objective.kl none --players.reference none --objective.policy.average TokenMean",
        own={"objective.distillation": "none", "players.teacher": "none", "schedule": "ConstantSchedule"},
    ),
    Claim(
        says=(
            "With a teacher of the same size that was trained on worked solutions, held-out accuracy after 8 steps is at least 0.02 above that of "
            "GRPO alone."
        ),
        source="arXiv:2506.02208, abstract (above GRPO); the task, the size of the effect and the constant weight 0.2 (for short runs) are ours",
        against="kdrl --schedule ConstantSchedule --objective.distillation.coefficient 0",
        measure="accuracy",
        better_by=0.02,
        task="arithmetic",
        options={"level": "3"},
        fields=TAUGHT,
        own={"schedule": "ConstantSchedule", "objective.distillation.coefficient": "0.2"},
        budget="steps=8",
        problems=100,
        script="benchmarks.warmed kdrl",
    ),
    Claim(
        says="With the same teacher, held-out accuracy after 8 steps is at least 0.02 above that of distillation alone (A = 0).",
        source="arXiv:2506.02208, abstract (above distillation); the task, the size of the effect and the constant weight 0.2 are ours",
        against="kdrl --schedule ConstantSchedule --objective.distillation.coefficient 0.2 --objective.policy.coefficient 0",
        measure="accuracy",
        better_by=0.02,
        task="arithmetic",
        options={"level": "3"},
        fields=TAUGHT,
        own={"schedule": "ConstantSchedule", "objective.distillation.coefficient": "0.2"},
        budget="steps=8",
        problems=100,
        script="benchmarks.warmed kdrl-alone",
    ),
)
