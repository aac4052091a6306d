"""PipelineRL: weights change while answers are being written. So no step waits for the longest answer, and data stay nearly on-policy.

    loss = -1/N sum_i sum_t sg[min((pi(a_(i,t))) / (mu(a_(i,t))), 5)] A_i log pi(a_(i,t))
    A_i = R_i - mean(R)

$a_(i,t)$ is token t of answer i, and mu is the version of the policy that sampled this token; the log-probability under mu is stored with the token. The
mean of R is over the group, N counts the answers, and sg stops the gradient. The weight has no lower bound, and there is no other clip.

Between two updates every answer grows by at most a fourth of the limit on its length. The step uses the finished groups for its update; the other
groups continue under the new weights. No answer is dropped, and no answer takes more than four steps, so lengths are not biased. But the first steps
of a run train on short answers only, or on no answers. If `rollout.parts` is 1 instead of 4, the current policy samples every token of an answer, and
the method is REINFORCE with the group's mean as baseline. Metrics: versions (number of policy versions in an answer), in_flight (unfinished groups).

Use if: answers differ widely in length, so that a step would wait for the longest one.
Avoid if: answers are short or of similar length, because a plain step then loses little time (see rloo, grpo). For data that is many updates old, see
m2po.
Reference: Piché et al., PipelineRL: Faster On-policy Reinforcement Learning for Long Sequence Generation, arXiv:2509.19128, section 3 (in-flight
weight updates). The cap of 5 on the importance weight is as in the paper's experiments.
Departures: Generation and update alternate in one process, so weights change only at the end of a step. A step trains on all finished groups; on
average their number is the requested number of groups. In the paper this number is fixed. Keys and values of an unfinished answer are recomputed
under the new weights; in the paper the stale keys and values are kept.
"""

from gradus.credit.groups import GroupRelative
from gradus.objectives.ratios import TokenRatio
from gradus.objectives.trust import CappedWeight
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.in_flight import InFlight

pipeline_rl = reinforce.derive(
    "pipeline_rl",
    "Weights change while answers are being written; each token is weighted against the policy version that sampled it.",
    rollout=InFlight(parts=4),
    credit=GroupRelative(scale="none"),
    objective__policy__ratio=TokenRatio(against="behaviour"),
    objective__policy__trust=CappedWeight(cap=5.0),
)

claims = (
    same_weights(
        says=(
            "With one part no weight changes while an answer is written, and the final weights are those of REINFORCE with the group's mean as "
            "baseline."
        ),
        source="arXiv:2509.19128, section 3, at no change in flight",
        against="reinforce --credit GroupRelative --credit.scale none",
        within=1e-06,
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
        own={"rollout.parts": "1"},
    ),
    Claim(
        says=(
            "Answers from up to four policy versions train as well: after 512 answers, accuracy is at least 0.9 of that without weight changes in "
            "flight."
        ),
        source="arXiv:2509.19128, learning per sample like that of conventional RL; the size of the effect and the task are ours",
        against="pipeline_rl --rollout.parts 1",
        measure="accuracy",
        at_least=0.9,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
        budget="rollouts=512",
        problems=60,
        samples=2,
    ),
)
