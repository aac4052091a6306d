"""ReMax: REINFORCE with the reward of the greedy answer to the same problem as baseline; no critic, no group needed.

A_i = R(y_i) - R(y_greedy), the same for every token;  loss = -1/N sum_i sum_t A_i log pi(a_t).

The greedy answer is sampled at temperature 0 beside the others, judged, and never trained on; it costs one more answer a problem. Its reward
does not depend on y_i, so the gradient stays unbiased, and a policy that always says the same has none. Where the greedy answer's reward
failed the problem has no baseline and advantage zero.

Reference: Li et al., ReMax: A Simple, Effective, and Efficient Reinforcement Learning Method for Aligning Large Language Models,
arXiv:2310.10505, algorithm 1. The paper draws one sample a problem (`--group 1`) and takes a KL penalty into the reward; with a verifier as
reward the penalty is left out here, and the setting's group of samples shares one greedy answer.
"""

from gradus.credit.groups import ProbeBaseline
from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.greedy_baseline import WithGreedyBaseline

remax = reinforce.derive(
    "remax",
    "The baseline of each sample is the reward of the greedy answer to the same problem.",
    rollout=WithGreedyBaseline(),
    credit=ProbeBaseline(),
)
