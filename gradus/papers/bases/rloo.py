"""RLOO: REINFORCE with the mean reward of the group's other samples as baseline.

A_i = r_i - 1/(G-1) sum_{j != i} r_j, the same for every token; the baseline is unbiased because it does not depend on sample i.
A group of one has no other samples and gets advantage zero.

Reference: Ahmadian et al., Back to Basics: Revisiting REINFORCE-Style Optimization for Learning from Human Feedback in LLMs,
arXiv:2402.14740, eq. 8; Kool et al., Buy 4 REINFORCE Samples, Get a Baseline for Free!, 2019. The paper puts a KL penalty into the
reward; with a verifier as reward it is left out here.
"""

from gradus.credit.groups import LeaveOneOut
from gradus.papers.bases.reinforce import reinforce

rloo = reinforce.derive(
    "rloo", "The baseline of each sample is the mean reward of the group's other samples.", credit=LeaveOneOut()
)
