"""REINFORCE++: no critic and no group. The return of every token, including a KL penalty, is normalised over the whole batch.

    r_t = 1{t = T} R - 0.01 (log pi_old(a_t) - log pi_ref(a_t))
    hat R_t = sum_(s >= t) r_s, quad A_t = (hat R_t - mean(hat R)) / (std(hat R))
    loss = mean over tokens of -min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.2) A_t)
    rho_t = (pi(a_t)) / (pi_old(a_t))

The answer of T tokens $a_t$ has the reward R. The KL penalty is the estimate $k_1$ of the KL from the sampling policy $pi_old$ to the model at the
start, $pi_ref$. So $hat R_t$ is R minus 0.01 times the sum of the penalties from token t on. The mean and the deviation are over all tokens of the batch.

One sample per problem suffices; more are allowed. A single sample hardly changes the mean and the deviation of a batch. But a single sample changes
the mean and the deviation of a group, so normalisation within groups is biased. If all rewards of a batch are equal, the advantages are the
normalised KL penalties alone. A batch is cut into 8 mini-batches. With a single mini-batch rho is 1, and the clip never acts.

The variant with a baseline needs k > 1 samples per problem. The variant subtracts the group's mean from the reward before the normalisation over the
batch, and moves the KL into the loss, as $k_2$: `--credit RewardToGo --credit.baseline group --objective.kl KL --objective.kl.estimator k2`.

Use if: a critic is too expensive, and only one answer per problem is affordable or each problem is seen only once.
Avoid if: the difficulty of problems varies widely. A baseline from answers to the same problem then lowers the variance (see rloo, grpo, or remax,
which needs one further answer).
Reference: Hu et al., REINFORCE++: Stabilizing Critic-Free Policy Optimization with Global Normalization, arXiv:2501.03262 (version 9). The standard
deviation is the population deviation, as in the released code. The coefficient 0.01 and the 8 mini-batches (1,024 answers, 128 per update) are the
defaults of the released code.
Departures: In the released code the deviation is at least 1e-4. The released script of the variant has one update per batch and a KL coefficient of
1e-5. The KL of the script is averaged over all tokens (`--objective.kl.coefficient 1e-5 --objective.kl.average TokenMean`). The command above keeps
the defaults of the KL term: coefficient 0.04 and the mean over each answer.
"""

from gradus.credit.kl_penalty import KLPenalty
from gradus.credit.reward_to_go import RewardToGo
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.types.players import Copy, Player

reinforce_plus_plus = reinforce.derive(
    "reinforce_plus_plus",
    "Returns with a KL penalty for every token, normalised over the whole batch instead of a critic; a clipped ratio.",
    credit=KLPenalty(rule=RewardToGo(), coefficient=0.01, estimator="k1"),
    objective__policy__trust=Clip(0.2, 0.2),
    objective__policy__average=TokenMean(),
    players__reference=Player(Copy("policy")),
    update__count=8,
)

claims = (
    Claim(
        says=(
            "With one answer per problem, where the group of GRPO is one answer without a gradient, accuracy after 12 steps is at least 0.05 above "
            "GRPO's."
        ),
        source="arXiv:2501.03262, algorithm with one answer per problem; the size of the effect and the task are ours",
        against="grpo",
        measure="accuracy",
        better_by=0.05,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "24", "group": "1", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=12",
        problems=60,
        samples=2,
    ),
)
