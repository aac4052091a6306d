"""RLSC: no reward and no labels. Each sample is weighted by its own probability, so two samples of the model agree more often.

    F = E_(y ~ pi) [pi(y | x)] = sum_y pi(y | x)^2
    grad F = 2 E_(y ~ pi) [pi(y | x) grad log pi(y | x)]
    loss = -1/N sum_i (pi_old(y_i | x) + alpha) log pi(y_i | x)

F is the chance that two independent answers are the same: a soft form of the majority vote. $pi_old(y_i | x)$ is the probability of sample i when it
was drawn, the product over its tokens; it has no gradient. alpha is 0.1. For samples of the current policy, the expected gradient of the alpha term is
0, so alpha changes only the variance of the first update; it changes the direction of later updates. Per question 16 samples are drawn at temperature 0.5.
There is no baseline, no KL term and no verdict; only the evaluation reads verdicts. A run has 10 to 20 steps. Metric: `likelihood`, the mean of
$pi_old(y_i | x)$.

Use if: answers are short, the model's likeliest answer is usually right, and there are no labels and no verifier.
Avoid if: the likeliest answer is often wrong, because this answer then displaces all others, or answers are long. In long answers the product is far below
alpha, and the loss is the plain likelihood of the policy's own samples; `--reward.form mean` replaces the product by the geometric mean of the tokens.
Reference: Li et al., Confidence Is All You Need: Few-Shot RL Fine-Tuning of Language Models, arXiv:2506.06395, section 2: F, its gradient, the losses
without and with alpha, 16 samples, temperature 0.5, alpha 0.1, AdamW with rate 1e-5, 10 or 20 steps. No code of the authors was found.
Departures: The form "mean" is our own choice. Probabilities are computed at the sampling temperature. The log-probability in the loss is the sum over
the tokens of the answer; the mean is over the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from gradus.credit.groups import BatchBaseline
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines
from gradus.rewards.confidence import confidence, sampled_logprobs
from gradus.rewards.verified import Verified
from gradus.study.held_out import HeldOut
from gradus.types import Failed, Frozen, Group, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class OwnLikelihood(Combines):
    """The probability of an answer under the policy that sampled it, plus `alpha`. The right answer is not read."""

    alpha: float = 0.1
    form: Literal["product", "mean"] = "product"  # over the tokens: the product of the probabilities, or their geometric mean
    name: ClassVar[str] = "likelihood"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True  # a likely answer may be wrong

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, inf)")

    def of(self, trajectory: Trajectory) -> float:
        """Returns the probability of an answer."""
        return confidence(trajectory) if self.form == "mean" else math.exp(float(sampled_logprobs(trajectory).sum()))

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[self.judged(t, world) for t in g.trajectories] for g in groups]

    def judged(self, trajectory: Trajectory, world: World) -> Judgement:
        """Returns the judgement of one answer. A failure of its rollout stays."""
        if isinstance(trajectory.reward, Failed):
            return Judgement(trajectory.reward)
        found = self.of(trajectory)
        world.note(self.name, found)
        return Judgement(found + self.alpha, Frozen({self.name: found}))


rlsc = reinforce.derive(
    "rlsc",
    "Each sample is weighted by its own probability, without reward, labels and baseline.",
    family="rewards",
    reward=OwnLikelihood(),
    credit=BatchBaseline("none"),
    study=HeldOut(reward=Verified()),
    setting__group=16,
    setting__temperature=0.5,
)

_TERMS = {"prompts": "8", "learning_rate": "2e-4", "warmup": "0", "eval_every": "0", "study.problems": "100", "study.greedy": "false"}

claims = (
    same_weights(
        says="With the task's verdicts as rewards, the final weights are those of REINFORCE without a baseline.",
        source="arXiv:2506.06395, without likelihoods; the limit is ours",
        against="reinforce --credit.baseline none --setting.temperature 0.5",
        own={"reward": "Verified"},
    ),
    Claim(
        says="After 20 steps without labels, held-out accuracy at temperature 1 is at least 0.05 above the start.",
        source="arXiv:2506.06395, abstract (MATH500 by 21.2 points); task, sizes and the size of the effect are ours",
        measure="held_out/accuracy:gain",
        better_by=0.05,
        task="string_ops",
        options={"level": "2"},
        fields={**_TERMS, "study.problems": "200", "setting.temperature": "1"},
        budget="steps=20",
    ),
    Claim(
        says="The entropy of the policy in the 20th step is below that of an untrained policy by at least 0.02 nats.",
        source="arXiv:2506.06395, section 2 (the distribution becomes sharper); task, sizes and the size of the effect are ours",
        against="rlsc --setting.learning_rate 0",
        measure="entropy:last",
        better_by=-0.02,
        task="string_ops",
        options={"level": "2"},
        fields={"prompts": "8", "warmup": "0", "study": "none", "setting.temperature": "1"},
        own={"setting.learning_rate": "2e-4"},
        budget="steps=20",
    ),
    Claim(
        says="With a seventh of that learning rate, held-out accuracy at temperature 1 is after 20 steps at least 0.05 above the start.",
        source="arXiv:2506.06395, abstract; stated again after a look at one run, in which the higher rate soon drops the worked steps of the answers",
        measure="held_out/accuracy:gain",
        better_by=0.05,
        task="string_ops",
        options={"level": "2"},
        fields={**_TERMS, "learning_rate": "3e-5", "study.problems": "200", "setting.temperature": "1"},
        budget="steps=20",
    ),
)
