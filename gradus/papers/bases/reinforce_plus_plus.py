"""REINFORCE++: no critic and no group; the return of every token, a KL penalty on its way included, is normalised over the whole batch.

r_t = [t last] R - 0.01 (log pi(a_t) - log pi_ref(a_t)), both as sampled;  A_t = sum_{s >= t} r_s = R - 0.01 sum_{s >= t} k1_s;
A_t <- (A_t - mean) / std over all tokens of the batch;  loss = mean over tokens of -min(rho A, clip(rho, 0.8, 1.2) A).

One sample a problem is enough; more are used as they are. The statistics of a batch depend ever less on a single sample, those of a group
do, which biases the group's normalisation. Where all rewards of a batch are equal what is left, and normalised, are the KL penalties. While
one mini-batch follows a batch rho is 1 and the clip never binds.

The variant with a baseline (k > 1 samples a problem) takes the group's mean from the reward before it normalises over the batch, and moves
the KL into the loss, as k2: `--credit RewardToGo --credit.baseline group --objective.kl KL --objective.kl.estimator k2`.

Reference: Hu et al., REINFORCE++: Stabilizing Critic-Free Policy Optimization with Global Normalization, arXiv:2501.03262 (version 9). Ours:
the population's deviation, no epsilon, and 0.01 as the coefficient, that of the released code.
"""

from gradus.credit.kl_penalty import KLPenalty
from gradus.credit.reward_to_go import RewardToGo
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.reinforce import reinforce
from gradus.types.players import Copy, Player

reinforce_plus_plus = reinforce.derive(
    "reinforce_plus_plus",
    "Returns with a KL penalty for every token, normalised over the whole batch in place of a critic; a clipped ratio.",
    credit=KLPenalty(rule=RewardToGo(), coefficient=0.01, estimator="k1"),
    objective__policy__trust=Clip(0.2, 0.2),
    objective__policy__average=TokenMean(),
    players__reference=Player(Copy("policy")),
)
