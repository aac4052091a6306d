"""ReMax: REINFORCE whose baseline is the reward of the greedy answer to the same problem. ReMax needs no critic and no group.

    A_i = R(y_i) - R(y_greedy)
    loss = -1/N sum_i sum_t A_i log pi(y_(i,t))

$y_i$ is a sampled answer and $y_(i,t)$ its token t; every token has the same advantage $A_i$. N counts the sampled answers. The greedy answer is
sampled at temperature 0 in addition to the other answers. The greedy answer is judged, but no update uses it. So each problem needs
one more answer. The reward of the greedy answer does not depend on $y_i$, so the gradient stays unbiased. If the policy always gives the same answer,
there is no gradient. If the reward function failed on the greedy answer, the problem has no baseline, and its advantages are zero.

Use if: only one sampled answer per problem is affordable, and problems differ in difficulty, so that each needs a baseline.
Avoid if: several samples per problem are drawn anyway. The mean of these samples is then a baseline at no further cost (see rloo, grpo).
Reference: Li et al., ReMax: A Simple, Effective, and Efficient Reinforcement Learning Method for Aligning Large Language Models,
arXiv:2310.10505, algorithm 1.
Departures: All samples of a group share one greedy answer; the paper draws one sample per problem (`--group 1`). There is no KL penalty, because a
verifier gives the reward. The released code subtracts $0.05 log(pi/pi_ref)$ of a token from the advantage of this token alone. The released code also
divides the loss by the number of tokens of the whole batch (`--objective.policy.average TokenMean`); the algorithm and this recipe sum over an
answer. Also, the released code clips $R(y) - R(y_greedy)$ to [-5, 5], multiplies this difference by 0.99 for each token that remains to the end, and
samples with top-p 0.9.
"""

from gradus.credit.groups import ProbeBaseline
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.rollouts.greedy_baseline import WithGreedyBaseline

remax = reinforce.derive(
    "remax",
    "The baseline of each sample is the reward of the greedy answer to the same problem.",
    rollout=WithGreedyBaseline(),
    credit=ProbeBaseline(),
)

claims = (
    Claim(
        says="The greedy answer's reward as baseline lowers the norm of the gradient at fixed weights by at least a tenth.",
        source="arXiv:2310.10505, the baseline against the variance of the gradient; the size of the effect and the task are ours",
        against="remax --rollout Auto --credit RewardToGo",
        measure="grad_norm:mean",
        at_most=0.9,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "4", "warmup": "0", "study": "none", "learning_rate": "0"},
        budget="steps=6",
        seeds=4,
    ),
)
