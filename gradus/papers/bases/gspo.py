"""GSPO: the ratio is that of the whole answer, so that what is rewarded, what is corrected and what is clipped have one unit.

s_i = (pi(y_i) / pi_old(y_i))^(1/|y_i|) = exp(mean_t log rho_t);  loss = 1/N sum_i -min(s_i A_i, clip(s_i, 1 - 3e-4, 1 + 4e-4) A_i);
gradient of an unclipped answer: -s_i A_i mean_t grad log pi(y_t), every token weighed alike; a clipped answer has none.

GSPO-token, for advantages that differ within an answer, has the same values and lets the gradient of every token meet its own advantage:
s_it = sg[s_i] pi(y_t) / sg[pi(y_t)] (`--objective.policy.ratio SequenceTokenRatio`); with one advantage an answer both are the same.

The bounds are those of a mean over tokens, hence so much narrower than the token ratio's. With one mini-batch a batch s_i is 1 and nothing
differs from the base, so the batch is cut into four, as in the paper's experiments.

Reference: Zheng et al. (Qwen), Group Sequence Policy Optimization, arXiv:2507.18071, eq. 5-7 and 10, GSPO-token eq. 13-14, bounds and four
mini-batches of section 5.1. Its formulas leave the KL term out for brevity; here it stays that of the base.
"""

from gradus.objectives.ratios import SequenceRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo

gspo = grpo.derive(
    "gspo",
    "The importance ratio is that of the whole answer, and so is what is clipped.",
    objective__policy__ratio=SequenceRatio(),
    objective__policy__trust=Clip(3e-4, 4e-4),
    update__count=4,
)
