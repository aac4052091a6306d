"""VAPO: PPO whose critic can be trusted on long answers: trained first, on whole returns, and read with a lam that fits each length.

Policy: A_t by GAE with lam = max(0, 1 - 1 / (0.05 l)), l the tokens of the answer, whitened over the batch;
loss = mean over tokens of -min(rho A, clip(rho, 1 - 0.2, 1 + 0.28) A) + 0.1 mean over the tokens of right answers of -log pi.
Critic: returns with lam = 1, the reward itself; loss as the base's. The first 50 steps move the critic alone, on a policy that stands still.

A critic that starts from a model's trunk is biased, and GAE carries the bias over every token; a lam below 1 lets the reward of a long
answer decay before it reaches the beginning, in the critic's targets most of all. There is no KL term and no reference. Answers of up to 20
tokens have lam 0, so their advantages rest on the critic alone. A mini-batch without a right answer has no imitation term.

Reference: Yue et al. (ByteDance Seed), VAPO: Efficient and Reliable Reinforcement Learning for Advanced Reasoning Tasks, arXiv:2504.05118,
section 4: value pre-training of 50 steps, decoupled and length-adaptive GAE (alpha 0.05), clip-higher, token mean, positive-example loss
(mu 0.1), 16 mini-batches a batch. Ours: advantages are whitened and the value loss clipped, as in the base; the critic has the policy's
learning rate (the paper: twice it), and starts from the policy in place of a reward model.
"""

from gradus.credit.gae import GAE, LengthAdaptiveGAE
from gradus.objectives.imitation import ImitateRight
from gradus.objectives.trust import Clip
from gradus.papers.bases.ppo import ppo
from gradus.schedules.warmup import Warmup
from gradus.updates.minibatches import Minibatches
from gradus.updates.only_players import OnlyPlayers

vapo = ppo.derive(
    "vapo",
    "A critic trained first and on whole returns, a lam that fits each answer's length, a wider upper clip, and imitation of right answers.",
    credit=LengthAdaptiveGAE(alpha=0.05),
    objective__policy__trust=Clip(low=0.2, high=0.28),
    objective__imitation=ImitateRight(0.1),
    players__critic__credit=GAE(lam=1.0, whitened=False),
    players__reference=None,
    update=Minibatches(epochs=1, count=16),
    schedule=Warmup(50, OnlyPlayers(("critic",), update=None)),
)
