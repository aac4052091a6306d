"""Negotiation: buy a thing below a private limit from a seller with a hidden cost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.games.negotiation_environment import POLITE, Advised, Bargain, Negotiation, understood
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Sampling, UserError
from gradus.types.parts import Task

THINGS = ("lamp", "bike", "book", "coat", "drum", "fan", "hat", "kite", "mug", "pen", "rug", "vase")
LEVELS = {1: (3, 16, 4, 9), 2: (5, 30, 5, 12), 3: (10, 60, 6, 16), 4: (20, 90, 6, 20)}
"""Level -> lowest and highest cost, and smallest and largest gap between the first price and the cost."""
TURNS = 6


def negotiation(level: int = 1, skill: float = 1.0, team: bool = False) -> Task:
    """Buy for as little as possible: the prices are up to 25 at `level` 1 and up to 110 at `level` 4. The first price is above the buyer's limit.

    Utterances: "offer 9", "deal" (at the asked price) and "why" (asks for the cost), each also with "please". A deal earns the buyer's share of the gain.
    `skill`: the share of the training problems that have an expert's demonstration. The expert asks for the cost, and buys at the cost. The other
    demonstrations draw their utterances and end with some gain. `team`: whether a strategist plans each utterance of an agent; then the demonstration has the
    plans and the utterances in turn. Raises: UserError for a share outside [0, 1].
    """
    if not 0 <= skill <= 1:
        raise UserError(f"task negotiation: `skill` is {skill}; give a share, a number from 0 to 1")
    source = Generated("negotiation", partial(make, team=True) if team else make, level, (min(LEVELS), max(LEVELS)))
    held_out = replace(source, held_out=True)
    source = source if skill == 1 else replace(source, make=partial(make, skill=skill, team=team))
    return Task(
        "negotiation",
        source,
        held_out,
        environment=Negotiation(TURNS, team),
        provides=frozenset({"demonstration", "solution", "difficulty", "limit", "cost", "ask"}),
        about='buy below a private limit: "lamp, limit 9" "12?" -> "please offer 6"; a turn is an utterance; level: prices',
        sampling=Sampling(max_tokens=18),
        level=level,
        chance=0.0,
    )


def make(rng: Random, level: int, *, skill: float = 1.0, team: bool = False) -> Draft:
    """Draws a thing, the seller's cost and first price, and the buyer's limit between them."""
    low, high, least, most = LEVELS[level]
    cost, gap = rng.randint(low, high), rng.randint(least, most)
    ask, limit = cost + gap, cost + rng.randint(2, gap - 1)
    thing = rng.choice(THINGS)
    actions = expert(limit, cost, ask) if rng.random() < skill else []
    while not actions:
        actions = bargained(rng, limit, cost, ask)
    bargain = Bargain(limit, cost, ask, TURNS)
    if team:
        actions = [word for said in actions for word in (plan_of(said), said)]
    pairs = demonstrated(Advised(bargain) if team else bargain, actions)
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


PLANS = ("ask", "ask kindly", "bid", "bid kindly", "deal")
"""The plans of a strategist that the agent of the demonstrations understands."""


def plan_of(said: str) -> str:
    """Returns the plan that an utterance follows.

    >>> plan_of("please offer 4"), plan_of("why")
    ('bid kindly', 'ask')
    """
    meaning = understood(said)
    plan = {"why": "ask", "offer": "bid"}.get(meaning.kind, "deal")
    return f"{plan} kindly" if meaning.polite and plan != "deal" else plan


def follow(plan: str, limit: int, cost: int | None) -> str:
    """Returns the utterance of an agent that follows a plan. A bid is the seller's cost if the cost is known, else the buyer's limit.

    >>> follow("bid kindly", 9, 4), follow("bid", 9, None), follow("ask", 9, None)
    ('please offer 4', 'offer 9', 'why')
    """
    verb, _, manner = plan.partition(" ")
    said = {"ask": "why", "bid": f"offer {limit if cost is None else cost}"}.get(verb, "deal")
    return f"{POLITE} {said}" if manner else said


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
