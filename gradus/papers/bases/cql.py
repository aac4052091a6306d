"""CQL: SAC on recorded transitions alone, with a term that lowers the values of actions that do not occur in the data.

    L = L_SAC + 5/2 sum_j [log int exp(Q_j(s, a)) d a - Q_j(s, a_data)]
    int exp(Q_j(s, a)) d a ~~ 1/12 sum_(i=1)^12 (exp(Q_j(s, a_i))) / (p(a_i))
    y = r + gamma (1 - done) min_j bar Q_j(s_(t+1), a_(t+1))

L is the loss of the critic, and $L_SAC$ the squared error of the heads $Q_j$ against the target y (see sac). In y, r is the reward, and $bar Q_j$ is
the slow copy of a head. The flag done is 1 at the end of an episode, else 0. $a_(t+1)$ is an action of the policy in the next state $s_(t+1)$. The first part
of the added term lowers the values of all actions, and lowers high values most. The second part raises the values of the recorded actions
$a_data$. So errors of Q do not lead the policy to actions without data. The integral is estimated with importance weights from 12 actions: 4 uniform
actions, 4 from $pi(* | s)$ and 4 from $pi(* | s_(t+1))$. $p(a_i)$ is the density from which $a_i$ is drawn. No gradient of the term reaches the
policy.

The policy never acts in the world during training: the task has recorded transitions (`Task.transitions`). Each training step has 50 rounds of
updates. The target y has no entropy term alpha log pi. The learning rate is 1e-4 for the policy and 3e-4 for the critic, as in the released code.

Use if: only recorded transitions exist, the policy cannot act in the world during training, and actions are real numbers.
Avoid if: the policy can act in the world, because its new turns then show which values of Q are wrong (see sac). To continue in the world after
training on records, see wsrl.
Reference: Kumar et al., Conservative Q-Learning for Offline Reinforcement Learning, arXiv:2006.04779, eq. 4 with R = H, appendix F (the fixed weight,
importance sampling). In the released code the weight of the term is 5, and the squared errors lack the factor 1/2 of eq. 4. If the squared errors
have this factor, the same weight is 5/2. For an action that is drawn in the next state, the released code and this recipe use its density in that
next state.
Departures: There are 4 actions of each kind, the weight is fixed, and the policy never learns by cloning. The released code draws 10 actions of each
kind. On MuJoCo the released code learns the weight by default (Lagrange, gap 5), and its policy learns by cloning for the first 40,000 updates. The
temperature of the released code has the loss log alpha (log pi + h), where h is the target entropy. So the factor in this loss is log alpha, not
alpha.
"""

from gradus.objectives.actor_critic import Conservative
from gradus.papers.bases.sac import sac
from gradus.recipe.claim import Claim
from gradus.rollouts.recorded import Recorded
from gradus.updates.optimizers import AdamW

CONSERVATIVE = Conservative(2.5, 4)

cql = sac.derive(
    "cql",
    "SAC on recorded transitions, with a term that lowers the values of actions that do not occur in the data.",
    rollout=Recorded(),
    selection__warmup=0,
    players__critic__objective__conservative=CONSERVATIVE,
    players__critic__credit__entropy=False,
    players__critic__optimizer=AdamW(lr=3e-4, clip=None),
    optimizer__lr=1e-4,
    requires=frozenset({"transitions"}),
)

claims = (
    Claim(
        says="The values that it gives to recorded transitions lie at least 1 below those of the same recipe without the added term.",
        source="arXiv:2006.04779, a lower bound of the values; the size of the effect and the task are ours",
        against="cql --players.critic.objective.conservative.weight 0",
        measure="critic/q:last",
        better_by=-1.0,
        task="pendulum",
        options={"recorded": "2000"},
        fields={
            "players.policy.model.hidden": "(64,64)",
            "players.critic.model.hidden": "(64,64)",
            "study": "none",
            "agreement.every": "0",
        },
        budget="steps=15",
    ),
)
