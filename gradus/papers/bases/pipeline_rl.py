"""PipelineRL: the weights change while answers are being written, so that nobody waits for the longest one and
data stay nearly fresh.

Between two updates every answer grows by a fourth of its limit. Groups that are finished are trained on; the others are gone on with, token by
token, under the new weights: mu(a_t) is the policy of whatever version chose a_t, and stands with it.
loss = -1/N sum_i sum_t sg[min(pi(a_t) / mu(a_t), 5)] (R_i - mean R of the group) log pi(a_t), no lower bound, no other clip.

No answer is dropped and none waits longer than four steps, so lengths are not biased; the first steps take only what is short, and may have
nothing to learn from. Written in one part every token is of the present policy, and this is REINFORCE with the group's mean as baseline.
Metrics: versions (of the policy, in an answer), in_flight (groups left).

Reference: Piché et al., PipelineRL: Faster On-policy Reinforcement Learning for Long Sequence Generation, arXiv:2509.19128, section 3
(in-flight weight updates), the weight's cap of 5 as in its experiments. Ours: generation and update take turns in one process, so weights
change at the end of a step and not at any token; a step takes all that is finished, as many as were asked for on average, where the paper has
a fixed number; keys and values of an unfinished answer are computed anew under the new weights (the paper goes on with the stale ones).
"""

from gradus.credit.groups import GroupRelative
from gradus.objectives.ratios import TokenRatio
from gradus.objectives.trust import CappedWeight
from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.in_flight import InFlight

pipeline_rl = reinforce.derive(
    "pipeline_rl",
    "Answers go on being written while the weights change; each token is weighed against the version that chose it.",
    rollout=InFlight(parts=4),
    credit=GroupRelative(scale="none"),
    objective__policy__ratio=TokenRatio(against="behaviour"),
    objective__policy__trust=CappedWeight(cap=5.0),
)
