"""CISPO: the importance weight is capped in place of the update being clipped, so that every token keeps its gradient.

loss = 1 / (tokens of the mini-batch) sum_i sum_t -sg[min(rho_t, cap)] A_i log pi(a_t), rho the token ratio, sg: no gradient;
gradient of a token: -min(rho, cap) A grad log pi, never zero for A other than zero; without a lower bound.

PPO's clip drops the gradient of rare tokens ("however", "wait") as soon as their ratio leaves the bounds, and these begin reflection; here
they are only held. Group advantages, mixed groups, the overlong penalty and no KL term are those of the base. While one mini-batch follows a
batch every ratio is 1 and this is the plain policy gradient, so a batch is cut into 16, as in the paper.

Ours: the cap, which the paper tuned as 1 + eps_high and does not give; 5 is what TRL's documents name for ScaleRL
(arXiv:2510.13786). And the mean over the tokens of the mini-batch, as the base has it, where eq. 4 has that of each group.

Reference: MiniMax, MiniMax-M1: Scaling Test-Time Compute Efficiently with Lightning Attention, arXiv:2506.13585, eq. 4 and 5, section 3.1.
"""

from gradus.objectives.trust import CappedWeight
from gradus.papers.bases.dapo import dapo

cispo = dapo.derive(
    "cispo",
    "The importance weight is capped and carries no gradient, so that no token is ever dropped.",
    objective__policy__trust=CappedWeight(cap=5.0),
    update__count=16,
)
