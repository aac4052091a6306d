"""Prolonged RL: keeps training useful for thousands of steps. A small KL term stays, and on stagnation the reference and the optimizer are reset.

    loss = 1/N sum_t [-min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.4) A_t) + beta k_3]
    A_i = (r_i - mean(r)) / (std(r))
    rho_t = (pi(a_t)) / (pi_old(a_t)), quad k_3 = pi_ref/pi - log (pi_ref/pi) - 1
    0 < accuracy(group) < 1
    pi_ref larr pi, quad m larr 0 "if the validation stagnates"

N counts the tokens of the mini-batch, and beta is 0.0001. The start is already a reasoning model, so the KL term preserves the entropy of the policy.
Methods that start from a base model leave the KL term out (see dapo). In a long run the KL term grows until it cancels the gradient of the reward.
Therefore there is a reset as soon as the held-out accuracy has not risen by more than 0.01 in three evaluations: the reference becomes the current
policy, and the optimizer forgets its moments m. The policy's weights stay unchanged. Right after a reset the KL term and its gradient are 0. Metrics:
kl, event/copy_weights/reference.

Answers are sampled at temperature 1.2, and each batch is cut into 4 mini-batches. Only groups with right and wrong answers are used for training; the
rollout continues to sample until the step is full. The paper has 16 answers to each of 256 prompts.

Several domains are a mixed task, such as `--task arithmetic:1,string_ops:1,knights_knaves:1`. Each problem of the mixture has a task, and the
verifier of this task judges its answers. A verdict may be a share, such as the share of passed tests (`--task code --task.reward share`) or of
fulfilled constraints.

Use if: training is so long that the policy moves far from its start, and the entropy must not collapse.
Avoid if: the run is short, because the term with beta 0.0001 then has no visible effect, and no evaluation stagnates (see dapo).
Reference: Liu et al., Scaling Up RL: Unlocking Diverse Reasoning in LLMs via Prolonged Training, arXiv:2507.12507: clip 0.2 and 0.4, temperature
1.2, beta 0.0001, 8 stretches between resets by hand. The weights are public; no training code was found.
Departures: A rule causes the resets, with numbers chosen here. In the paper people decide on a reset when the validation stagnates or falls. Between
two periods of training, the authors add data and a penalty for answers whose thinking has no end; at the end they double the limit of tokens
(`--max_tokens`). The reward is the verdict, without the penalty of dapo for long answers. The standard deviation is the population deviation, as in
dapo.
"""

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.kl import KL
from gradus.objectives.trust import Clip
from gradus.papers.bases.dapo import dapo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.verified import Verified
from gradus.schedules.plateau import OnPlateau
from gradus.types.players import Copy, Player

scaling_up_rl_prolonged = dapo.derive(
    "scaling_up_rl_prolonged",
    "A small KL term stays; if the held-out accuracy stagnates, the reference becomes the policy and the optimizer forgets its moments.",
    family="objectives",
    objective__policy__trust=Clip(low=0.2, high=0.4),
    objective__kl=KL(0.0001, average=TokenMean()),
    players__reference=Player(Copy("policy")),
    reward=Verified(),
    schedule=OnPlateau("held_out/accuracy", evaluations=3),
    update__count=4,
    setting__temperature=1.2,
)

claims = (
    same_weights(
        says="If no evaluation can cause a reset, the final weights are those of the same run without the schedule.",
        source="arXiv:2507.12507, a single stretch",
        against="scaling_up_rl_prolonged --schedule ConstantSchedule",
        own={"schedule.evaluations": "1000"},
        fields={"prompts": "4", "group": "4", "eval_every": "1", "study.problems": "4"},
    ),
    Claim(
        says="With a KL coefficient at which training stagnates, the accuracy at the end is at least 1.05 times that without resets.",
        source="arXiv:2507.12507, reset of the reference; the coefficient 1, the task and the factor are ours",
        against="scaling_up_rl_prolonged --schedule ConstantSchedule",
        own={"schedule.evaluations": "2"},
        measure="accuracy",
        at_least=1.05,
        task="arithmetic",
        options={"level": "2"},
        fields={
            "prompts": "8",
            "group": "8",
            "learning_rate": "3e-4",
            "warmup": "0",
            "objective.kl.coefficient": "1",
            "eval_every": "4",
            "study.problems": "32",
            "study.greedy": "false",
        },
        budget="steps=40",
    ),
)
