"""AT-GRPO with role-specialised policies: each role is a separate player, which is trained only on the messages of its role.

    loss_i = 1/N_i sum_k 1/|m_k| sum_j -min(rho_(k,j) A_k, clip(rho_(k,j), 1 - 0.2, 1 + 0.2) A_k)
    rho_(k,j) = (pi_i(m_(k,j))) / (pi_(i,old)(m_(k,j)))

$pi_i$ is the policy of role i. The sums are over the $N_i$ messages $m_k$ of that role in a mini-batch and their tokens $m_(k,j)$, with the
group-relative advantage $A_k$ of at_grpo. The planner is the policy; the checker is a player that starts as a copy of the policy. Each player learns
by the loss of AT-GRPO from its own groups, so no sample of one role reaches the policy of the other role. For other roles, set
`--rollout.play.roles ROLE=PLAYER` and add a player with this name.

Use if: the roles of a team need different skills, and the memory is large enough for a policy per role.
Avoid if: roles are alike or data are few, because one shared policy learns from the messages of all roles (see at_grpo).
Reference: Zhao et al., Stronger Together: On-Policy Reinforcement Learning for Collaborative LLMs, arXiv:2510.11062: the map from agents to policies,
and the update of each policy from its own samples after each batch.
Departures: The messages of each policy are cut into 32 mini-batches, as in at_grpo. In the released code a mini-batch has 16 messages, so each of two
policies has about half as many mini-batches.
"""

from gradus.papers.multi_agent.at_grpo import at_grpo
from gradus.recipe.claim import Claim
from gradus.types import Frozen
from gradus.types.players import Copy, Player

at_grpo_roles = at_grpo.derive(
    "at_grpo_roles",
    "The checker has a separate policy, trained on its own samples alone.",
    family="multi_agent",
    rollout__play__roles=Frozen(checker="checker"),
    players__checker=Player(Copy("policy"), objective=at_grpo.objective, credit=at_grpo.credit),
)

claims = (
    Claim(
        says="A policy for each role gives a mean success over 4 steps at least 0.02 above that of one policy for both.",
        source="arXiv:2510.11062, role-specialised against shared policies; the size of the effect and the task are ours",
        against="at_grpo",
        measure="accuracy:mean",
        better_by=0.02,
        task="sokoban",
        options={"team": "true"},
        fields={
            "prompts": "3",
            "group": "4",
            "learning_rate": "3e-4",
            "warmup": "0",
            "study": "none",
            "update.count": "4",
            "rollout.play.max_turns": "6",
        },
        budget="steps=4",
    ),
)
