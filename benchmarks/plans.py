"""A task for start models of the two seats of a bargain with a strategist: each lesson is one seat of a whole episode.

The strategist of a lesson is an expert with some chance, else it draws its plans at random. The agent follows every plan.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from gradus.tasks.games.negotiation import LEVELS, PLANS, TURNS, follow, make
from gradus.tasks.games.negotiation_environment import Advised, Bargain, Negotiation
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Sampling
from gradus.types.parts import Task


def plans(level: int = 1, skill: float = 0.3) -> Task:
    """Makes the task. `skill`: the share of episodes with an expert, who asks for the cost and then bids kindly.

    The environment serves the evaluations alone, in which one player speaks without plans.
    """
    source = Generated("plans", partial(lesson, skill=skill), level, (min(LEVELS), max(LEVELS)))
    return Task(
        "plans", source, replace(source, held_out=True), environment=Negotiation(TURNS), provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="plans and utterances of a bargain with a strategist", sampling=Sampling(max_tokens=18), level=level, chance=0.0,
    )  # fmt: skip


def lesson(rng: Random, level: int, skill: float) -> Draft:
    """Draws an episode, and keeps the words of one seat."""
    made = make(rng, level)
    bargain = Bargain(made.meta["limit"], made.meta["cost"], made.meta["ask"], TURNS)
    episode, seat = Advised(bargain), rng.choice(("strategist", "agent"))
    expert = rng.random() < skill
    turn, pairs = episode.first, list[tuple[str, str]]()
    while not (turn.terminated or turn.truncated):
        if turn.player == "strategist":
            action = rng.choice(PLANS) if not expert else "bid kindly" if bargain.told else "ask kindly"
        else:
            action = follow(episode.plan, bargain.limit, bargain.cost if bargain.told else None)
        if turn.player == seat:
            pairs.append((str(turn.observation), action))
        turn = episode.play(action)
    return replace(made, solution="\n".join(said for _, said in pairs), meta=Frozen({**made.meta, "demonstration": pairs}))
