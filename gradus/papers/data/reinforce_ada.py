"""Reinforce-Ada: samples answers to a problem in rounds until some are right and some are wrong, then trains on a small balanced group of them.

    S_x = "all answers to problem x, at most N M"
    r_x = 1/|S_x| sum_(j in S_x) r_j
    A_i = r_i - r_x
    loss = -1/T sum_i sum_t min(rho_(i,t) A_i, clip(rho_(i,t), 0.8, 1.28) A_i) - 0.0001 H

In each of at most N = 4 rounds every open problem gets M = 8 further answers. A problem is closed once it has n/2 right and n/2 wrong answers.
Training uses n = 4 answers of the problem's pool $S_x$: the first n/2 right answers and the first n/2 wrong answers. If there are too few of one
kind, the other kind fills the group. The baseline $r_x$ is the mean reward of the whole pool, so it does not change with the choice of the n answers.
A pool of equal rewards has no gradient. T is the number of tokens of a mini-batch and H the mean entropy. There is no KL term and no division by the
deviation.

So the later rounds go to hard problems and to very easy problems. The variant "pos" closes a problem at its first right answer: `--rollout.rule.right 1
--rollout.rule.wrong 0`. A batch is cut into four mini-batches, so the clip acts from the second mini-batch on. Metrics: allotted (answers per
problem), allotted_most (to one problem), clip_share.

Use if: a verifier judges answers, updates are more expensive than sampling, and in many groups of a few answers all are right or all are wrong.
Avoid if: sampling is the bottleneck, because the choice of other problems costs less (see mopps, sec). If only unsolved problems are useful, the
variant "pos" samples less.
Reference: Xiong et al., Reinforce-Ada: An Adaptive Sampling Framework for Reinforce-Style LLM Training, arXiv:2510.04996v1, section 2.3 and algorithm
1. The released script gives n = 4, N = 4, M = 8, the bounds 0.2 and 0.28, and four updates per batch of 512 problems. The learning
rate of the script is 1e-6 after 10 steps of warm-up.
Departures: The verifier decides whether an answer is right. The released code asks for a reward above 0.7, and computes the baseline from the
verdicts instead of the rewards. The entropy bonus of 0.0001 is the paper's; the released script has 0. The released loss is also constant above ratio
10 if A < 0. Later versions of the paper weight problems by a function of their success rate; these weights are left out.
"""

from gradus.credit.groups import PoolBaseline
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import EntropyBonus
from gradus.objectives.trust import Clip
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.allot import Allot, UntilSignal
from gradus.selection.filters import Balanced

reinforce_ada = reinforce.derive(
    "reinforce_ada",
    "Sampling continues for each problem until it has right and wrong answers; training uses a small balanced group of these answers.",
    family="data",
    rollout=Allot(rule=UntilSignal(count=8), first=8, rounds=4),
    selection=Balanced(count=4),
    credit=PoolBaseline(),
    objective__policy__trust=Clip(low=0.2, high=0.28),
    objective__policy__average=TokenMean(),
    objective__entropy=EntropyBonus(0.0001),
    update__count=4,
)

claims = (
    same_weights(
        says="With a single round of four answers the final weights are those of a plain group of four with the group's mean as baseline.",
        source="arXiv:2510.04996, uniform sampling as the limit of one round",
        against="reinforce_ada --rollout Auto --selection Everything --credit GroupRelative --credit.scale none",
        own={"rollout.rounds": "1", "rollout.first": "4"},
    ),
    Claim(
        says=(
            "If four of five problems are trivial or impossible, the mean share of problems with right and wrong answers over 10 steps is at least "
            "1.3 times that of GRPO with groups of four."
        ),
        source="arXiv:2510.04996, section 1 (uniform groups come from few samples); the size of the effect and the ground are ours",
        against="grpo",
        measure="informative:mean",
        at_least=1.3,
        ground="ladder",
        fields={"prompts": "8", "group": "4", "eval_every": "0"},
        budget="steps=10",
    ),
    Claim(
        says=(
            "On the same problems, the accuracy on those of medium difficulty is after 20 updates of as many answers at least 0.02 above that of "
            "groups of four."
        ),
        source="arXiv:2510.04996, table 1 (1.1 to 3.6 points above GRPO at equal steps); the ground and the rate are ours",
        against="reinforce_ada --rollout Auto --selection Everything --credit GroupRelative --credit.scale none",
        measure="accuracy@middle",
        better_by=0.02,
        ground="ladder",
        fields={"learning_rate": "1e-3", "prompts": "8", "group": "4", "eval_every": "0"},
        budget="steps=20",
    ),
)
