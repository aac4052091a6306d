"""GVM-RAFT: divides the answers of a step so that the variance of the rejection-sampling gradient is smallest, and imitates the right answers.

    G_i = "mean over the right probes of problem i of" |grad log pi(y | x_i)|
    p_i = "share of right probes of problem i"
    w_i = G_i / sqrt(p_i + alpha / p_i^(beta - 1))
    n_i = N w_i / (sum_j w_j)
    loss = -1/m sum_i 1/|D_i| sum_(y in D_i) log pi(y | x_i)

First, 8 answers to each problem are the probes; they estimate $p_i$ and $G_i$, and no update uses them. Then the N answers of the step are divided:
problem i gets $n_i$ of them, rounded so that the sum is N. $D_i$ has the right answers among these $n_i$ answers, and m problems have at least one
right answer. Every problem has the same weight in the loss. log pi(y | x) is a sum over tokens.

With $n_i$ answers the variance of the gradient is about $sum_i G_i^2 / (n_i p_i)$. The variance is smallest if $n_i$ is in proportion to $G_i /
sqrt(p_i)$. The term with alpha = 0.001 and beta = 2 lowers the weight of problems with $p_i$ near 0. A problem with $p_i$ = 0 or $G_i$ = 0 gets no
answer. Metrics: allotted (answers per problem, probes included), allotted_most (to one problem).

Use if: problems differ in difficulty, updates are expensive, and only right answers should be imitated.
Avoid if: sampling is the bottleneck, because the probes double it, and each right probe costs one backward pass. Wrong answers teach nothing here
(see grpo).
Reference: Yao et al., Optimizing Chain-of-Thought Reasoners via Gradient Variance Minimization in Rejection Sampling and RL, arXiv:2505.02391,
algorithms 1 and 2. The released code has 8 probes, 8 further answers per problem on average, and the same alpha and beta. The learning rate of the
code is 1e-6. With GRPO: `grpo --rollout Allot --rollout.rule GradientVariance --rollout.rounds 2 --rollout.probe true`.
Departures: The released code estimates $p_i$ and $G_i$ once for about 10,000 problems, and then trains on about ten batches of them; here each step
estimates both for its own problems. The gradient is over all trained parameters; in the released code it is only over the input embeddings. If no
probe of a step is right, the step changes no weight; the released code divides by zero. The released trainer is GRPO or RAFT++. A batch of 1,024
problems has about 32 updates of 256 answers with a clipped ratio, a KL term of weight 0.001 and a mean over all tokens. So in the released trainer
problems with more right answers have more weight. If a trajectory has several contexts, its norm is the square root of the sum of the squared norms
of the contexts.
"""

from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.terms import Imitation
from gradus.papers.bases.best_of_n import best_of_n
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.allot import Allot
from gradus.rollouts.gradient_variance import GradientVariance
from gradus.selection.filters import Accepted
from gradus.types import Frozen

gvm_raft = best_of_n.derive(
    "gvm_raft",
    "Probes estimate success rates and gradients; the answers are divided so that the gradient's variance is smallest, and right answers are imitated.",
    family="data",
    rollout=Allot(rule=GradientVariance(alpha=0.001, beta=2.0), first=8, rounds=2),
    selection=Accepted(),
    objective=Frozen(imitation=Imitation(source="policy", average=SequenceSum())),
)

claims = (
    same_weights(
        says="With a single round that is trained on, the final weights are those of uniform rejection sampling.",
        source="arXiv:2505.02391, RAFT as the method without a division",
        against="gvm_raft --rollout Auto",
        own={"rollout.rounds": "1", "rollout.first": "4", "rollout.probe": "false"},
    ),
    Claim(
        says="After 15 updates from as many trained answers, the accuracy is at least that of uniform rejection sampling on problems of four levels.",
        source="arXiv:2505.02391, results (above RAFT at equal steps); the task, rate and bound are ours",
        against="gvm_raft --rollout Auto",
        measure="accuracy",
        better_by=0.0,
        task="ladder",
        options={"levels": "1,2,3,4"},
        fields={"prompts": "8", "group": "8", "warmup": "0", "learning_rate": "3e-4", "study": "none"},
        budget="steps=15",
        problems=100,
        samples=2,
    ),
)
