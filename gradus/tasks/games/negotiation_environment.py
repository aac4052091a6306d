"""A bargain over one thing. The policy buys; a scripted seller has a hidden cost, lowers the price for offers, and lowers the price more for polite
offers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradus.types import Key, Problem, UserError
from gradus.types.parts import Turn, World

TAIL = 60  # characters of an utterance that are read, from its end
POLITE = "please"
SEATS = ("strategist", "agent")
_OFFER = re.compile(r"\boffer ([0-9]{1,3})\b")


@dataclass(frozen=True)
class Utterance:
    """The meaning of an utterance for the seller."""

    kind: str  # "offer", "deal", "why", or "" if the seller understands nothing
    price: int = 0
    polite: bool = False


def understood(text: str) -> Utterance:
    """Returns the meaning of an utterance: an offer with a price, a deal at the asked price, or a question for the cost.

    >>> understood("please offer 9"), understood("Deal!").kind, understood("hm").kind
    (Utterance(kind='offer', price=9, polite=True), 'deal', '')
    """
    said = text[-TAIL:].lower()
    polite = re.search(rf"\b{POLITE}\b", said) is not None
    if found := _OFFER.search(said):
        return Utterance("offer", int(found[1]), polite)
    kind = next((word for word in ("deal", "why") if re.search(rf"\b{word}\b", said)), "")
    return Utterance(kind, 0, polite)


def step_of(gap: int, polite: bool) -> int:
    """Returns by how much the seller lowers the price after an offer."""
    return 1 + gap // 6 + int(polite)


def surplus(limit: int, cost: int, price: int) -> float:
    """Returns the buyer's share of the gain: 1 at the seller's cost, 0 at the buyer's limit or above.

    >>> surplus(14, 8, 11), surplus(14, 8, 15)
    (0.5, 0.0)
    """
    return min(max((limit - price) / (limit - cost), 0.0), 1.0)


@dataclass(frozen=True)
class Negotiation:
    """A bargain about `meta["limit"]` (the buyer's), `meta["cost"]` (hidden) and `meta["ask"]` (the seller's first price).

    The seller accepts an offer that is less than one step below the price. An offer below half of the cost changes nothing. Any other offer lowers the price
    by a step, but never below the cost + 1. The question "why" tells the cost. A deal ends the episode and earns `surplus`; without a deal the reward is 0.

    With `team`, the strategist sees the last utterance and the seller's answer, and writes a plan; the agent sees the seller's answer and the plan, and speaks.
    """

    limit: int = 6  # largest number of turns; then the episode is truncated
    team: bool = False  # whether a strategist writes a plan before every utterance of the agent

    @property
    def seats(self) -> tuple[str, ...]:
        """The seats that act, in order; ("policy",) without a team."""
        return SEATS if self.team else ("policy",)

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise UserError(f"negotiation: `limit` is {self.limit}; it must be 1 turn or more")

    def start(self, problem: Problem, key: Key, world: World) -> Bargain | Advised:
        limit, cost, ask = (int(problem.meta[name]) for name in ("limit", "cost", "ask"))
        bargain = Bargain(limit, cost, ask, self.limit)
        return Advised(bargain) if self.team else bargain

    def contributions(self, problem: Problem, utterances: Sequence[str]) -> dict[str, tuple[int, list[int]]]:
        """Returns, for each of three dimensions, the score of the dialogue (0 to 10) and the contribution of each utterance (0 to 3). Judges read these
        numbers.

        goal: the score is 10 times the buyer's share of the gain. An utterance gets 3 if it closes a deal with a gain, 2 if it is a polite offer that lowers
        the price, 1 if it is another offer that lowers the price, else 0. relationship: the score is 10 times the share of polite utterances. A polite
        utterance gets 3, a plain utterance 1, and an utterance that the seller refuses or does not understand 0. knowledge: the score is 10 if the buyer
        asked for the cost, else 0. The first such question gets 3, any other utterance 0.
        """
        _, _, answers = replayed(problem, utterances, self.limit)
        said = [understood(text) for text in utterances]
        asks = [int(problem.meta["ask"]), *(int(str(turn.observation).split()[-1].strip("?")) for turn in answers)]
        asked = next((i for i, meaning in enumerate(said) if meaning.kind == "why"), None)
        goal, relationship = list[int](), list[int]()
        for i, (meaning, turn) in enumerate(zip(said, answers, strict=True)):
            lowered = meaning.kind == "offer" and not turn.terminated and asks[i + 1] < asks[i]
            refused = not turn.valid or str(turn.observation).startswith("no")
            goal.append(3 if turn.reward > 0 else (1 + meaning.polite) * lowered)
            relationship.append(0 if refused else 3 if meaning.polite else 1)
        polite = sum(meaning.polite for meaning in said) / max(len(said), 1)
        return {
            "goal": (round(10 * max((turn.reward for turn in answers), default=0.0)), goal),
            "relationship": (round(10 * polite), relationship),
            "knowledge": (10 * (asked is not None), [3 * (i == asked) for i in range(len(said))]),
        }


class Bargain:
    """One episode with one seller."""

    def __init__(self, limit: int, cost: int, ask: int, turns: int) -> None:
        self.limit, self.cost, self.ask, self.left = limit, cost, ask, turns
        self.gap = ask - cost
        self.price: int | None = None  # the price of the deal; None: no deal yet
        self.told = False  # whether the buyer knows the cost
        self.first = Turn(f"{ask}?", state=self._state())

    def _state(self) -> str:
        """Returns the last price, whether it is agreed, and the cost if the seller told it."""
        price = self.ask if self.price is None else self.price
        return f"{price} {self.price is not None} {self.cost if self.told else ''}"

    async def step(self, action: str) -> Turn:
        return self.play(action)

    def play(self, action: str) -> Turn:
        """Returns the turn after an utterance. An utterance that the seller does not understand uses up a turn."""
        said = understood(action)
        self.left -= 1
        step = step_of(self.gap, said.polite)
        if said.kind == "deal" or (said.kind == "offer" and said.price > self.ask - step):
            self.price = self.ask if said.kind == "deal" else min(said.price, self.ask)
            return Turn(f"deal {self.price}", surplus(self.limit, self.cost, self.price), terminated=True, state=self._state())
        truncated = self.left == 0
        if said.kind == "why":
            self.told = True
            return Turn(f"cost {self.cost}; {self.ask}?", truncated=truncated, state=self._state())
        if said.kind == "offer" and 2 * said.price >= self.cost:
            self.ask = max(self.ask - step, self.cost + 1)
            return Turn(f"{self.ask}?", truncated=truncated, state=self._state())
        return Turn(f"no; {self.ask}?", truncated=truncated, valid=said.kind == "offer", state=self._state())


class Advised:
    """One episode with one seller, in which two seats buy: the strategist plans, and the agent speaks."""

    def __init__(self, bargain: Bargain) -> None:
        self.bargain, self.plan = bargain, ""
        self.seen = str(bargain.first.observation)  # the seller's last answer
        self.first = replace(bargain.first, player=SEATS[0])
        self.planned = False

    async def step(self, action: str) -> Turn:
        return self.play(action)

    def play(self, action: str) -> Turn:
        """Returns the turn after a plan of the strategist, or after an utterance of the agent."""
        self.planned = not self.planned
        if self.planned:
            self.plan = action[-TAIL:].strip()
            return Turn(f"{self.seen}\nplan: {self.plan}", player=SEATS[1], state=f"{self.seen} {self.plan}")
        turn = self.bargain.play(action)
        self.seen = str(turn.observation)
        return replace(turn, observation=f"{action[-TAIL:].strip()}\n{self.seen}", player=SEATS[0])


def replayed(problem: Problem, utterances: Sequence[str], turns: int = 6) -> tuple[Bargain, list[tuple[str, str]], list[Turn]]:
    """Plays a bargain with the given utterances. Returns the episode, (observation, utterance) of every turn, and the seller's answers."""
    limit, cost, ask = (int(problem.meta[name]) for name in ("limit", "cost", "ask"))
    episode = Bargain(limit, cost, ask, turns)
    seen, pairs, answers = str(episode.first.observation), list[tuple[str, str]](), list[Turn]()
    for text in utterances:
        pairs.append((seen, text))
        answers.append(episode.play(text))
        seen = str(answers[-1].observation)
    return episode, pairs, answers
