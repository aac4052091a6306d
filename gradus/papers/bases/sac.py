"""SAC: an off-policy actor-critic method for worlds with real numbers as actions. The policy maximises reward plus entropy.

    y = r + gamma (1 - done) (min_j bar Q_j(s_(t+1), a_(t+1)) - alpha log pi(a_(t+1) | s_(t+1)))
    loss_Q = sum_j 1/2 (Q_j(s_t, a_t) - y)^2
    loss_pi = alpha log pi(a | s_t) - min_j Q_j(s_t, a), quad a = c + h tanh(mu + sigma e)
    loss_alpha = -alpha (log pi(a | s_t) - d)
    bar w becomes 0.995 bar w + 0.005 w

After every turn in the world, `per_row` rounds of updates follow. Each round draws 256 transitions $(s_t, a_t, r, s_(t+1), "done")$ from all
transitions so far, with repetition. The round takes the mean of each loss over these transitions, and updates critic, policy and temperature. The
action $a_(t+1)$ is drawn from $pi(* | s_(t+1))$. In the policy's action a, c is the middle of the action's range and h half of its width. The policy
gives the mean mu and the deviation sigma; e is normal noise, and the gradient flows through a. The symbol d is the number of dimensions of an action;
the target entropy is -d. The temperature alpha is learned as its logarithm, log alpha. $bar Q_j$, with weights $bar w$, is the slow copy of the
critic head $Q_j$, with weights w. The last line is applied after every round.

A truncated episode is not done, because its last state has a next state. There are two heads and two hidden layers of 256; gamma is 0.99, and the
learning rate 3e-4.

Use if: actions are real numbers, turns of the world are expensive, and old turns should be used many times.
Avoid if: actions are tokens of a language model (see ppo, grpo), or if there are recorded transitions but no world to act in (see cql). If there are
records and a world, see wsrl.
Reference: Haarnoja et al., Soft Actor-Critic, arXiv:1801.01290 (v1), and Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905 (this
form: two heads, no value network, learned temperature), algorithm 1 and table 1.
Departures: Densities are of actions in the world's units, and log deviations lie in [-5, 2], both as in CleanRL. All gradients of a round are
computed at the weights before the round (the paper updates the critic first). In a step of `length` turns the rounds come after the turns, not
between them. In the first 1,000 turns the fresh policy acts; in the released code these actions are uniform. Gradients are not clipped. The authors'
later code (softlearning) lets the policy maximise the mean of the two heads; its densities belong to actions scaled to [-1, 1].
"""

from gradus.credit.bellman import SoftBellman
from gradus.credit.groups import Constant
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.objectives.actor_critic import SoftPolicy, TDError, Temperature
from gradus.recipe.claim import Claim
from gradus.recipe.core import Recipe, Setting
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.lanes import Lanes
from gradus.schedules.constant import ConstantSchedule
from gradus.selection.transition_replay import TransitionReplay
from gradus.study.held_out import HeldOut
from gradus.types import Frozen
from gradus.types.players import Fresh, MovingAverage, Player
from gradus.updates.minibatches import Minibatches
from gradus.updates.optimizers import AdamW

sac = Recipe(
    key="sac",
    about="A policy maximises reward plus entropy on replayed transitions, with two critics and a learned temperature.",
    players=Frozen(
        policy=Player(Fresh(hidden=(256, 256))),
        critic=Player(
            Fresh(outputs="q", heads=2, hidden=(256, 256)), objective=Frozen(td=TDError()), credit=SoftBellman(), learns_from="policy"
        ),
        target=Player(MovingAverage(of="critic", decay=0.995)),
        temperature=Player(Fresh(outputs="number"), objective=Frozen(temperature=Temperature()), learns_from="policy"),
    ),
    curriculum=ShuffledEpochs(),
    rollout=Lanes(length=50),
    reward=EnvironmentReturn(),
    selection=TransitionReplay(warmup=1000),
    credit=Constant(),
    objective=Frozen(policy=SoftPolicy()),
    optimizer=AdamW(lr=3e-4, clip=None),
    update=Minibatches(),
    schedule=ConstantSchedule(),
    study=HeldOut(),
    setting=Setting(warmup=0, prompts=1, group=1),
)

claims = (
    Claim(
        says="The smaller of two heads as target keeps the estimates of Q at least 1 below those of a single head after 1,500 turns.",
        source="arXiv:1812.05905, two Q functions against positive bias; the size of the effect and the task are ours",
        against="sac --players.critic.model.heads 1",
        measure="critic/q:last",
        better_by=-1.0,
        task="pendulum",
        fields={
            "players.policy.model.hidden": "(64,64)",
            "players.critic.model.hidden": "(64,64)",
            "optimizer.lr": "1e-3",
            "selection.warmup": "500",
            "study": "none",
            "agreement.every": "0",
        },
        budget="steps=30",
    ),
)
