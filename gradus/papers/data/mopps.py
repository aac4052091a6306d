"""MoPPS: predicts the success rate of every problem from earlier answers, and samples only problems with a predicted rate near one half.

    gamma_i ~ Beta(alpha_i, beta_i)
    B = the problems with the smallest |gamma_i - gamma^**| among the candidates
    alpha_i becomes lambda alpha_i + (1 - lambda) alpha_0 + s_i
    beta_i becomes lambda beta_i + (1 - lambda) beta_0 + G - s_i

Each problem i has a Beta posterior over its success rate, with the prior $alpha_0 = beta_0 = 1$. For a batch of |B| problems, 8 |B| candidates are
drawn without repetition, or the whole pool if it is smaller. A draw $gamma_i$ from each posterior predicts the success rate (Thompson sampling), and
the problems nearest to $gamma^**$ = 0.5 form the batch B. No answer is sampled for the other candidates. $s_i$ of the G answers to problem i are
right. These answers train the policy by GRPO, and they update the posterior, so the predictions cost no sampling.

A problem that was never sampled has a flat posterior, so it is tried with some probability. Old answers are forgotten (lambda = 0.5), because the
policy changes; with lambda = 1 all answers have the same weight. The posterior of a problem that is not sampled does not change. Another choice takes
problems at random among those with $gamma_i$ in [0.3, 0.7], and then the nearest others: `--curriculum.choice InBand`. Metrics: predicted_rate,
rank_correlation (Spearman's correlation of the posterior means with the shares of right answers in the step).

Use if: the same problems are drawn several times, many problems are always or never solved, and sampling is expensive.
Avoid if: every problem is new, because a memory of problems then predicts nothing (see sec for kinds of problems, online_difficulty_filtering).
Reference: Qu, Wang, Mao, Hu, Ommer & Ji, Can Prompt Difficulty be Online Predicted for Accelerating RL Finetuning of Reasoning Models?,
arXiv:2507.04632. The released scripts for Countdown and Geometry3k have 8 candidates per problem and lambda 0.5; the scripts for MATH have 16
candidates and lambda 1. In the released scripts a step has 256 problems (Geometry3k 512) with 8 answers each, in 2 to 4 updates. Geometry3k also has
a KL of 0.01 or 0.03. The recipe for the other data sets is `mopps.but(update__count=4, objective__policy__trust=Clip(0.2, 0.28),
objective__policy__average=TokenMean(), objective__kl=None, objective__entropy=EntropyBonus(0.001), players__reference=None)`.
Departures: If a task generates problems without end, the pool has 256 of them; this number is our choice. KL and one update per batch are as in grpo.
The rank correlation uses the means of the posteriors; in the released code it uses the draws. Only answers with a reward are counted; the code always
counts G answers. The optional prior from answers before training is left out.
"""

from gradus.curricula.rates import Nearest, Posterior, SuccessRates
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights

mopps = grpo.derive(
    "mopps",
    "A Beta posterior over the success rate of each problem predicts which problems are solved half of the time, before any sampling.",
    family="data",
    curriculum=SuccessRates(estimate=Posterior(alpha=1.0, beta=1.0), choice=Nearest(target=0.5), keep=0.5, factor=8),
)

claims = (
    same_weights(
        says="With one candidate per problem and no pool nothing is chosen, and the final weights are those of GRPO.",
        source="arXiv:2507.04632, uniform sampling as the limit of few candidates",
        against="grpo",
        own={"curriculum.factor": "1", "curriculum.pool": "none"},
    ),
    Claim(
        says=(
            "On 80 problems of which four of five are trivial or impossible, the mean share of groups with a gradient over 30 steps is at least 1.2 "
            "times that of passes over the same problems, with as many answers."
        ),
        source="arXiv:2507.04632, comparison with uniform sampling; the size of the effect, the ground and the pool are ours",
        against="mopps --curriculum.factor 1",
        measure="informative:mean",
        at_least=1.2,
        ground="ladder",
        fields={"prompts": "8", "eval_every": "0", "curriculum.pool": "80"},
        own={"curriculum.factor": "10"},
        budget="steps=30",
    ),
    Claim(
        says="On the same problems the predictions have a mean rank correlation of at least 0.4 with the shares of right answers, over 30 steps.",
        source="arXiv:2507.04632, figure 1 (rank correlation over training); the bound, the ground and the pool are ours",
        measure="rank_correlation:mean",
        better_by=0.4,
        ground="ladder",
        fields={"prompts": "8", "eval_every": "0", "curriculum.pool": "80"},
        own={"curriculum.factor": "10"},
        budget="steps=30",
    ),
)
