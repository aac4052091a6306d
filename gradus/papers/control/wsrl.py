"""WSRL: offline learning gives a policy and a Q-function; after a warm-up both are fine-tuned online, without the offline data.

    y = r + gamma (1 - done) min_(j in S) bar Q_j(s_(t+1), a_(t+1))
    loss_Q = sum_(j=1)^10 1/2 (Q_j(s_t, a_t) - y)^2
    loss_pi = alpha log pi(a | s_t) - min_j Q_j(s_t, a)

The formulas are the losses of SAC (see sac for the symbols), with ten heads $Q_j$ and without the entropy term of y. S is a set of 2 of the 10 target
heads $bar Q_j$, drawn again for every round; $a_(t+1)$ is drawn from pi. Three phases follow each other:

Offline: CQL (see cql) on the recorded transitions gives the policy $pi_0$, a pessimistic $Q_0$, the slow copy of $Q_0$, and the temperature.

Warm-up: only these weights are kept, and the buffer is empty. $pi_0$ acts, with sampled actions, for K = 5,000 turns, which are stored; no weight
changes.

Online: after each further turn there are four updates of the critic and one update of policy and temperature.

At the start of fine-tuning $Q_0$ is far too low in states that do not occur in the offline data. The targets y mix these low values with the values
of states in the data. So Q falls further and further, and the policy loses the skill of $pi_0$. The turns of the warm-up, which $pi_0$ plays, correct
Q before pi changes. All hidden layers have layer norm, in both stages, and both stages have ten heads. The offline stage can be Cal-QL, in which the
values of the policy's actions are at least the reward-to-go. The options of Cal-QL are
`--schedule.stages.offline.changes.players.critic.objective.conservative.floor to_go --schedule.stages.offline.changes.rollout.gamma 0.99`.

Use if: recorded transitions exist, the policy can also act in the world, and fine-tuning should not need the records.
Avoid if: the policy cannot act in the world (see cql), or no records exist (see sac).
Reference: Zhou et al., Efficient Online Reinforcement Learning Fine-Tuning Need Not Retain Offline Data, arXiv:2412.07762, section 5. The following
is as in the released code. The policy maximises the smallest value of the ten heads. The target leaves alpha log pi out. The target entropy is minus
the number of dimensions of an action; the configuration has 0, and the code replaces the 0 by this number. The end of an episode at the time limit
does not count as terminal. Learning rates are 1e-4 for policy and temperature and 3e-4 for the critic. The released code scales rewards alike in both
stages; this recipe does not scale rewards. In the offline stage the release has Cal-QL for sparse rewards (AntMaze, Adroit, Kitchen) and CQL for
dense rewards (locomotion), because the reward-to-go of dense rewards is hard to estimate. The pendulum's rewards are dense, so this recipe has CQL.
Departures: The two target heads of a round are always different heads. The policy is updated on the transitions of the critic's fourth update. The
conservative term reads all heads. A target uses one action $a_(t+1)$. The optimisers start again in the online stage; only the weights are kept.
There are 10,000 updates offline. All updates of a step come after its 50 turns. The release draws the two heads with replacement. In the release, the
four updates of the critic come first; one update of the policy then uses the transitions of all four. In the loss of the temperature the release
draws the action in $s_(t+1)$. The alpha of the release is the softplus of a learned number. The release keeps the moments of the optimisers. On
AntMaze the release draws 10 actions $a_(t+1)$ and takes the largest of their target values. The offline stage of the release also takes this largest
value. In this stage the conservative term reads 2 of the 10 heads, and there are 20,000 to 1,000,000 updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.bellman import ROWS, SoftBellman
from gradus.papers.bases.cql import CONSERVATIVE
from gradus.papers.bases.sac import sac
from gradus.recipe.claim import Claim
from gradus.rollouts.recorded import Recorded
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Group, Key, Trajectory
from gradus.types.control import QValues
from gradus.types.moments import Steps
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.updates.delayed import Delayed
from gradus.updates.minibatches import Minibatches
from gradus.updates.optimizers import AdamW


@dataclass(frozen=True)
class SomeHeads:
    """Shows `rule` only `heads` target heads, which are drawn again for every round (Chen et al., REDQ, arXiv:2101.05982)."""

    rule: SoftBellman = SoftBellman(entropy=False)
    heads: int = 2
    gives: ClassVar[frozenset[str]] = SoftBellman.gives
    asks: ClassVar[Frozen[str]] = ROWS

    def __post_init__(self) -> None:
        check_ranges(self, heads="[1, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        values = next(need for need in self.needs if isinstance(need, QValues))
        shown = {t.id: some_of(signals[values][t.id], self.heads, _key(t)) for g in groups for t in g.trajectories}
        return self.rule.assign(groups, {**signals, values: shown})


def some_of(values: np.ndarray, heads: int, key: Key) -> np.ndarray:
    """Returns the columns of `heads` heads [A, heads], in order. The key draws one set of heads for all rows; few heads are all returned."""
    return values[:, np.sort(key.permutation(values.shape[1])[:heads])]


def _key(trajectory: Trajectory) -> Key:
    return Key(int(trajectory.stream("key")[0])).fold("subset")


OFFLINE = Frozen(
    {
        "rollout": Recorded(),
        "update": Minibatches(),
        "players.critic.objective.conservative": CONSERVATIVE,
    }
)
"""The fields that differ in the offline stage: recorded rows, 50 rounds per step, updates of all players in every round, and the conservative term."""

wsrl = sac.derive(
    "wsrl",
    "CQL offline, a warm-up that only fills an empty buffer, then SAC with ten critics and four updates per turn, without the offline data.",
    family="control",
    players__policy__model__layer_norm=True,
    players__critic__model__heads=10,
    players__critic__model__layer_norm=True,
    players__critic__credit=SomeHeads(),
    players__critic__optimizer=AdamW(lr=3e-4, clip=None),
    optimizer__lr=1e-4,
    selection__per_row=4,
    selection__warmup=5000,
    update=Delayed(every=4),
    schedule=Stages(
        Frozen(
            offline=Stage(until=Steps(200), changes=OFFLINE),
            online=Stage(until=Steps(300), players=Frozen({name: f"offline.{name}" for name in ("critic", "target", "temperature")})),
        )
    ),
    requires=frozenset({"transitions"}),
)

claims = (
    Claim(
        says=(
            "In the first 2,000 turns of fine-tuning after CQL on recorded transitions, the mean return of an episode is at least 100 higher if "
            "1,000 turns without updates filled the buffer before (the pendulum: about -1,300 falling about, -150 solved)."
        ),
        source=(
            "arXiv:2412.07762, section 5 and the onset of fine-tuning in its figures; size and scale of the effect are ours, and smaller than the "
            "paper's 5,000 turns"
        ),
        against="wsrl --selection.warmup=0",
        measure="return of the episodes after the warm-up",
        better_by=100,
        task="pendulum",
        own={"selection.warmup": "1000"},
        budget="steps=100",
        seeds=2,
        script="benchmarks.wsrl",
    ),
)
