"""Negotiation: buy a thing below a private limit from a seller with a hidden cost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.games.negotiation_environment import Bargain, Negotiation
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Sampling, UserError
from gradus.types.parts import Task

THINGS = ("lamp", "bike", "book", "coat", "drum", "fan", "hat", "kite", "mug", "pen", "rug", "vase")
LEVELS = {1: (3, 16, 4, 9), 2: (5, 30, 5, 12), 3: (10, 60, 6, 16), 4: (20, 90, 6, 20)}
"""Level -> lowest and highest cost, and smallest and largest gap between the first price and the cost."""
TURNS = 6


def negotiation(level: int = 1, skill: float = 1.0) -> Task:
    """Buy for as little as possible: the prices are up to 25 at `level` 1 and up to 110 at `level` 4. The first price is above the buyer's limit.

    Utterances: "offer 9", "deal" (at the asked price) and "why" (asks for the cost), each also with "please". A deal earns the buyer's share of the gain.
    `skill`: the share of the training problems that have an expert's demonstration. The expert asks for the cost, and buys at the cost. The other
    demonstrations draw their utterances and end with some gain. Raises: UserError for a share outside [0, 1].
    """
    if not 0 <= skill <= 1:
        raise UserError(f"task negotiation: `skill` is {skill}; give a share, a number from 0 to 1")
    source = Generated("negotiation", make, level, (min(LEVELS), max(LEVELS)))
    held_out = replace(source, held_out=True)
    source = source if skill == 1 else replace(source, make=partial(make, skill=skill))
    return Task(
        "negotiation",
        source,
        held_out,
        environment=Negotiation(TURNS),
        provides=frozenset({"demonstration", "solution", "difficulty", "limit", "cost", "ask"}),
        about='buy below a private limit: "lamp, limit 9" "12?" -> "please offer 6"; a turn is an utterance; level: prices',
        sampling=Sampling(max_tokens=18),
        level=level,
        chance=0.0,
    )


def make(rng: Random, level: int, *, skill: float = 1.0) -> Draft:
    """Draws a thing, the seller's cost and first price, and the buyer's limit between them."""
    low, high, least, most = LEVELS[level]
    cost, gap = rng.randint(low, high), rng.randint(least, most)
    ask, limit = cost + gap, cost + rng.randint(2, gap - 1)
    thing = rng.choice(THINGS)
    actions = expert(limit, cost, ask) if rng.random() < skill else []
    while not actions:
        actions = bargained(rng, limit, cost, ask)
    pairs = demonstrated(Bargain(limit, cost, ask, TURNS), actions)
    return Draft(
        question=f"{thing}, limit {limit}",
        answer=limit,
        solution="\n".join(actions),
        content=f"{thing} {limit} {cost} {ask}",
        meta=Frozen(question=f"{thing}, limit {limit}", values=(cost, ask), limit=limit, cost=cost, ask=ask, demonstration=pairs),
    )


def expert(limit: int, cost: int, ask: int) -> list[str]:
    """Asks for the cost, and then politely offers the cost until the seller accepts.

    >>> expert(9, 4, 10)
    ['please why', 'please offer 4', 'please offer 4', 'please offer 4']
    """
    episode, actions = Bargain(limit, cost, ask, TURNS), list[str]()
    while episode.price is None:
        actions.append(f"please offer {cost}" if actions else "please why")
        episode.play(actions[-1])
    return actions


def bargained(rng: Random, limit: int, cost: int, ask: int) -> list[str]:
    """Draws the utterances of a buyer of mixed skill. Returns an empty list if the utterances do not end with a deal below the limit."""
    episode, actions = Bargain(limit, cost, ask, TURNS), list[str]()
    for _ in range(TURNS):
        if not actions and rng.random() < 0.4:
            said = "why"
        elif episode.ask < limit and rng.random() < 0.4:
            said = "deal"
        else:
            said = f"offer {rng.randint(max(cost // 2, 1), max(min(episode.ask, limit) - 1, cost))}"
        actions.append(f"please {said}" if rng.random() < 0.4 else said)
        turn = episode.play(actions[-1])
        if turn.terminated:
            return actions if turn.reward > 0 else []
    return []
