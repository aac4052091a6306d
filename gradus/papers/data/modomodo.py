"""MoDoMoDo: fits the score of short runs as a quadratic function of their data mixture, and trains with the mixture of the highest predicted score.

    s(w) = c + b^T w + w^T Q w
    min_(c, b, Q) sum_j (s(w_j) - s_j)^2 + lambda (|b|^2 + |Q|^2)
    w^** = argmax_(w in Delta) s(w)

In a mixture w of K data sets, each problem of a batch comes from data set k with the chance $w_k$. Delta is the set of all mixtures.
Each data set has its own verifier. There are 2 K + 1 runs with these seed mixtures: all data sets with equal weights, each data set alone, and, for
each data set, all other data sets with equal weights. Run j ends with the score $s_j$, the mean accuracy on held-out sets. The fit is by least
squares with a small penalty, Q is symmetric, and $w^**$ is the mixture of the final run. The result can be added to the runs for another fit.

The command of run j has `--curriculum.weights` with $w_j$; `seed_mixtures(K)` of `gradus.curricula.surrogate` gives these numbers. In place of
`--curriculum.weights`, the final run has `--curriculum.trials` with the pairs $(w_j, s_j)$. Without both options the mixture is uniform. Apart from
this, the method is GRPO with 8 answers per problem. The function `held_out_error` of the same module gives the errors of the fit on runs that were
not used for the fit.
Metrics: arm/NAME, the share $w_k$ of each data set.

Use if: several data sets exist, they help or harm each other, and short runs predict long runs.
Avoid if: 2 K + 1 short runs cost too much (see sec, which adapts the mixture within one run), or one data set is enough.
Reference: Liang et al., MoDoMoDo: Multi-Domain Data Mixtures for Multimodal LLM Reinforcement Learning, arXiv:2505.24871. The paper has five data
sets of pictures with verifiers, seed mixtures, and the quadratic surrogate. No training code of the authors was found.
Departures: The penalty lambda = 0.001 and the search for the maximum are our choices. The search takes the best of 20,000 random mixtures and the
seed mixtures, then steps of projected gradient ascent. The paper also chooses mixtures without a fit, by the gain of single data sets; these rules
are absent. A data set is an arm of the task, such as a task of a mixture or one level of a generated task.
"""

from gradus.curricula.mixture import ByMixture
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights

modomodo = grpo.derive(
    "modomodo",
    "The problems of a batch come from several data sets in the mixture that a quadratic fit of earlier short runs predicts to be best.",
    family="data",
    curriculum=ByMixture(),
)

_TRIALS = (
    "(((1, 1, 1), 0.559), ((1, 0, 0), 0.555), ((0, 1, 0), 0.574), ((0, 0, 1), 0.465), ((0, 1, 1), 0.559), ((1, 0, 1), 0.547), ((1, 1, 0), 0.578))"
)

claims = (
    same_weights(
        says="Without weights and trials the final weights on questions about pictures are those of GRPO that draws two levels evenly.",
        source="arXiv:2505.24871, the uniform mixture; a bandit that never learns draws evenly",
        against="grpo --curriculum Bandit --curriculum.alpha 0 --curriculum.arms shapes/1,shapes/3",
        own={"curriculum.arms": "shapes/1,shapes/3"},
        task="shapes",
        fields={"prompts": "4", "group": "8", "study": "none"},
    ),
    Claim(
        says=(
            "On pictures of three levels as data sets, the mixture that the fit of seven seed runs predicts to be best reaches a held-out accuracy at "
            "level 3 that is at least 0.01 above that of the uniform mixture."
        ),
        source=(
            "arXiv:2505.24871, main results (5.24 % relative above the uniform mixture on average); task and size are ours. The trials are runs of the "
            "seven seed mixtures with seed 9 on the same terms, measured before this claim was written"
        ),
        against="modomodo",
        measure="held_out/accuracy:last",
        better_by=0.01,
        task="shapes",
        options={"level": "3", "kinds": "count,relation"},
        own={"curriculum.trials": _TRIALS},
        fields={
            "curriculum.arms": "shapes/1,shapes/3,shapes/5",
            "prompts": "8",
            "group": "8",
            "learning_rate": "3e-4",
            "warmup": "0",
            "eval_every": "0",
            "study.problems": "256",
            "study.greedy": "false",
        },
        budget="steps=20",
    ),
)
