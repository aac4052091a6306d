"""GSPO: there is one ratio for the whole answer, so the reward, the correction and the clipping are all per sequence.

    s_i = ((pi(y_i)) / (pi_old(y_i)))^(1/|y_i|) = exp(1/|y_i| sum_t log rho_(i,t))
    loss = 1/N sum_i -min(s_i A_i, clip(s_i, 1 - 0.0003, 1 + 0.0004) A_i)
    grad loss_i = -s_i A_i 1/|y_i| sum_t grad log pi(y_(i,t))
    s_(i,t) = sg[s_i] (pi(y_(i,t))) / (sg[pi(y_(i,t))])

$y_i$ is answer i, and $A_i$ its group-relative advantage. The answer has $|y_i|$ tokens $y_(i,t)$ with the ratios $rho_(i,t)$. $pi_old$ is the sampling
policy, and N counts the answers of the mini-batch. The third line is the gradient of an unclipped answer: all its tokens have equal weight. A
clipped answer has no gradient. The last line is GSPO-token (`--objective.policy.ratio SequenceTokenRatio`), for advantages that differ within an
answer. The ratio of GSPO-token has the same value as $s_i$, and the gradient of every token is multiplied by the token's own advantage; sg stops the
gradient. With one advantage per answer GSPO and GSPO-token are the same.

The bounds are much narrower than those of a token ratio, because $log s_i$ is a mean over tokens. With one mini-batch per batch, $s_i$ is 1 and the
method equals its base, grpo. So the batch is cut into four mini-batches, as in the paper's experiments. The base's KL term is added to the loss.

Use if: a batch is used for several updates, and ratios of single tokens are noisy, as with long answers or mixtures of experts.
Avoid if: each batch is used for one update only, because the method is then GRPO (see grpo), or if single tokens of an answer should be left out of
the update (see m2po).
Reference: Zheng et al. (Qwen), Group Sequence Policy Optimization, arXiv:2507.18071, eq. 5 to 7 and 10; eq. 13 and 14 for GSPO-token. The bounds (3e-4,
4e-4) and the four mini-batches are as in section 5.1.
Departures: The paper's formulas leave the KL term out for brevity; here the KL term is as in the base.
"""

from gradus.objectives.ratios import SequenceRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights

gspo = grpo.derive(
    "gspo",
    "Reward, ratio and clip are all per sequence.",
    objective__policy__ratio=SequenceRatio(),
    objective__policy__trust=Clip(3e-4, 4e-4),
    update__count=4,
)

claims = (
    same_weights(
        says="With one advantage per answer GSPO-token is GSPO: the final weights agree.",
        source="arXiv:2507.18071, eq. 13 and 14",
        against="gspo --objective.policy.ratio SequenceTokenRatio",
        within=1e-05,
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
        budget="steps=2",
    ),
    Claim(
        says="It clips a far larger share of tokens than GRPO with as many updates: at least 0.1 more.",
        source="arXiv:2507.18071, section 5 (a share of clipped tokens two orders of magnitude larger)",
        against="grpo --update.count 4",
        measure="clip_share:mean",
        better_by=0.1,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
        budget="steps=4",
    ),
)
