"""ReMA with separate weights: the meta-thinker and the reasoner are two policies, which learn alternately, each against the newest weights of the other.

    theta_h, theta_l = "the weights of the meta-thinker and of the reasoner"
    "step" s "updates" theta_h "if" floor(s / 10) mod 2 = 0, quad "else" theta_l

The meta-thinker leads and is the policy of the run; the reasoner follows and is the player `reasoner`. Each step plays whole dialogues of both agents.
For F = 10 steps only one agent learns, and the weights of the other agent do not change; then the agents swap. So the leader learns against a fixed follower,
and then the follower adapts to the current leader. Each agent learns by the loss of rema from its own turns.

Use if: planning and execution need different skills, and the memory is large enough for two policies.
Avoid if: data are few, because each step trains only one of the policies (see rema, which shares one policy).
Reference: Wan et al., ReMA: Learning to Meta-think for LLMs with Multi-Agent Reinforcement Learning, arXiv:2503.09501: bilevel training with
alternating agents. The period of 10 steps and the first agent are from the released trainer for separate weights (ziyuwan/ReMA-public).
Departures: The paper trains single-turn dialogues of separate agents with REINFORCE++; here the loss is as in rema. The team is as in rema.
"""

from gradus.papers.multi_agent.rema import rema
from gradus.recipe.claim import Claim
from gradus.schedules.taking_turns import TakingTurns
from gradus.types import Frozen
from gradus.types.players import Copy, Player
from gradus.updates.only_players import OnlyPlayers

rema_separate = rema.derive(
    "rema_separate",
    "The meta-thinker and the reasoner have separate weights; ten steps train one of them, the next ten steps the other.",
    family="multi_agent",
    rollout__play__roles=Frozen(checker="reasoner"),
    players__reasoner=Player(Copy("policy"), objective=rema.objective, credit=rema.credit),
    schedule=TakingTurns(("policy", "reasoner"), OnlyPlayers(update=None), steps=10),
)

_TEAM = {"prompts": "8", "group": "4", "learning_rate": "3e-4", "warmup": "0", "study": "none", "rollout.play.max_turns": "12"}

claims = (
    Claim(
        says="If the agents swap after every second step, the mean success over 8 steps is at least 0.03 above that with a reasoner frozen at its start.",
        source="arXiv:2503.09501, the ablation with one untrained agent; the period, the task and the size of the effect are ours",
        against="rema_separate --schedule.players policy",
        measure="accuracy:mean",
        better_by=0.03,
        task="sokoban",
        options={"team": "true"},
        fields=_TEAM,
        own={"schedule.steps": "2"},
        budget="steps=8",
    ),
)
