"""RLOO: REINFORCE with the mean reward of the group's other samples as baseline.

    A_i = r_i - 1/(G - 1) sum_(j != i) r_j
    loss = -1/N sum_i sum_t A_i log pi(a_(i,t))

The policy answers each problem G times; answer i has reward $r_i$ and tokens $a_(i,t)$, which all have the advantage $A_i$. N counts the answers
of the batch. The baseline leaves the gradient unbiased because it does not depend on sample i. A group of one sample has no other samples and gets
advantage zero.

Use if: each answer has one reward at its end, groups are affordable, and each batch is used for one update only.
Avoid if: a batch is used for many updates, which need a clipped ratio (see grpo, gspo), or only one answer per problem is affordable (see remax,
reinforce_plus_plus).
Reference: Ahmadian et al., Back to Basics: Revisiting REINFORCE-Style Optimization for Learning from Human Feedback in LLMs, arXiv:2402.14740,
eq. 8; Kool et al., Buy 4 REINFORCE Samples, Get a Baseline for Free!, 2019.
Departures: The paper puts a KL penalty into the reward. Here the penalty is left out, because a verifier gives the reward.
"""

from gradus.credit.groups import LeaveOneOut
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim

rloo = reinforce.derive(
    "rloo", "The baseline of each sample is the mean reward of the group's other samples.", credit=LeaveOneOut()
)

claims = (
    Claim(
        says="The group's other samples as baseline give the gradient of the group's mean as baseline times G / (G - 1): with pairs, twice its norm.",
        source="arXiv:2402.14740, eq. 8; Kool et al. 2019",
        against="rloo --credit GroupRelative --credit.scale none",
        measure="grad_norm:mean",
        at_least=1.9999,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "2", "warmup": "0", "study": "none", "learning_rate": "0"},
        budget="steps=2",
        seeds=2,
    ),
    Claim(
        says="After the same 12,000 tokens generated, scored and trained on, accuracy is at least 0.05 above PPO's.",
        source="arXiv:2402.14740, the comparison with PPO (better, with fewer models in memory); the size of the effect and the task are ours",
        against="ppo",
        measure="accuracy",
        better_by=0.05,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="tokens=12000",
        problems=60,
        samples=2,
    ),
)
