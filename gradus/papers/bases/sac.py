"""SAC: off-policy actor and critic whose policy maximises reward plus entropy, for worlds with actions of real numbers.

After every step of the world, `per_row` rounds. Each draws 256 transitions (s, a, r, s', done) of all so far, with repetition, and moves

    critic       sum_j 1/2 (Q_j(s, a) - y)^2,  y = r + gamma (1 - done) (min_j Q'_j(s', a') - alpha log pi(a' | s')),  a' ~ pi(. | s')
    policy       alpha log pi(a | s) - min_j Q_j(s, a),  a = middle + half tanh(mean + deviation noise): the gradient goes through a
    temperature  -alpha (log pi(a | s) + least),  least = -(numbers of one action);  the player's number is log alpha
    target       w' <- 0.995 w' + 0.005 w, after every round

A truncated episode is not done: its last state has a next one. Two heads, two hidden layers of 256, gamma 0.99, learning rate 3e-4.

References: Haarnoja et al., Soft Actor-Critic, arXiv:1801.01290 (v1), and Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905
(this form: two heads, no value network, learned temperature), algorithm 1 and table 1.
The authors' later code (softlearning) lets the policy maximise the mean of the two heads; its densities are of actions scaled to [-1, 1].
Ours: densities are of actions in the world's units, and log deviations lie in [-5, 2], both as in CleanRL; all gradients of a round are taken
at its first weights (the paper moves the critic first); in a step of `length` turns the rounds come after the turns, not between them; the
first 1,000 turns act by the fresh policy (the release acts uniformly); gradients are not clipped.
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
