"""E3-RL4LLMs: gives hard problems more answers than easy problems, and steers the temperature so that the entropy of the first step is kept.

    n_q = n_min + floor((n B - n_min B) rank_q / (sum_j rank_j)) <= n_max
    n_min = max(n - u e, n_low), quad n_max = min(n + u e, n_high)
    tau_(s + 1) = tau_s (1 + tau_s (ln(d H_1 / H_s)) / (ln V + ln ln V))
    d = (1 - f) 1/2 (1 + cos(pi t)) + f

Problems are ranked by their shares of right answers over the run so far. $rank_q$ in [0, 1) is the share of all problems with a higher share of right
answers than q. A batch of B problems has n B answers, with n = 8. After e passes over the problems, each problem of the batch gets at least $n_min$
answers and at most $n_max$, with u = 2, $n_low$ = 4 and $n_high$ = 12. The remainder of the division goes to the problems with the highest ranks that
have fewer than $n_max$ answers. In the first pass all problems get n answers.

$H_s$ is the mean entropy of step s at its temperature $tau_s$, V the size of the vocabulary, and $tau_1 = 1$. If the entropy falls below the entropy
of the first step, the temperature rises. Sampling and log-probabilities use the same temperature. Over the last 40 % of the steps d falls from 1 to f
= 0.9 along a cosine; t in [0, 1] is the finished share of these last steps. Before them d is 1. Apart from this, the method is GRPO without a KL
term. Metrics: allotted_most (answers to one problem), entropy. The temperature of each step is stored with its answers.

Use if: problems differ in difficulty and come again, and the entropy of the policy collapses early.
Avoid if: no problem comes again, because a rank needs earlier answers to the same problem. If most hard problems are impossible, more answers to
them are wasted (see mopps).
Reference: Liao et al., Enhancing Efficiency and Exploration in Reinforcement Learning for LLMs, EMNLP 2025, arXiv:2505.18573. The released scripts
give n = 8, the bounds 4 and 12, u = 2, no KL, one update per batch of 64 problems and the annealing. The learning rate is 2e-6 for 7B and 5e-6 for
1.5B.
Departures: The ranks use all answers up to the step before; the paper sorts after each pass. Problems with equal shares have a common rank. The
released code limits only the surplus to $n_max$, so a batch with few hard problems can exceed $n_max$. The temperature stays in [0.1, 10], and an
entropy of 0 leaves it unchanged. The option `--schedule.vocabulary` sets V. The default is the size for the paper's models, so set the option for other
models. If a task generates problems without end, the pool has 256 of them. The code has an option that favours short answers to easy problems; this option is
left out.
"""

from gradus.curricula.allotment import ByRank
from gradus.curricula.rates import Mean, Nearest, SuccessRates
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.schedules.steady_entropy import SteadyEntropy

e3_rl4llms = grpo.derive(
    "e3_rl4llms",
    "Hard problems get more answers than easy problems, and the temperature keeps the entropy of the policy at its first value.",
    family="data",
    curriculum=SuccessRates(estimate=Mean(), choice=Nearest(), keep=1.0, factor=1, allot=ByRank(low=4, high=12, step=2)),
    schedule=SteadyEntropy(),
    setting__temperature=1.0,
    objective__kl=None,
    players__reference=None,
)

claims = (
    same_weights(
        says="With equal groups and a constant temperature the final weights are those of GRPO without a KL term.",
        source="arXiv:2505.18573, GRPO as the method without its two parts",
        against="grpo --objective.kl none --players.reference none --temperature 1.0",
        own={"schedule": "ConstantSchedule", "curriculum.allot": "none", "curriculum.pool": "none"},
    ),
    Claim(
        says="If problems have many right answers, the entropy in the last of 12 steps is at least 1.2 times that with a constant temperature.",
        source="arXiv:2505.18573, figure of the entropy; the ground, the rate and the size of the effect are ours",
        against="e3_rl4llms --schedule ConstantSchedule",
        measure="entropy:last",
        at_least=1.2,
        ground="many_ways",
        own={"schedule.vocabulary": "103"},
        fields={"eval_every": "0"},
    ),
)
