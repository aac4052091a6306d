"""CISPO: a cap on the importance weight replaces the clip of the update, so every token keeps its gradient.

    loss = -1/N sum_i sum_t sg[min(rho_(i,t), c)] A_i log pi(o_(i,t))
    grad loss = -1/N sum_i sum_t min(rho_(i,t), c) A_i grad log pi(o_(i,t))
    rho_(i,t) = (pi(o_(i,t))) / (pi_old(o_(i,t)))

$o_(i,t)$ is token t of answer i. The ratio rho is the probability of this token under the policy pi, divided by its probability under the sampling
policy $pi_old$. N counts the tokens of the mini-batch, and sg stops the gradient. The cap c is 5; the weight has no lower bound. The gradient of a
token is zero only if A is zero.

PPO's clip drops the gradient of a token as soon as its ratio leaves the bounds. The ratios of rare tokens ("however", "wait") leave the bounds first,
and these tokens begin reflection. The cap bounds the weight of such tokens but keeps their gradient. As in the base, dapo, the reward is 1 or -1 plus
the penalty for overlong answers, and the advantages $A_i$ are relative to the group. Also as in dapo, only mixed groups are used, and there is no KL
term. Like the base and the paper, this recipe has 16 mini-batches per batch. With one mini-batch every ratio is 1, and the method is the plain policy
gradient. Metric: capped_share (share of tokens whose weight is capped).

Use if: a batch is used for many updates, and the clip drops rare tokens that matter, such as those that begin reflection.
Avoid if: each batch is used for one update only. All ratios are then 1, and the cap never acts. On very stale data the cap bounds the weight of each
token, but it does not bound the change of the whole policy (see m2po).
Reference: MiniMax, MiniMax-M1: Scaling Test-Time Compute Efficiently with Lightning Attention, arXiv:2506.13585, eq. 4 and 5, section 3.1. The paper
builds on DAPO's mixed groups and length penalty. TRL's documentation gives the cap 5 for ScaleRL (arXiv:2510.13786).
Departures: The paper tunes the cap as $1 + epsilon_high$ and gives no number, so the cap here is not the paper's. The paper gives no numbers for its
reward, so the rewards -1 and 1 are as in the base. The mean over the tokens of the mini-batch also comes from the base; eq. 4 takes the mean over
the tokens of each group.
"""

from gradus.objectives.trust import CappedWeight
from gradus.papers.bases.dapo import dapo
from gradus.recipe.claim import Claim

cispo = dapo.derive(
    "cispo",
    "The importance weight is capped and has no gradient, so that no token is ever dropped.",
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
