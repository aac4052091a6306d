"""DUMP: an upper confidence bound draws the kind of each problem. The bound is the mean absolute advantage on this kind plus a bonus for kinds with few
answers.

    L_d = mean of |A| over the last 300 answers to kind d
    U_d = L_d + sqrt((2 ln(N + 1)) / (n_d + 1)), quad N = sum_d n_d
    P_d = (exp(U_d / tau)) / (sum_k exp(U_k / tau))

d is a kind of problem: a source of data, or a level of difficulty. $n_d$ counts the answers to kind d since the start of the run. $L_d$ shows how
much there is to learn on the kind, because advantages are 0 if all answers to a problem are right or all are wrong. $L_d$ begins at 0. The second
term of $U_d$ is large for kinds with few answers, so every kind is tried again from time to time. For every place in the batch a kind is drawn from P
with tau = 0.1, then a problem of that kind.

Apart from this, the method is GRPO. The advantages of GRPO are divided by the standard deviation of their group, so |A| is about 1 in every group
with different rewards, and $L_d$ is near the share of such groups. Metrics: arm/KIND, the probability of each kind.

Use if: data comes from several sources or levels of very different difficulty, and the best mixture is unknown or changes during training.
Avoid if: problems have one kind (see grpo), or there are many kinds and few steps, because the bonus then keeps the choice nearly uniform (see sec).
To choose single problems, see mopps.
Reference: Wang, Cui, Li, Wan & Zhao, DUMP: Automated Distribution-Level Curriculum Learning for RL-based LLM Post-training, arXiv:2504.09710. The
paper and the released code have a window of 300 answers and tau = 0.1. In the paper and in the code a step has 128 prompts with 16 answers each, in 4
updates, with a KL of weight 0.001: `dump.but(objective__kl__coefficient=0.001, update__count=4, setting__prompts=128, setting__group=16)`.
Departures: KL and one update per batch are as in grpo. Problems within a kind come in a random order, without repetition; in the released code they are drawn
with replacement. A group that is dropped before the update counts with |A| = 0. In the released code the bandit also gets the results of each validation: the
mean reward per token on a source counts as one more advantage. Here only training answers count.
"""

from gradus.curricula.upper_bound import UpperBound
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights

dump = grpo.derive(
    "dump",
    "The kind of each problem is drawn by an upper confidence bound on the mean absolute advantage of its recent answers.",
    family="data",
    curriculum=UpperBound(tau=0.1, window=300, exploration=1.0),
)

claims = (
    same_weights(
        says="At an infinite temperature the bounds do not matter, and the final weights are those of SEC at an infinite temperature.",
        source="arXiv:2504.09710, the softmax over bounds in its limit",
        against="sec --curriculum.tau inf",
        own={"curriculum.tau": "inf"},
        task="ladder",
    ),
    Claim(
        says=(
            "If four of five problems are trivial or impossible, the share of groups with a gradient is over 14 steps at least 0.1 above that of "
            "equal shares of all kinds."
        ),
        source="arXiv:2504.09710, learnability as the mean |A|; the ground and the size of the effect are ours",
        against="dump --curriculum.tau inf",
        measure="informative:mean",
        better_by=0.1,
        ground="ladder",
        fields={"eval_every": "0"},
    ),
    Claim(
        says="On string functions of one, two and three steps, the probability of three steps rises within 30 steps by at least 0.1 from one third.",
        source="arXiv:2504.09710, sampling probabilities over training, which move from easy to hard; the task and the size of the effect are ours",
        measure="arm/string_ops/3:gain",
        better_by=0.1,
        task="string_ops",
        fields={
            "curriculum.arms": "string_ops/1,string_ops/2,string_ops/3", "prompts": "8", "group": "8", "learning_rate": "1e-3", "warmup": "0",
            "study": "none",
        },
        budget="steps=30",
    ),
)  # fmt: skip
