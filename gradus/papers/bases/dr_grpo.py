"""Dr. GRPO: GRPO done right; neither a group's deviation nor an answer's length weighs its gradient.

A_i = R_i - mean R of the group;  loss = 1/N sum_i 1/L sum_t -min(rho A_i, clip(rho, 1 - 0.2, 1 + 0.2) A_i), L one constant for all answers.

Dividing by the deviation favours problems that are nearly always or nearly never solved, dividing by the own length favours short right
and long wrong answers; without both the gradient is that of the policy-gradient theorem with the group's mean as baseline. No KL term: a
verifier's reward cannot be hacked by drifting. L scales all gradients alike, which matters only to the clipping of their norm and to plain
gradient steps. A constant group and a group of one get advantage zero.

Reference: Liu et al., Understanding R1-Zero-Like Training: A Critical Perspective, arXiv:2503.20783, section 3.2 and listing 1; L is there
the limit on new tokens, 3,000 in its experiments (`--objective.policy.average.length` sets another; its formula has no L at all, which is
`--objective.policy.average SequenceSum`).
"""

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import ConstantLength
from gradus.papers.bases.grpo import grpo

dr_grpo = grpo.derive(
    "dr_grpo",
    "Neither the group's deviation nor the answer's own length weighs the gradient; no KL term.",
    credit=GroupRelative(scale="none"),
    objective__policy__average=ConstantLength(3000),
    objective__kl=None,
    players__reference=None,
)
