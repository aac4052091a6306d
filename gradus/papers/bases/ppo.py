"""PPO for language models: a critic gives every token an advantage, the ratio is clipped, and the reward includes a KL penalty.

    r_t = 1{t = T} R - 0.02 (log pi_old(a_t) - log pi_ref(a_t))
    delta_t = r_t + gamma V_(t+1)^old - V_t^old, quad A_t = sum_(k >= 0) (gamma lambda)^k delta_(t+k)
    loss = mean over tokens of -min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.2) A_t)
    rho_t = (pi(a_t)) / (pi_old(a_t))
    loss_V = mean over tokens of 1/2 max((V_t - hat R_t)^2, (V_t^old + clip(V_t - V_t^old, -0.2, 0.2) - hat R_t)^2)
    hat R_t = A_t + V_t^old

The answer of T tokens $a_t$ has the reward R. The KL penalty compares the sampling policy $pi_old$ with the start model $pi_ref$. $V_t$ is the
critic's value at token t; it is 0 after the last token. $V_t^old$ is the value before the update. gamma is 1, and lambda is 0.95. rho is the ratio to
$pi_old$. $A_t$ is whitened over all tokens of the batch for the policy's loss. The returns $hat R_t$ use $A_t$ before whitening.

The critic is a separate player: a copy of the policy's network with a scalar head, trained on the policy's trajectories. An update has four epochs
over the batch. An answer cut at its limit is treated as finished. If all advantages of a batch are equal, whitening makes them zero.

Use if: tokens or turns of one answer deserve different credit, groups of answers are too expensive, and the memory is large enough for a critic.
Avoid if: the reward comes only at the end and groups are affordable, so that no critic is needed (see grpo, rloo). If answers are long, the values of
a fresh critic are wrong (see vapo).
Reference: Schulman et al., Proximal Policy Optimization Algorithms, arXiv:1707.06347, eq. 7 and 9. GAE is eq. 16 of arXiv:1506.02438. The KL penalty
in the reward is eq. 2 of Ziegler et al., arXiv:1909.08593. The clip ranges, lambda, four epochs and whitening are also from this paper. The KL coefficient
0.02 and gamma 1 are from Ouyang et al., arXiv:2203.02155, appendix C.
Departures: The critic starts from the policy, because there is no reward model to start from. The critic has the policy's learning rate, and its
clipped loss follows the code released with PPO.
"""

from gradus.credit.gae import GAE
from gradus.credit.kl_penalty import KLPenalty
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import ValueLoss
from gradus.objectives.trust import Clip
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim
from gradus.types import Frozen
from gradus.types.players import Copy, Head, Player

ppo = reinforce.derive(
    "ppo",
    "A critic's advantage for every token, a clipped ratio over several epochs, and a KL penalty in the reward.",
    credit=KLPenalty(GAE(gamma=1.0, lam=0.95), 0.02, "k1"),
    objective__policy__trust=Clip(0.2, 0.2),
    objective__policy__average=TokenMean(),
    players__critic=Player(Head(of=Copy("policy")), objective=Frozen(value=ValueLoss(0.2)), learns_from="policy"),
    players__reference=Player(Copy("policy")),
    update__epochs=4,
)

claims = (
    Claim(
        says="If every batch is used for 16 updates at a high rate, accuracy at the end is at least 0.1 higher with the clip than without.",
        source="arXiv:1707.06347, table 1 (score 0.82 with the clip, -0.39 without clip or penalty); the size of the effect and the task are ours",
        against="ppo --objective.policy.trust Unclipped",
        measure="accuracy",
        better_by=0.1,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-3", "update.count": "4"},
        budget="steps=6",
        problems=60,
        samples=2,
    ),
)
