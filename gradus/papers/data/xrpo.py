"""XRPO: problems with the least certain mean reward get more answers, unsolved problems see solved examples, and unlikely right answers count more.

    h(n) = t_(1 - alpha/2, n - 1) s / sqrt(n)
    Pi = h(n) - h(n + 1) + lambda sqrt((ln(1 + T)) / n)
    A_i = (r_i - mean(r)) / (std(r))
    eta_i = exp(s_i - mean(s)), quad s_i = 1/|o_i| sum_t log pi(o_(i,t))
    A_i^+ = A_i + min("max"(lambda_n (1 - eta_i), 0), kappa A_i)
    loss = -1/N sum_i sum_t min(rho_(i,t) A_i^+, clip(rho_(i,t), 1 - epsilon, 1 + epsilon) A_i^+) + beta k_3

Every problem first gets 4 answers. The other answers of the step go in blocks of 4 to the problems with the highest priority Pi. The symbol h(n) is half the
width of Student's interval for the mean reward of n answers, with deviation s and alpha = 0.05. The bonus with lambda favours problems with few answers; T
counts all answers of the step so far.

If the first answers to a problem are all wrong, half of its further answers are seeded. The prompt of a seeded answer begins with the two solved
problems whose texts are nearest, and with the policy's own right answers to these problems from earlier steps. The update sees a seeded answer under
the plain prompt, with its log-probability under this prompt. A right answer with A > 0 is sharpened if it is less likely than the mean of its group
($eta_i$ < 1). Sharpening adds at most kappa = 0.5 times $A_i$; $lambda_n$ is 2.5. N counts all tokens. Metrics: allotted (answers per problem),
allotted_most (to one problem), seeded (share of seeded answers in a request).

Use if: problems differ in difficulty, some problems are never solved although similar problems are solved, and the policy uses only a few ways to
solve.
Avoid if: groups have four answers or fewer, because no answers are then left to divide, or a step cannot wait for several rounds of sampling (see grpo).
Reference: Bamba et al., XRPO: Pushing the limits of GRPO with Targeted Exploration and Exploitation, arXiv:2510.06672: h, Pi, eta, $lambda_n$ and
kappa are the paper's.
Departures: lambda = 0.1, 4 first answers, blocks of 4, two examples, the share of seeded answers (one half), and the nearness of texts (TF-IDF in
place of an embedding model) are our choices. The released code (UIUC-MLSys/XRPO) could not be read. The likelihood of a sequence is its likelihood at
sampling. Clip, KL and one update per batch are as in GRPO. Tasks with several turns are refused.
"""

from typing import cast

from gradus.credit.groups import GroupRelative
from gradus.credit.sharpened import Sharpened
from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.allot import Allot, HalfWidth
from gradus.rollouts.seeded import Seeded
from gradus.types.parts import Rollout

xrpo = grpo.derive(
    "xrpo",
    "The least certain problems get more answers, unsolved problems see solved examples, and unlikely right answers get larger advantages.",
    family="data",
    rollout=Allot(rule=HalfWidth(alpha=0.05, bonus=0.1, block=4), rollout=cast("Rollout", Seeded()), first=4, rounds=16),
    credit=Sharpened(GroupRelative(), weight=2.5, most=0.5),
    objective__policy__average=TokenMean(),
)

claims = (
    same_weights(
        says="If the first round has all answers and nothing is sharpened, the final weights are those of GRPO with a mean over tokens.",
        source="arXiv:2510.06672, GRPO as the method without its three parts",
        against="grpo --objective.policy.average TokenMean",
        own={"rollout.first": "none", "credit.weight": "0"},
    ),
    Claim(
        says=(
            "If four of five problems are trivial or impossible, the mean share of problems with a gradient over 10 steps is at least 1.15 times that of "
            "equal groups with as many answers."
        ),
        source="arXiv:2510.06672, rollout allocation; the size of the effect and the ground are ours",
        against="xrpo --rollout Auto",
        measure="informative:mean",
        at_least=1.15,
        ground="ladder",
        fields={"prompts": "8", "group": "8", "eval_every": "0"},
        budget="steps=10",
    ),
)
