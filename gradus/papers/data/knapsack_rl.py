"""Knapsack RL: divides a fixed number of answers among problems so that the sum of values is largest. A value is the chance of a gradient times the
gain.

    "max"_N quad sum_i Value(N_i, p_i), quad sum_i N_i = B N, quad N_low <= N_i <= N_up
    Value(n, p) = (1 - p^n - (1 - p)^n) p (1 - p)^2
    Value(n + 1, p) - Value(n, p) = (p^n (1 - p) + (1 - p)^n p) p (1 - p)^2

$p_i$ is the share of right answers at the last visit of problem i, and $N_i$ the number of answers that it gets now. The first factor of the value is the
chance of both right and wrong answers, which give GRPO a gradient. $p (1 - p)^2$ is the expected rise of p by a step along
this gradient: the variance p (1 - p) of the reward, times the distance from p to 1. B problems share B N answers, with N = 8 on average and between
$N_low = 2$ and $N_up = 128$ for each. Each answer goes to the problem with the largest gain. This division is exact, because the value is concave in
n.

A problem that was never visited gets N answers, and a problem with p = 1 gets $N_low$. With ln(1 - 0.9) / ln max(p, 1 - p) answers, a problem with 0 < p < 1
has both right and wrong answers with a probability of about 0.9. If these numbers leave a surplus of answers, the problems with p = 0 share it equally. The
advantage is GRPO's, in each problem's own group. Metrics: allotted_most (answers to one problem), predicted_rate.

Use if: the same problems are drawn several times, many problems are already solved, and other problems are solved in at most one of twenty answers.
Avoid if: every problem is new, so its success rate is not known, or most unsolved problems are impossible, because impossible problems get the surplus.
Reference: Li et al., Knapsack RL: Unlocking Exploration of LLMs via Optimizing Budget Allocation, arXiv:2509.25849. The value and the bounds 2 and
128 are the paper's. The numbers of answers to new problems and to problems with p of 0 and 1, and the surplus, are as in the released code.
Departures: The released code solves the knapsack by dynamic programming. In the released code the value of the first further answer includes the
value of the first $N_low$ answers. So the code tends to give one further answer to each problem with 0 < p < 1. If the last visit has fewer than 16
answers, the code adds answers of earlier visits, up to 16. Here only the last visit counts, even if it has two answers, unless `--curriculum.keep`
gives earlier answers a weight. In the code new problems share the surplus with the problems with p = 0. If there are no such problems, the problems
with p = 1 get the surplus. Here this surplus stays in the knapsack. In the code the surplus can bring a problem above the bound $N_up$. If a task generates
problems without end, the pool has 256 of them. KL and one update per batch are as in grpo. The released script has eight updates with clip 0.2 and 0.28, a
mean over tokens and no KL, and limits advantages to 5. Every answer has the same weight in the loss, so a problem with more answers has more weight.
The distribution of answers over workers is left out.
"""

from gradus.curricula.allotment import Knapsack
from gradus.curricula.rates import Mean, Nearest, SuccessRates
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights

knapsack_rl = grpo.derive(
    "knapsack_rl",
    "A knapsack divides the answers of a step among its problems, by the success rates of their last visits.",
    family="data",
    curriculum=SuccessRates(estimate=Mean(), choice=Nearest(), keep=0.0, factor=1, allot=Knapsack(low=2, high=128)),
)

claims = (
    same_weights(
        says="If the smallest number of answers is the group's size, nothing is divided, and the final weights are those of equal groups.",
        source="arXiv:2509.25849, uniform division as the limit of the bounds",
        against="knapsack_rl --curriculum.allot none",
        own={"curriculum.allot.low": "4"},
        fields={"prompts": "4", "group": "4", "study": "none", "curriculum.pool": "4"},
    ),
    Claim(
        says=(
            "If three of four problems are nearly always solved, the mean share of problems with a gradient over 20 steps, five of them without a "
            "memory, is at least 1.1 times that of equal groups with as many answers."
        ),
        source="arXiv:2509.25849, abstract (20 to 40 % more problems with a gradient); the task, the pool and the size of the effect are ours",
        against="knapsack_rl --curriculum.allot none",
        measure="informative:mean",
        at_least=1.1,
        task="ladder",
        options={"levels": "1,1,1,3"},
        fields={"prompts": "8", "group": "4", "warmup": "0", "learning_rate": "3e-4", "study": "none", "curriculum.pool": "40"},
        budget="steps=20",
    ),
)
