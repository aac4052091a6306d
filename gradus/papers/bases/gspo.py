"""GSPO: the ratio is that of the whole answer, so reward, correction and clipping are all per sequence.

s_i = (pi(y_i) / pi_old(y_i))^(1/|y_i|) = exp(mean_t log rho_t);  loss = 1/N sum_i -min(s_i A_i, clip(s_i, 1 - 3e-4, 1 + 4e-4) A_i);
gradient of an unclipped answer: -s_i A_i mean_t grad log pi(y_t), equal weight per token; a clipped answer has none.
GSPO-token, for advantages that differ within an answer, has the same values and multiplies the gradient of every token by its own advantage:
s_it = sg[s_i] pi(y_t) / sg[pi(y_t)] (`--objective.policy.ratio SequenceTokenRatio`); with one advantage per answer both are the same.

The bounds are for a mean over tokens and so much narrower than those of a token ratio. With one mini-batch per batch s_i is 1 and the method
equals its base, so the batch is cut into four mini-batches, as in the paper's experiments.

Reference: Zheng et al. (Qwen), Group Sequence Policy Optimization, arXiv:2507.18071, eq. 5-7 and 10, GSPO-token eq. 13-14, bounds and four
mini-batches of section 5.1. Its formulas leave the KL term out for brevity; here it is that of the base.
"""

from gradus.objectives.ratios import SequenceRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim

gspo = grpo.derive(
    "gspo",
    "Reward, ratio and clipping are all per sequence.",
    objective__policy__ratio=SequenceRatio(),
    objective__policy__trust=Clip(3e-4, 4e-4),
    update__count=4,
)

claims = (
    Claim(
        says="With one advantage per answer GSPO-token is GSPO: the final weights agree.",
        source="arXiv:2507.18071, eq. 13 and 14",
        against="gspo --objective.policy.ratio SequenceTokenRatio",
        within=1e-05,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
        budget="steps=2",
        seeds=1,
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
