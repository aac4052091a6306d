"""DAPO: GRPO with a wider upper clip, a mean over tokens, no KL term, sampling until every group is mixed, and a price for overlong answers.

loss = 1 / (tokens of the mini-batch) sum_i sum_t -min(rho A_i, clip(rho, 1 - 0.2, 1 + 0.28) A_i), A_i = (R_i - mean R) / std R in the group;
R = verified + overlong, overlong = 0 up to max_tokens - cache, falling linearly to -1 at max_tokens;
only groups with 0 < accuracy < 1 enter the update, and the rollout samples further problems until there are as many as were asked for.

Accuracy is that of the verifier alone: a group of right answers that differ in length by the penalty is not mixed. The penalty's lengths
are the paper's and reach only completions of that size: `--reward.parts.overlong.max_tokens` and `.cache` fit it to a shorter limit.
Where `rounds` of sampling do not fill the step it trains on fewer groups.

Reference: Yu et al. (ByteDance Seed), DAPO: An Open-Source LLM Reinforcement Learning System at Scale, arXiv:2503.14476, eq. 8, 9, 11
(mixed groups), 13 (overlong). Ours: the limit of ten rounds, and a round asks for exactly the groups that are missing, where the released
code samples a whole batch again and throws the surplus away.
"""

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.rewards.overlong import Overlong
from gradus.rewards.verified import Verified
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.selection.filters import Mixed

dapo = grpo.derive(
    "dapo",
    "A wider upper clip, a mean over tokens, no KL term, sampling on until every group is mixed, and a price for overlong answers.",
    objective__policy__trust=Clip(low=0.2, high=0.28),
    objective__policy__average=TokenMean(),
    objective__kl=None,
    players__reference=None,
    reward=Verified() + Overlong(),
    rollout=DynamicSampling(),
    selection=Mixed(),
)
