"""GRPO: PPO's clipped ratio without a critic. The advantage is the reward standardised within the group, and a KL term limits drift.

    A_i = (r_i - mean(r)) / (std(r))
    loss = 1/G sum_i 1/|o_i| sum_t [-min(rho_(i,t) A_i, clip(rho_(i,t), 1 - epsilon, 1 + epsilon) A_i) + beta k_3]
    rho_(i,t) = (pi(o_(i,t))) / (pi_old(o_(i,t)))
    k_3 = pi_ref/pi - log (pi_ref/pi) - 1

The policy answers each problem G times; answer $o_i$ has reward $r_i$. All tokens of the answer get the advantage $A_i$. $pi_old$ is the sampling policy, and
$pi_ref$ is the model at the start. epsilon is 0.2, and beta is 0.04. A group with equal rewards and a group of one answer get advantage
0.

The paper makes one update per batch. The ratio is then 1 and the clip never acts; `--update.count` sets more updates per batch.

Use if: a verifier or a reward function judges answers, and for some problems the G answers of the model include both right and wrong answers. GRPO is
the usual first choice.
Avoid if: in nearly all groups all answers are right or all are wrong (see dapo, sec), or a batch is used for many updates (see expert_iteration,
gspo). If only a single answer per problem is affordable, see reinforce_plus_plus and remax.
Reference: Shao et al., DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models, arXiv:2402.03300, eq. 3 and 4. The clip
0.2 is PPO's. One update per batch and beta 0.04 are as in section 4.2.
Departures: The reference stays the start model; the paper renews the reference between its outer iterations. The deviation is the population deviation;
the paper does not say whether it takes the deviation of the population or of the sample.
"""

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.kl import KL
from gradus.objectives.trust import Clip
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.types.players import Copy, Player

grpo = reinforce.derive(
    "grpo",
    "PPO's clipped ratio with rewards standardised within the group instead of a critic, and a KL term.",
    credit=GroupRelative(),
    objective__policy__trust=Clip(0.2, 0.2),
    objective__policy__average=SequenceMean(),
    objective__kl=KL(0.04),
    players__reference=Player(Copy("policy")),
)

claims = (
    Claim(
        says="Without a critic a step generates, scores and trains on less than half of the tokens of PPO.",
        source="arXiv:2402.03300, section 4.1 (the value model is left out); the factor is ours",
        against="ppo",
        measure="tokens",
        at_most=0.5,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none"},
        budget="steps=2",
    ),
    Claim(
        says="Held-out accuracy rises by at least 0.2 over the start within 20 steps.",
        source="arXiv:2402.03300, abstract and results (GSM8K 82.9 to 88.2, MATH 46.8 to 51.7); the size of the effect and the task are ours",
        measure="held_out/accuracy:gain",
        better_by=0.2,
        task="arithmetic",
        options={"level": "2"},
        fields={
            "prompts": "8",
            "group": "8",
            "learning_rate": "3e-4",
            "warmup": "0",
            "eval_every": "0",
            "study.problems": "64",
            "study.greedy": "false",
        },
        budget="steps=20",
    ),
)
