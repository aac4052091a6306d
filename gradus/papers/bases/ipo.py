"""IPO: the lead of the better answer is drawn to a finite value, so that preferences without exception do not drive the policy to extremes.

loss = mean over pairs of (h_w - h_l - 1 / (2 tau))^2, h = sum_t log pi(y_t) - log pi_ref(y_t), tau 0.1: the lead sought is 5 nats;
gradient of a pair: 2 (h_w - h_l - 1 / (2 tau)) (grad log pi(y_w) - grad log pi(y_l)): it turns round where the lead is too large.

A logistic loss falls for ever as the lead grows, so where one answer always wins the KL term behind it loses all force; the squared
loss keeps it. `beta` is the paper's tau. Pairs are those of the base: given, or best and worst of a group.

Reference: Azar et al., A General Theoretical Paradigm to Understand Learning from Human Preferences, arXiv:2310.12036, eq. 17 and
algorithm 1; its log-ratios are sums over the answer. Ours: tau 0.1, the base's beta (the paper varies it).
"""

from gradus.objectives.preference import Squared
from gradus.papers.bases.dpo import dpo

ipo = dpo.derive(
    "ipo",
    "A squared loss draws the lead of the better answer to a finite value.",
    objective__sampled__link=Squared(),
    objective__given__link=Squared(),
)
