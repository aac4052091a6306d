"""VAPO: PPO with a critic that is reliable for long answers. The critic is trained first and on full returns; lambda depends on the answer's length.

    lambda_i = max(0, 1 - 1/(0.05 l_i))
    A_(i,t) = sum_(k >= 0) lambda_i^k delta_(i,t+k), quad delta_t = r_t + V_(t+1) - V_t
    loss = mean over tokens of -min(rho A, clip(rho, 1 - 0.2, 1 + 0.28) A) - 0.1 mean over right tokens of log pi(a_t)
    hat R_t = sum_(s >= t) r_s

$l_i$ is the number of tokens of answer i. A is whitened over the batch, and rho is the token ratio to the sampling policy. The reward r comes at
the last token, and V is the critic's value. Right tokens are the tokens of right answers. The critic learns with the loss of the base, ppo. The returns $hat
R_t$ of this loss have lambda 1, so every return is the reward itself. The first 50 steps update the critic only and leave the policy
unchanged.

A critic that starts from a model's trunk is biased, and GAE spreads the bias to every token. With lambda below 1, the reward of a long answer decays
before it reaches the first tokens. This decay mainly harms the critic's targets. There is no KL term and no reference. Answers of up to 20 tokens
have lambda 0, so their advantages are the one-step errors delta. A mini-batch without a right answer has no imitation term.

Use if: answers are long chains of thought, a verifier judges them, and the memory is large enough for a critic.
Avoid if: answers are short (see ppo), or no memory or time is left for a critic (see dapo, grpo).
Reference: Yue et al. (ByteDance Seed), VAPO: Efficient and Reliable Reinforcement Learning for Advanced Reasoning Tasks, arXiv:2504.05118, section 4.
This section describes the pre-training of the critic for 50 steps, GAE with separate lambdas for policy and critic and with a lambda for each length (alpha
0.05), and the wider upper clip. It also has the mean over tokens, the loss on right answers (mu 0.1), and 16 mini-batches per batch.
Departures: Advantages are whitened and the value loss is clipped, as in the base. The critic has the policy's learning rate; the paper's critic has
twice this rate. The critic starts from the policy instead of a reward model.
"""

from gradus.credit.gae import GAE, LengthAdaptiveGAE
from gradus.objectives.imitation import ImitateRight
from gradus.objectives.trust import Clip
from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim
from gradus.schedules.warmup import Warmup
from gradus.updates.minibatches import Minibatches
from gradus.updates.only_players import OnlyPlayers

vapo = ppo.derive(
    "vapo",
    "A critic that is trained first and on full returns, a lambda for each answer length, a wider upper clip, and imitation of right answers.",
    credit=LengthAdaptiveGAE(alpha=0.05),
    objective__policy__trust=Clip(low=0.2, high=0.28),
    objective__imitation=ImitateRight(0.1),
    players__critic__credit=GAE(lam=1.0, whitened=False),
    players__reference=None,
    update=Minibatches(epochs=1, count=16),
    schedule=Warmup(50, OnlyPlayers(("critic",), update=None)),
)

claims = (
    Claim(
        says=(
            "A critic that is trained first has at the end of 20 steps an error at least a tenth below that of a critic that learns beside the "
            "policy."
        ),
        source=(
            "arXiv:2504.05118, value pre-training against the bias of a fresh critic, and its ablation; the size of the effect and the task are "
            "ours"
        ),
        against="vapo --schedule.steps 0",
        measure="critic/value_error:last",
        at_most=0.9,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
        own={"schedule.steps": "14"},
        budget="steps=20",
    ),
)
