"""CISPO: the importance weight is capped in place of the update being clipped, so that every token keeps its gradient.

loss = 1 / (tokens of the mini-batch) sum_i sum_t -sg[min(rho_t, cap)] A_i log pi(a_t), rho the token ratio, sg: no gradient;
gradient of a token: -min(rho, cap) A grad log pi, never zero for A other than zero; without a lower bound.

PPO's clip drops the gradient of a token as soon as its ratio leaves the bounds. Rare tokens ("however", "wait") leave them first, and these
begin reflection; the cap only bounds their weight. Reward (1, -1 and the overlong price), group advantages, mixed groups and the absent KL
term are the base's. So are the 16 mini-batches per batch, a number that this paper has too: with one mini-batch every ratio is 1, and this is
the plain policy gradient. Metric: capped_share.

Reference: MiniMax, MiniMax-M1: Scaling Test-Time Compute Efficiently with Lightning Attention, arXiv:2506.13585, eq. 4 and 5, section 3.1.
The paper builds on DAPO's mixed groups and length penalty; it gives no numbers for its reward, so -1 and 1 are the base's. Ours: the cap,
which the paper tunes as 1 + eps_high and does not give; 5 is the number in TRL's documents for ScaleRL (arXiv:2510.13786). The mean over the
tokens of the mini-batch is the base's; eq. 4 has the mean of each group.
"""

from gradus.objectives.trust import CappedWeight
from gradus.papers.bases.dapo import dapo
from gradus.recipe.claim import Claim

cispo = dapo.derive(
    "cispo",
    "The importance weight is capped and carries no gradient, so that no token is ever dropped.",
    objective__policy__trust=CappedWeight(cap=5.0),
)

claims = (
    Claim(
        says="On the same batches the mean accuracy over 10 steps is at least 0.02 above DAPO's.",
        source="arXiv:2506.13585, section 3.1 (DAPO's score in half of the steps); the size of the effect and the task are ours",
        against="dapo",
        measure="accuracy:mean",
        better_by=0.02,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=10",
    ),
)
