"""BRIDGE: combines imitation and RL in every step, as a bilevel problem. Some weights learn how imitation must act so that it helps RL.

    max_w J_SFT(theta*, w), quad theta* = argmax_theta J_RL(theta, w)
    max_(theta, w) (1 - lambda) J_SFT(theta, w) + lambda [J_RL(theta, w) - max_theta' J_RL(theta', w)]

J_SFT is the mean log-likelihood of the worked solutions, J_RL the surrogate of GRPO. The first line is the bilevel problem; the second line replaces it by a
single problem with a penalty. The bracket is the gain over RL alone. The set theta has the lower weights, and the set w the upper weights. The player `alone`
has its own lower weights theta' and the same w, and learns by RL only. A step has three directions, all computed at the old weights:

    theta:  (1 - lambda) grad J_SFT(theta, w) + lambda grad J_RL(theta, w)
    theta': grad J_RL(theta', w)
    w:      (1 - lambda) grad J_SFT(theta, w) + lambda (grad J_RL(theta, w) - grad J_RL(theta', w))

lambda rises from 0.3 to 0.8. Policy and `alone` each sample their own answers, and a fifth of the policy's data are worked solutions of other
problems. Every 50 steps theta' gets the value of theta. With lambda = 1 and without upper weights, the method is GRPO; with lambda = 0 it is SFT.
While theta' equals theta, the RL parts of w nearly cancel.

Use if: worked solutions exist for a part of the problems, and RL after SFT loses the gain of SFT.
Avoid if: the memory is too small for a second model, or sampling is the bottleneck, because two players answer each problem (see chord, luffy).
Reference: Chen et al., Beyond Two-Stage Training: Cooperative SFT and RL for LLM Reasoning, arXiv:2509.06948 (the penalty, the three directions). We read
only the abstract of the paper and a summary, and found no public code.
Departures: The weights w are the attention weights of the model itself (`--update.upper`), not low-rank adapters. Both w and theta have the same
learning rate; in the paper the rates are 5e-6 and 5e-7. Our own choices are the course of lambda, the renewal of theta' and the gradients at the old
weights. J_SFT is a mean over tokens. The share of the solutions (a fifth) is our choice. The deviation of a group is the population deviation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from gradus.credit.groups import GroupRelative
from gradus.objectives.terms import Imitation, PolicyGradient
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.beside import Beside
from gradus.schedules.ramp import Ramp
from gradus.types import Frozen, Group, Key, Request, unknown
from gradus.types.batch import Batch
from gradus.types.parts import Rollout, Task, World
from gradus.types.players import Copy, Player
from gradus.types.ranges import check_ranges
from gradus.updates.minibatches import Minibatches, gradient


@dataclass(frozen=True)
class AlsoAlone:
    """Runs `rollout`, and lets `player` answer the same problems as often as the policy. `player` learns from its own groups, which are auxiliary
    groups."""

    rollout: Rollout = Beside()
    other: Rollout = Auto()  # samples the answers of `player`
    player: str = "alone"
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Whether the trajectories need judging."""
        return True

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout`, then one group of `player` per request."""
        groups = await rolled(self.rollout, requests, world)
        asked = [replace(r, player=self.player, tags=(*r.tags, "alone")) for r in requests]
        return [*groups, *(g.but(aside=True) for g in await rolled(self.other, asked, world))]


def upper_direction(imitation: Tensor, own: Tensor, alone: Tensor, *, lam: float) -> Tensor:
    """Returns the direction of the upper weights: (1 - lam) grad J_SFT + lam (grad J_RL of the policy - grad J_RL of the player alone)."""
    return (1 - lam) * imitation + lam * (own - alone)


@dataclass(frozen=True)
class Cooperative:
    """Moves the policy and the player `alone` once per batch. Parameters with `upper` in their names are common to both players, and move by
    `upper_direction`.

    lam is the coefficient of the policy's term `policy`. If one of the two players has no batch in a step, the step is a plain update.
    """

    upper: str = "attn"  # the names of the upper weights contain this text; if no name does, there are no upper weights
    alone: str = "alone"
    renew: int = 50  # after every `renew` steps, the player `alone` gets the policy's weights
    names_players: ClassVar[tuple[str, ...]] = ("alone",)

    def __post_init__(self) -> None:
        check_ranges(self, renew="[1, inf)")

    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Batch], step: int, key: Key) -> dict[str, float]:
        """Moves both players and returns the metrics. Raises UserError if there is no player `alone`."""
        if self.alone not in players:
            raise unknown("player", self.alone, players, "Cooperative moves this player; add it to players")
        policy, alone = players["policy"], players[self.alone]
        if step and step % self.renew == 0:
            alone.take(policy)
        if not all(name in batches and batches[name].actions for name in ("policy", self.alone)):
            return Minibatches().apply(players, batches, step, key)
        out = self._graded(policy, batches["policy"], key)
        out |= {f"{self.alone}/{name}": value for name, value in self._graded(alone, batches[self.alone], key).items()}
        self._cooperate(policy, alone)
        out |= policy.move(step)
        out |= {f"{self.alone}/{name}": value for name, value in alone.move(step).items()}
        with torch.no_grad():
            for mine, theirs in self._shared(policy, alone, masters=True):
                theirs.copy_(mine)
        return out

    def _graded(self, player: Any, batch: Batch, key: Key) -> dict[str, float]:
        """Computes the gradients of the player's objective and returns the metrics."""
        terms = player.spec.objective
        seen = player.fitting(batch.contexts, lambda tokens: gradient(player.policy, batch, terms, tokens, key), "train")
        return {name: tally.mean for name, tally in seen.items()}

    def _cooperate(self, policy: Any, alone: Any) -> None:
        """Subtracts lam times the gradient of the player `alone` from the policy's gradient, for the upper weights only. Then deletes the gradient of the
        player `alone`."""
        lam = policy.spec.objective["policy"].coefficient
        for mine, theirs in self._shared(policy, alone):
            if mine.grad is not None and theirs.grad is not None:
                mine.grad.sub_(theirs.grad, alpha=lam)
            theirs.grad = None

    def _shared(self, policy: Any, alone: Any, masters: bool = False) -> list[tuple[Tensor, Tensor]]:
        """Returns the pairs of upper weights of both players; with `masters`, also the pairs of their float32 copies."""
        pairs = []
        for mine, theirs in zip(policy.policy.network.named_parameters(), alone.policy.network.named_parameters(), strict=True):
            if self.upper and self.upper in mine[0]:
                pairs.append((mine[1], theirs[1]))
        if not masters or policy.masters is policy.parameters:
            return pairs
        wide = [{id(p): m for p, m in zip(x.parameters, x.masters, strict=True)} for x in (policy, alone)]
        return [*pairs, *((wide[0][id(a)], wide[1][id(b)]) for a, b in pairs if id(a) in wide[0] and id(b) in wide[1])]


bridge = grpo.derive(
    "bridge",
    "Imitation and RL in every step; the upper weights also learn to make joint training better than RL alone.",
    family="guidance",
    rollout=AlsoAlone(),
    objective__imitation=Imitation(),
    objective__kl=None,
    players__reference=None,
    players__alone=Player(Copy("policy"), objective=Frozen(policy=PolicyGradient()), credit=GroupRelative()),
    update=Cooperative(),
    schedule=Ramp("objective.policy.coefficient", ((0.0, 0.3), (1.0, 0.8)), over="progress", rest="objective.imitation.coefficient"),
    requires=frozenset({"solution"}),
)

claims = (
    same_weights(
        says="With lambda = 1, without upper weights and without solutions, the final weights of the policy are those of GRPO without a KL term.",
        source="arXiv:2509.06948, the direction of theta at lambda 1",
        against="grpo --objective.kl none --players.reference none",
        own={"schedule": "ConstantSchedule", "objective.imitation.coefficient": "0", "update.upper": "none_of_these", "rollout.rollout.share": "0"},
        within=1e-6,
    ),
    Claim(
        says="Where the policy almost never solves a problem, accuracy after 5 steps is at least 0.1 above that of GRPO.",
        source="arXiv:2509.06948, main results (above RL alone); the ground and the size of the effect are ours",
        against="grpo --objective.kl none --players.reference none",
        measure="accuracy",
        better_by=0.1,
        ground="weak_to_strong",
        seeds=3,
    ),
    Claim(
        says="On the same ground, accuracy is at least 0.02 above that of the same step without upper weights, which is joint training alone.",
        source="arXiv:2509.06948, ablation of the cooperative gain; the ground and the size of the effect are ours",
        against="bridge --update.upper none_of_these",
        measure="accuracy",
        better_by=0.02,
        ground="weak_to_strong",
        seeds=3,
    ),
)
