"""Kimi k1.5: fits log-ratios to centred rewards. A length reward shortens answers, hard problems come more often, and answers grow over several steps.

    loss = 1/(2 tau) mean over answers of (r_i - mean(r) - tau sum_t [log pi(y_(i,t)) - log pi_old(y_(i,t))])^2
    -grad loss = mean over answers of (r_i - mean(r) - tau log-ratio_i) sum_t grad log pi(y_(i,t))
    lambda_i = 1/2 - (L_i - min L)/(max L - min L)
    r_i = 1 + lambda_i if right, else min(0, lambda_i)

The optimum of $E[r] - tau KL(pi, pi_old)$ satisfies $r - tau log Z = tau log(pi / pi_old)$. The mean reward of the 8 answers $y_i$ to a problem replaces $tau
log Z$, and $pi_old$ is the policy at the start of the step. There is no critic and no clip; wrong answers count, too. A step has
four updates. At the first update the log-ratios are 0 and the gradient is a policy gradient; later the tau term pulls the policy back. Here tau is 0.1, and
`coefficient` is $1/(2 tau)$. Before each step the optimiser forgets its moments, because a new $pi_old$ also makes a new optimisation problem.

$L_i$ is the length of answer i in tokens. The length reward is 0 if all lengths are equal. The length reward slows early training, so its weight is 0
in the first half of the run, then 1. A problem is drawn with a probability proportional to one minus the share of its right answers so far. In each
step an answer grows by at most a third of its token limit; the next step continues the answer with new weights (`InFlight`). Metrics: fit_error,
fit_log_ratio, predicted_rate, reward/length.

Use if: answers are long and verified, and their length should not grow without need.
Avoid if: the batch is used for one update and length is free, because the method is then REINFORCE with a group baseline (see rloo, grpo).
Reference: Kimi Team, Kimi k1.5: Scaling Reinforcement Learning with LLMs, arXiv:2501.12599, sections 2.3.2 (loss), 2.3.3 (length), 2.3.4 (sampling),
2.6.2 (partial rollouts). The code is not public.
Departures: The paper does not give tau, nor the numbers of answers, of updates and of parts of an answer; these numbers are our choices. Before the weighted
drawing, the paper orders problems from easy to hard, which needs labels. For this order use stages with rising `--task.level`. Problems that can be guessed
are not removed, and repeated text is not cut early. A problem without an answer so far gets the mean share of the other problems. The paper also makes
the answers of a trained model shorter, in several ways. The stage `Merge` averages the weights of a long and a short model.
`RightAnswers(shortest=True)` makes data for sft from the shortest right answers. A third way, the paper's further training, is this recipe with a
smaller `--max_tokens`. DPO on short and long answers is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.curricula.rates import Mean, Proportional, SuccessRates
from gradus.objectives.regression import LogRatioRegression
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.length import group_lengths, lengths_of, right_of
from gradus.rewards.reshaped import reshaped
from gradus.rewards.verified import Verified
from gradus.rollouts.in_flight import InFlight
from gradus.types import Frozen, Group
from gradus.types.moments import Event, Moment, ResetOptimizer
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class GroupLength(Combines):
    """Adds weight * length reward (see `group_lengths`) to `reward`. The reward of short right answers rises, and the reward of long answers falls.

    The length is the number of all actions of a trajectory. During the first part of the run, the weight is 0; `after` is the share of this part in the run. A
    reward that failed or does not apply does not change, and its answer does not count in the group. The component "length" is the length reward without its
    weight; the components of `reward` keep their names.
    """

    reward: Reward = Verified()
    weight: float = 1.0
    after: float = 0.0  # the length reward begins after this share of the run's steps
    name: ClassVar[str] = "group_length"

    def __post_init__(self) -> None:
        check_ranges(self, weight="[0, inf)", after="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        weight = self.weight if world.step >= self.after * world.steps else 0.0

        def rule(judged: Sequence[Group]) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
            found = [group_lengths(lengths_of(g), right_of(g)) for g in judged]
            return [(g.rewards + weight * values, {"length": values}) for g, values in zip(judged, found, strict=True)]

        return await reshaped(self.reward, groups, signals, world, rule)


@dataclass(frozen=True)
class FreshMoments:
    """Before every step the policy's optimiser forgets its moments."""

    causes: ClassVar[tuple[Event, ...]] = (ResetOptimizer(),)

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        return recipe, self.causes


kimi_k1_5 = reinforce.derive(
    "kimi_k1_5",
    "Log-ratios to the last iterate are fitted to centred rewards, with a length reward within the group and more draws of hard problems.",
    family="objectives",
    curriculum=SuccessRates(Mean(), Proportional(), factor=32, group=8),
    rollout=InFlight(parts=3),
    reward=GroupLength(weight=1.0, after=0.5),
    credit=GroupRelative(scale="none"),
    objective=Frozen(policy=LogRatioRegression(beta=0.1, player=None, coefficient=5.0)),
    update__count=4,
    schedule=FreshMoments(),
)

claims = (
    same_weights(
        says="With the weight 0 the length reward changes nothing: the final weights are those of training with the verifier alone.",
        source="arXiv:2501.12599, section 2.3.3, without the length reward",
        against="kimi_k1_5 --reward Verified",
        own={"reward.weight": "0"},
        options={"level": "2"},
        fields={"prompts": "4", "study": "none", "warmup": "0"},
        budget="steps=5",
    ),
    Claim(
        says="The length reward, on in the second half of training, shortens answers to at most 0.8 times their length without it.",
        source="arXiv:2501.12599, section 2.3.3 and long2short; the ground and the size of the effect are ours",
        against="kimi_k1_5 --reward.weight 0",
        measure="length",
        at_most=0.8,
        ground="wordy",
        fields={"update.count": "4"},
        budget="steps=40",
    ),
)
