"""Online difficulty filtering: trains only on groups with a pass rate in a band around one half, and continues to sample until the batch is full.

    p = 1/G sum_i r_i
    T_low <= p <= T_high, quad T_high = 1 - T_low
    pi^**(a) prop pi(a) exp(r(a) / beta)
    KL(pi || pi^**) = ln(1 - p + p exp(1 / beta)) - p / beta
    KL(pi || pi^**) = (p (1 - p)) / (2 beta^2) + O(beta^(-3))

p is the pass rate of a problem: the mean reward of its G answers $o_i$, with $r_i$ 1 for a right answer, else 0. Only groups in the band enter the
update. Further problems of the same pass over the data are sampled until the step has the requested number of groups in the band. So updates have the
same number of groups, and every group has advantages other than 0. The step has fewer groups only if even four times the requested number of problems do not
fill it.

$pi^**$ is the best policy with a KL penalty of weight beta towards the present policy pi. If $pi^**$ is far from pi, there is much to learn from the
problem. If this distance is expanded in powers of 1 / beta, the term of second order is largest at p = 1/2, and 0 at p = 0 and p = 1. So the band is
around 1/2. Apart from this, the method is GRPO. Metrics: examined (sampled problems per requested problem), informative (share of all sampled groups
with unequal rewards).

Use if: problems differ much in difficulty, sampling is cheap next to the update, and a constant batch is wanted.
Avoid if: sampling is the bottleneck. In this case it is cheaper to choose problems before any sampling (see mopps, sec). To drop only groups of equal
rewards, see dapo.
Reference: Bae, Hong, Lee, Kim, Nam & Kwak (NAVER Cloud, KAIST), Online Difficulty Filtering for Reasoning Oriented Reinforcement Learning,
arXiv:2504.03380. In the paper the filter is balanced, the batch has a fixed size, and GRPO has 16 answers per problem. No code of the
authors was found.
Departures: Our own choices are the bounds 0.2 and 0.8, the 8 answers per problem of the setting, and the limit of four times the requested problems.
The first version of the paper calls the second-order term a lower bound of the distance, but this term is above the distance for p >= 1/2. In the paper the
sampler is asynchronous: it begins a further problem as soon as a problem is dropped, and stops all unfinished answers when the batch is full.
Here each round samples exactly the missing groups, so the batch does not prefer problems with short answers. KL and one update per batch are as in
grpo. An answer without a reward does not count in p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto
from gradus.rollouts.dynamic_sampling import refilled
from gradus.selection.filters import MeanReward
from gradus.types import Group, Request
from gradus.types.parts import Rollout, Selection, World
from gradus.types.ranges import check_ranges


def distance(rate: float, beta: float) -> float:
    """Returns the KL in nats from a policy of this pass rate to its best policy under a KL penalty of weight `beta`. Rewards are 0 or 1."""
    return float(np.logaddexp(np.log1p(-rate), np.log(rate) + 1 / beta)) - rate / beta if 0 < rate < 1 else 0.0


def second_order(rate: float, beta: float) -> float:
    """Returns the second-order term of `distance` in 1 / beta, in nats."""
    return rate * (1 - rate) / (2 * beta**2)


BAND = MeanReward(low=0.2, high=0.8)


@dataclass(frozen=True)
class FilledBatch:
    """Samples problems until the selection `until` has kept the requested number of groups, but at most `most` problems per requested problem.
    Metric: `examined`.
    """

    rollout: Rollout = Auto()
    until: Selection = BAND
    most: float = 4.0

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the judged groups of all rounds, as `DynamicSampling` does."""
        groups, sampled = await refilled(requests, self.rollout, self.until, world, most=self.most)
        if requests:
            world.note("examined", sampled / len(requests))
        return groups


online_difficulty_filtering = grpo.derive(
    "online_difficulty_filtering",
    "Training uses only groups with a pass rate in a band around one half, and sampling continues until the batch is full.",
    family="data",
    rollout=FilledBatch(),
    selection=BAND,
)

claims = (
    same_weights(
        says="With a band from 0 to 1 no group is dropped, and the final weights are those of GRPO.",
        source="arXiv:2504.03380, the filter with the widest band",
        against="grpo",
        own={"selection.low": "0", "selection.high": "1", "rollout.until.low": "0", "rollout.until.high": "1"},
    ),
    Claim(
        says=(
            "If four of five problems are trivial or impossible, the accuracy on the others is after 24 updates at "
            "least 0.02 above GRPO's."
        ),
        source="arXiv:2504.03380, abstract (4 % above GRPO on average over five benchmarks); the ground, rate and size of the effect are ours",
        against="grpo",
        measure="accuracy@middle",
        better_by=0.02,
        ground="ladder",
        fields={"learning_rate": "1e-3", "prompts": "8", "eval_every": "0"},
        budget="steps=24",
    ),
    Claim(
        says="If four of five problems are trivial or impossible, an update rests on at least twice as many tokens as with the band alone.",
        source="arXiv:2504.03380, a batch of fixed size; the ground and the size of the effect are ours",
        against="online_difficulty_filtering --rollout Auto",
        measure="tokens/train:mean",
        at_least=2.0,
        ground="ladder",
        fields={"prompts": "8", "eval_every": "0"},
        budget="steps=8",
    ),
)
