"""DAPO: GRPO with a wider upper clip, a mean over tokens, no KL term, only mixed groups, and a penalty for overlong answers.

    loss = 1/(sum_i |o_i|) sum_i sum_t -min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.28) A_i)
    A_i = (R_i - mean(R)) / (std(R))
    R_i = 2 verified_i - 1 + overlong_i
    0 < accuracy(group) < 1

The sums run over the answers of a mini-batch, so every token has the same weight. The reward R is 1 for a right answer and -1 for a wrong answer. The
penalty for length, overlong, is 0 up to max_tokens - cache tokens; from there it falls linearly to -1 at max_tokens. Here max_tokens is the sampling
limit, and the cache is a fifth of this limit (`--reward.parts.overlong.max_tokens`, `.cache`).

Only mixed groups, which have right and wrong answers, enter the update. The rollout samples further problems until the step has the requested number
of groups. If `rounds` rounds of sampling do not fill the step, the step trains on fewer groups. The verifier alone decides whether a group is mixed.
A group of right answers with different penalties is not mixed.

The ratio is 1 at the first update of a batch. Each batch is cut into 16 mini-batches of whole answers, so the clip acts from the second mini-batch on
(metric clip_share).

Use if: in many groups all answers are right or all are wrong, answers are long, or the entropy of the policy collapses early.
Avoid if: sampling is the bottleneck and most groups are mixed anyway; further sampling then costs tokens without a gain (see grpo).
Reference: Yu et al. (ByteDance Seed), DAPO: An Open-Source LLM Reinforcement Learning System at Scale, arXiv:2503.14476, eq. 7 (reward), 8, 9, 11
(mixed groups), 13 (overlong). Section 4.1 has 16 answers to each of 512 problems, in 16 mini-batches of 512 answers, and a limit of 20,480 tokens
with a cache of 4,096. The limit of ten rounds comes from the released script. The script ends the run if ten rounds do not fill a step.
Departures: A round asks for exactly the missing groups; the released code samples whole batches and drops the surplus. The loss is a mean over
the tokens of the mini-batch; in eq. 8 it is a mean over the tokens of each group. Mini-batches mix the answers of all groups. In the released script,
but not in the paper, the loss is also constant above ratio 10 if A < 0. `--objective.policy.trust "DualClip(low=0.2, high=0.28, ceiling=10)"` sets
this.
"""

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim
from gradus.rewards.overlong import Overlong
from gradus.rewards.verified import Verified
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.selection.filters import Mixed

dapo = grpo.derive(
    "dapo",
    "A wider upper clip, a mean over tokens, no KL term, further sampling until every group is mixed, and a penalty for overlong answers.",
    objective__policy__trust=Clip(low=0.2, high=0.28),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    reward=2 * Verified() - 1 + Overlong(),
    rollout=DynamicSampling(),
    selection=Mixed(),
    update__count=16,
)

claims = (
    Claim(
        says=(
            "Every group that it trains on has a gradient, so the gradient after 6 steps rests on at least a tenth more tokens than without "
            "sampling on."
        ),
        source="arXiv:2503.14476, section 3.2 (dynamic sampling); the size of the effect and the task are ours",
        against="dapo --rollout Auto",
        measure="tokens/train:mean",
        at_least=1.1,
        task="arithmetic",
        options={"level": "1"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=6",
    ),
    Claim(
        says="The wider upper clip keeps the entropy of the policy at least 0.005 nats higher after 10 steps.",
        source="arXiv:2503.14476, section 3.1 (Clip-Higher against the collapse of entropy); the size of the effect and the task are ours",
        against="dapo --objective.policy.trust.high 0.2",
        measure="entropy:last",
        better_by=0.005,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=10",
    ),
)
