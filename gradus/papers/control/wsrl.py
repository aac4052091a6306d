"""WSRL: a policy and a Q-function from offline learning are fine-tuned online without the offline data, after a warm-up.

    offline  `offline` steps of CQL on the recorded transitions: pi_0 and a pessimistic Q_0. Their optimisers are then forgotten.
    warm-up  the recorded rows leave the buffer; pi_0 acts (stochastically) for K = 5,000 turns, which are stored; nothing moves
    online   for each further turn four updates of the critic and one of policy and temperature, of ordinary SAC:
             y = r + gamma (1 - done) min over 2 of 10 target heads of Q'(s', a'), a' ~ pi;  policy: alpha log pi(a) - min_j Q_j(s, a)

At the start of fine-tuning Q_0 is far too low in states that the data do not have, and targets mix it with values of states that they have:
Q then falls in a spiral, and pi_0 is unlearned. A little data of pi_0 itself corrects Q before pi moves. Ten heads with layer norm.

Reference: Zhou et al., Efficient Online Reinforcement Learning Fine-Tuning Need Not Retain Offline Data, arXiv:2412.07762, section 5.
As in the released code: the policy maximises the least of all ten heads, the target leaves alpha log pi out, the target entropy is 0, time
limits are not terminal, rates 1e-4 for policy and temperature and 3e-4 for the critic. The release draws the two heads with replacement and
takes Cal-QL or CQL offline; it updates the policy on the rows of all four critic updates together. Ours: two different heads; CQL; the policy
moves on the rows of the fourth update; rounds come after the turns of a step. Rewards are not scaled: both stages see the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradus.objectives.actor_critic import Conservative, Temperature
from gradus.papers.bases.sac import sac
from gradus.rollouts.recorded import Recorded
from gradus.types.moments import Event, Moment, ResetOptimizer
from gradus.types.ranges import check_ranges
from gradus.updates.delayed import Delayed
from gradus.updates.minibatches import Minibatches
from gradus.updates.optimizers import AdamW

LEARNING = ("policy", "critic", "temperature")


@dataclass(frozen=True)
class OfflineFirst:
    """For the first `offline` steps CQL on the task's recorded transitions, then the recipe itself with fresh optimisers."""

    offline: int = 200  # steps of `selection.idle` rounds; 0: none
    weight: float = 5.0  # of the conservative term
    candidates: int = 4  # of its three kinds of actions each

    def __post_init__(self) -> None:
        check_ranges(self, offline="[0, inf)", weight="[0, inf)", candidates="[1, inf)")

    def sets(self, recipe: Any) -> tuple[tuple[str, Any], ...]:
        """The fields of the recipe that differ offline."""
        conservative = Conservative(self.weight, self.candidates)
        return (("rollout", Recorded()), ("update", Minibatches()), ("players.critic.objective.conservative", conservative))

    @property
    def causes(self) -> tuple[Event, ...]:
        return tuple(ResetOptimizer(name) for name in LEARNING)

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        if now.step < self.offline:
            return recipe.but(**dict(self.sets(recipe))), ()
        return recipe, self.causes if now.step == self.offline > 0 else ()


wsrl = sac.derive(
    "wsrl",
    "CQL offline, a warm-up that only fills an empty buffer, then SAC with ten critics and four updates a turn, without the offline data.",
    family="control",
    players__critic__model__heads=10,
    players__critic__model__layer_norm=True,
    players__critic__credit__subset=2,
    players__critic__credit__entropy=False,
    players__critic__optimizer=AdamW(lr=3e-4, clip=None),
    players__temperature__objective__temperature=Temperature(least=0.0),
    optimizer__lr=1e-4,
    selection__per_row=4,
    selection__idle=50,
    selection__warmup=5000,
    selection__keep_offline=False,
    update=Delayed(("policy", "temperature"), every=4, after="critic"),
    schedule=OfflineFirst(),
    requires=frozenset({"transitions"}),
)
