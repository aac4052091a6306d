"""Dr. GRPO: GRPO done right, without division by the group's deviation or the answer's length.

    A_i = R_i - mean(R)
    loss = 1/N sum_i 1/L sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - 0.2, 1 + 0.2) A_i)]
    rho_(i,t) = (pi(o_(i,t))) / (pi_old(o_(i,t)))

$R_i$ is the reward of answer i, and the mean of R is over its group. $o_(i,t)$ is token t of the answer, and rho is the ratio of the token's
probabilities under the policy pi and the sampling policy $pi_old$. N counts the answers of the mini-batch, and L is one constant for all answers.
Dividing by the deviation favours problems that are nearly always or nearly never solved. Dividing by the answer's length favours short right and long
wrong answers. Without these two divisions, the gradient is the policy gradient with the group's mean as baseline. There is no KL term, because a
policy cannot exploit a verifier's reward by drifting away from the start model.

L scales all gradients by the same factor. The scale matters only if the norm of the gradient is clipped or if the optimiser takes plain gradient
steps. A group with equal rewards and a group of one answer get advantage zero. A batch is cut into 8 mini-batches. With a single mini-batch every
ratio is 1, and the clip never acts.

Use if: grpo fits the problem, but wrong answers grow longer during training, or the difficulty of the problems varies widely.
Avoid if: the scale of rewards differs from problem to problem. Without division by the deviation, the problems with the largest scale of rewards
dominate (see grpo).
Reference: Liu et al., Understanding R1-Zero-Like Training: A Critical Perspective, arXiv:2503.20783, section 3.2 and listing 1. In listing 1, L is
the limit on new tokens, 3,000 in the experiments (`--objective.policy.average.length` sets another L). The paper's formula has no L;
`--objective.policy.average SequenceSum` gives this formula. The 8 mini-batches per batch are as in the released scripts: 1,024 answers, 128 per
update.
Departures: An answer that is cut at the limit keeps its reward. In the released code the reward of such an answer is 0; the reward `Verified() *
Finished()` has the same effect.
"""

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import ConstantLength
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights

dr_grpo = grpo.derive(
    "dr_grpo",
    "No division by the group's deviation or by the answer's length; no KL term.",
    credit=GroupRelative(scale="none"),
    objective__policy__average=ConstantLength(3000),
    objective__kl=None,
    players__reference=None,
    update__count=8,
)

claims = (
    same_weights(
        says=(
            "With one update per batch and a sum over tokens, it is the policy gradient with the group's mean reward as baseline: the final "
            "weights are equal."
        ),
        source="arXiv:2503.20783, section 3.2",
        against="reinforce --credit GroupRelative --credit.scale none",
        within=1e-06,
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
        own={"objective.policy.average": "SequenceSum", "update.count": "1"},
    ),
    Claim(
        says="Over 15 steps the mean length of answers stays at least 0.3 tokens below that of division by each answer's own length.",
        source="arXiv:2503.20783, the growth of wrong answers under a mean per answer; the size of the effect and the task are ours",
        against="dr_grpo --objective.policy.average SequenceMean --credit.scale population",
        measure="length:last",
        better_by=-0.3,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=15",
    ),
)
