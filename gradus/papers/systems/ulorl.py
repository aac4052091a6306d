"""UloRL: long answers grow by one segment per step, and all segments count as on-policy. At low entropy, very likely tokens of right answers have no loss.

    rho_t = (pi(a_t)) / (sg[pi(a_t)]) = 1
    loss = -1/(sum_i |o_i|) sum_i sum_t M_(i,t) rho_(i,t) A_i
    A_i = (r_i - mean(r)) / (std(r))
    M_(i,t) = 0 if r_i = 1 and pi(a_(i,t)) >= 0.99 and H_i < 0.2, else 1

The token limit of an answer is divided into 8 segments, and each step adds at most one segment to every unfinished answer, with the weights of that
step. Finished groups are used for training immediately; all other groups continue in the next step. So the segments of an answer come from several
versions of the policy. The ratio rho replaces the policy of every segment by the current policy (POIS); sg stops the gradient. Nothing is clipped, and
the gradient of a token is $A_i$ times the gradient of log pi. A step has one update; in later updates on the same batch rho would also be 1.

The sums run over the answers of the batch. $H_i$ is the mean entropy of the tokens of answer $o_i$, in nats. A token of a right answer that has at
least the probability $tau_p$ = 0.99 is mastered. Mastered tokens leave the loss only if $H_i$ is below sigma = 0.2. The divisor still counts mastered
tokens, so the mask does not change the weight of the other tokens. Probabilities and entropies come from the policy at the start of the update.
`--credit.sigma 0` never masks, and `--credit.sigma inf` always masks; in the paper, the entropy falls without the mask, and it grows if the mask is
always on. Groups with only right or only wrong answers are dropped. There is no KL term.

With `--objective.policy.ratio TokenRatio --objective.policy.ratio.against behaviour --objective.policy.trust Clip`, every token is compared with the
version that sampled it, and the ratio is clipped (SAIS). Metrics: versions (per answer), in_flight (groups), decode_steps (tokens of the longest
part), idle (token-steps of waiting slots per sampled token).

Use if: few answers are much longer than the others, and the entropy falls during training.
Avoid if: all answers are short (see grpo, dapo), or stale tokens need a correction (see pipeline_rl).
Reference: Du et al. (Tencent), UloRL: An Ultra-Long Output Reinforcement Learning Approach for Advancing Large Language Models' Reasoning Abilities,
arXiv:2507.19766, algorithm 1 (segments), section 3.1.2 (POIS, SAIS), eq. 9 and 10 (mask). The paper's numbers: limit 131072, 8 segments, tau_p 0.99,
sigma 0.2, 128 problems per step, 8 answers per problem, one update per step, temperature 0.85, learning rate 1e-6. No code was released.
Departures: A group is used for training when all its answers are finished. The paper lets single answers join the training data, and does not
describe the use of the other answers of their group. An answer that is cut at the limit keeps its verdict; in the paper its reward is 0. Problems
that the start model solves in all tries are not removed before the training. Temperature and the numbers of problems and answers come from the
setting. The paper judges answers with a model that compares the final answer with the reference; here the task's verifier judges. The deviation is as
in grpo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.ratios import OnPolicy
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.in_flight import InFlight
from gradus.selection.filters import Mixed
from gradus.types import Group, Trajectory
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import Entropy, LogProbs, Signal

CHANCES, ENTROPIES = LogProbs(fresh=True), Entropy(fresh=True)


def mask_of_mastered(logprobs: np.ndarray, entropies: np.ndarray, *, tau: float, sigma: float) -> np.ndarray:
    """Returns [A]: 0 for tokens with probability `tau` or more if the mean of `entropies` is below `sigma`, else 1. Both arrays are [A], in nats."""
    low = len(entropies) > 0 and entropies.mean(dtype=np.float64) < sigma
    return np.where(low & (logprobs >= np.log(tau)), 0.0, 1.0)


@dataclass(frozen=True)
class MasteredMask:
    """Gives weight 0 to the very likely tokens of right answers with a low entropy, so no loss term reads them. All tokens get the credit of `rule`.

    The denominator of an average counts the masked tokens too, unless it counts only weighted actions (`average.counted`).
    Reference: Du et al., UloRL, arXiv:2507.19766, eq. 10 (dynamic masking of mastered positive tokens).
    """

    rule: Credit = GroupRelative()
    tau: float = 0.99  # a token with at least this probability is mastered
    sigma: float = 0.2  # answers with at least this mean entropy, in nats, keep all tokens

    def __post_init__(self) -> None:
        check_ranges(self, tau="(0, 1]", sigma="[0, inf]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.rule.needs, CHANCES, ENTROPIES)

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        return [[self._masked(c, t, signals) for c, t in zip(row, g.trajectories, strict=True)] for row, g in zip(rows, groups, strict=True)]

    def _masked(self, credited: Credited, trajectory: Trajectory, signals: Signals) -> Credited:
        if not trajectory.right:
            return credited
        mask = mask_of_mastered(signals[CHANCES][trajectory.id], signals[ENTROPIES][trajectory.id], tau=self.tau, sigma=self.sigma)
        return credited if mask.all() else credited.weighted(mask)


ulorl = grpo.derive(
    "ulorl",
    "Answers grow by a segment per step and count as on-policy; very likely tokens of right answers are masked at low entropy.",
    family="systems",
    rollout=InFlight(parts=8),
    selection=Mixed(),
    credit=MasteredMask(),
    objective__policy__ratio=OnPolicy(),
    objective__policy__trust=Unclipped(),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
)

SMALL = {"prompts": "4", "group": "8", "warmup": "0", "study": "none"}
COLLAPSING = {**SMALL, "rollout.parts": "4", "learning_rate": "1e-4"}

claims = (
    same_weights(
        says="With one segment and without the mask, the final weights are those of GRPO with a token mean, the same filter and no KL term.",
        source="arXiv:2507.19766, at one segment and sigma 0",
        against=(
            "grpo --objective.kl none --players.reference none --objective.policy.average TokenMean --objective.policy.trust Unclipped --selection Mixed"
        ),
        own={"rollout.parts": "1", "credit.sigma": "0"},
    ),
    Claim(
        says="With 4 segments, the longest part of a step takes at least 40 % fewer decoding steps than the longest answer with 1 segment.",
        source=(
            "arXiv:2507.19766 (2.06 times the speed with 4 segments); the bound and the task are ours; a low rate keeps the lengths of the start "
            "model, from 4 to 40 tokens"
        ),
        against="ulorl --rollout.parts 1",
        measure="decode_steps:mean",
        at_most=0.6,
        task="arithmetic",
        own={"rollout.parts": "4"},
        fields={**SMALL, "learning_rate": "1e-5"},
        budget="steps=12",
    ),
    Claim(
        says="When the entropy collapses, the mask keeps it at least 1.4 times as high at the end of 15 steps.",
        source="arXiv:2507.19766, entropy curves; the factor (0.7 sigma against half of sigma) and the task are ours",
        against="ulorl --credit.sigma 0",
        measure="entropy:last",
        at_least=1.4,
        task="arithmetic",
        fields=COLLAPSING,
        budget="steps=15",
    ),
    Claim(
        says="With the mask the entropy at the end of 15 steps is at least 0.14 nats, 0.7 times sigma.",
        source="arXiv:2507.19766, entropy curves (the entropy stays near sigma); the bound and the task are ours",
        measure="entropy:last",
        better_by=0.14,
        task="arithmetic",
        fields=COLLAPSING,
        budget="steps=15",
    ),
)
