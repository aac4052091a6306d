"""LUFFY: a worked solution joins the policy's own answers in every group, and the solution's unlikely tokens get more weight.

    A_i = R_i - mean(R)
    loss = -1/Z [sum_own min(rho A, clip(rho, 1 - 0.2, 1 + 0.2) A) + sum_given f(pi(a_t)) A] - 0.01 H
    f(x) = x / (x + 0.1)
    grad f(pi(a_t)) = (0.1 pi(a_t)) / ((pi(a_t) + 0.1)^2) grad log pi(a_t)

The mean of R is over the whole group, including the solution. The first sum is over the tokens of the policy's own answers, with the ratio rho to the
sampling policy. The second sum is over the tokens $a_t$ of the given solutions. Z counts the tokens of all answers of the mini-batch, sampled and given, and
H is the entropy of the policy. The factor of $grad log pi$ is largest at pi = 0.1.

The probability of a solution's token under the writer of the solution is unknown, so it is set to 1. So the ratio of a solution's token is $pi(a_t)$
itself and is never clipped. If the policy's own answers are all right too, the solution has advantage zero, so guidance fades by itself. A solution
that the verifier judges wrong has the advantage of a wrong answer. A group of 8 has seven sampled answers and one solution. A batch is cut into two
mini-batches, so the clip acts on the policy's own tokens in the second mini-batch. A mini-batch contains whole answers; a solution and its group may
be in different mini-batches.

Use if: problems come with worked solutions, and the policy alone solves too few of them to learn.
Avoid if: no solutions exist (see grpo, or scaf_grpo for hints), the policy solves most problems by itself, or the solutions should be imitated
without RL (see sft). For imitation with a falling weight, see chord.
Reference: Yan et al., Learning to Reason under Off-Policy Guidance, arXiv:2504.14945, section 3 (mixed-policy GRPO with Z; shaping, eq. 6 and 7,
gamma 0.1). As in the paper's experiments, the advantage is not divided by the deviation, there is no KL term, and the entropy bonus is 0.01. A batch
is used for two updates; in the paper each update has 64 of 128 problems.
Departures: Z counts the tokens of the mini-batch, not of each group. The entropy is the entropy of the policy's own tokens. The released code and
scripts differ from the paper. In the released code the mean of R is over the policy's own answers alone. So a right solution among wrong answers has
advantage 1, and the wrong answers have advantage 0; here these advantages are 7/8 and -1/8. In the released code the ratios of the policy's own
tokens are not clipped (`--objective.policy.trust Unclipped`). One constant replaces Z. The entropy bonus is 0.001 and counts the solution's tokens
too.
"""

from gradus.objectives.aggregation import Joint, TokenMean
from gradus.objectives.ratios import Probability
from gradus.objectives.terms import EntropyBonus, PolicyGradient
from gradus.objectives.trust import Shaped
from gradus.papers.bases.dr_grpo import dr_grpo
from gradus.recipe.claim import Claim
from gradus.rollouts.mixed_policy import MixedPolicy

luffy = dr_grpo.derive(
    "luffy",
    "A worked solution joins the policy's own answers in every group, with a shaped importance weight.",
    rollout=MixedPolicy(),
    objective__policy__average=Joint(TokenMean()),
    objective__expert=PolicyGradient(ratio=Probability(), trust=Shaped(0.1), average=Joint(TokenMean()), source="expert"),
    objective__entropy=EntropyBonus(0.01),
    update__count=2,
    requires=frozenset({"solution"}),
)

claims = (
    Claim(
        says=(
            "On sums of three digits, mostly unsolved at the start, accuracy after 12 steps is at least 0.05 above that of Dr. GRPO with as many "
            "answers per group."
        ),
        source=(
            "arXiv:2504.14945, the comparison with on-policy RL, which fails on problems that are too hard; the size of the effect and the task "
            "are ours"
        ),
        against="dr_grpo --update.count 2",
        measure="accuracy",
        better_by=0.05,
        task="arithmetic",
        options={"level": "3"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=12",
        problems=60,
        samples=2,
    ),
)
