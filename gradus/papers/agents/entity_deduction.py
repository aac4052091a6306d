"""Entity deduction: a guesser finds a hidden item by yes/no questions, and earns more if it needs fewer turns.

    R = S (1 - 0.02 max(T - 5, 0))
    r_t = 1{t = n} R - 0.02 (log pi_old(a_t) - log pi_ref(a_t))
    loss = mean over tokens of -min(rho_t A_t, clip(rho_t, 1 - 0.2, 1 + 0.2) A_t)

A game has at most 20 turns. In each turn the guesser asks a question or names an item, and a judge that knows the item answers. S is 1 if the guesser names
the item, and 0 if not. T counts the turns of the game, including the final guess. The first 5 turns are free; after them each turn costs 0.02. A failed game
earns 0, however short it is. The reward belongs to the last of the n tokens of the guesser; the words of the judge have no loss.

Training has two phases. Behaviour cloning (recipe sft) trains the guesser on games of a stronger player. Then the guesser plays, and learns by PPO
with a critic. $pi_ref$ is the cloned model. Components of the reward: environment (S) and turns (T).

Use if: an agent works over several turns, success is clear, and a short episode is better than a long one.
Avoid if: the start never succeeds, because then no turn has a signal, or if each turn should have its own credit (see gem, gigpo).
Reference: Zhang et al., Probing the Multi-turn Planning Capabilities of LLMs via 20 Question Games, arXiv:2310.01468: the game, the score, behaviour
cloning, and reinforcement learning from game play with a reward at the end of the game.
Departures: The task is our choice: `twenty_questions` has 66 items, each with some of 18 attributes, and lists the candidates in the question. A
table answers in place of a language model. The table answers yes or no; if a question contains none of the attributes, the answer lists some
attributes. In this case the judge of the paper says "Maybe". A wrong guess ends the game; in the paper the game goes on. PPO is the base recipe; the
paper names no clip and no coefficient. The recipe is the second phase alone. The released code (apple/ml-entity-deduction-arena) plays games and
computes the score, but has no training. The function `reward` of this code counts one turn more than the evaluation of games; T is as in the
evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.papers.bases.ppo import ppo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.types import Frozen, Group
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def turn_score(success: float, turns: int, *, price: float, free: int) -> float:
    """Returns the score of a game: the success, lowered by `price` for each turn after the first `free` turns. The score is never below 0.

    >>> [round(turn_score(1.0, turns, price=0.02, free=5), 2) for turns in (1, 5, 12, 20)]
    [1.0, 1.0, 0.86, 0.7]
    """
    return success * max(0.0, 1 - price * max(turns - free, 0))


@dataclass(frozen=True)
class TurnScore:
    """The return of the episode times a factor that falls with the number of turns (see `turn_score`).

    The reward does not apply to a trajectory without an environment. Components: "environment" (the return without the factor) and "turns".
    """

    price: float = 0.02  # deduction per turn after the free turns
    free: int = 5  # number of turns at the start without a deduction
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, price="[0, 1]", free="[0, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        plain = await EnvironmentReturn().score(groups, signals, world)
        return [[self._judged(t.links.get("turns", 0), j) for t, j in zip(g.trajectories, row, strict=True)] for g, row in zip(groups, plain, strict=True)]

    def _judged(self, turns: int, plain: Judgement) -> Judgement:
        if not isinstance(plain.reward, int | float):
            return plain
        score = turn_score(plain.reward, turns, price=self.price, free=self.free)
        return replace(plain, reward=score, components=Frozen({**plain.components, "turns": float(turns)}))


entity_deduction = ppo.derive(
    "entity_deduction",
    "The guesser of a question game earns its success, lowered for every turn after the fifth.",
    family="agents",
    rollout=Episodes(max_turns=20),
    reward=TurnScore(),
)

_LAKE = {"prompts": "4", "group": "6", "warmup": "0", "study": "none", "reward.free": "1", "reward.price": "0.05"}

claims = (
    same_weights(
        says="Without a price of turns the final weights are those of PPO.",
        source="arXiv:2310.01468, the score; the limit is ours",
        against="ppo --rollout Episodes --reward EnvironmentReturn",
        own={"reward.price": "0"},
        task="twenty_questions",
        options={"level": "1"},
    ),
    Claim(
        says="PPO after cloning raises the mean score on held-out games by at least a tenth of the score of the cloned start.",
        source=(
            "arXiv:2310.01468, the gain of game play over cloning; the size of the effect is ours. The game is frozen_lake with a lower price from the "
            "second turn on: the built-in model was cloned from its solutions, and finds the items of twenty_questions only by chance"
        ),
        against="entity_deduction --setting.learning_rate 0",
        measure="reward",
        at_least=1.1,
        task="frozen_lake",
        options={"level": "3"},
        fields=_LAKE,
        own={"setting.learning_rate": "3e-4"},
        budget="steps=10",
        problems=64,
        samples=2,
    ),
)
