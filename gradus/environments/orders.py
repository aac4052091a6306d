"""The desk of a shop: the player calls tools on the orders of the shop, and talks with a customer whose wishes are hidden."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from gradus.environments.scripted_user import LEAVE, ScriptedUser, Slot, words
from gradus.environments.tools import ToolEpisode, Tools
from gradus.tools.forms import Answer, Form, LineCalls
from gradus.tools.tool import Result
from gradus.types import Frozen, Key, Problem
from gradus.types.parts import Turn, World
from gradus.types.ranges import check_ranges

Order = dict[str, str]
"""The fields of an order: owner, item, colour and state ("new", "sent", "cancelled" or "returned")."""
DONE = "done"
"""The word of the player that ends the dialogue."""
SLACK = (4, 8)
"""Least and most patience of a customer beyond the number of slots."""


FIELDS = ("owner", "item", "colour", "state")


def rows_of(table: Mapping[str, Mapping[str, str]]) -> tuple[tuple[str, ...], ...]:
    """Returns the orders as rows for `meta`: the code, and then the `FIELDS`."""
    return tuple((code, *(order[name] for name in FIELDS)) for code, order in table.items())


def table_of(rows: Sequence[Sequence[str]]) -> dict[str, Order]:
    """Returns the orders by code. This function inverts `rows_of`."""
    return {code: dict(zip(FIELDS, values, strict=True)) for code, *values in rows}


class Shop:
    """The data base of one episode. `call` and `on` return the text for the player, and raise ValueError for a call that is not possible."""

    def __init__(self, orders: Mapping[str, Mapping[str, str]], prices: Mapping[str, int]) -> None:
        self.orders: dict[str, Order] = {code: dict(order) for code, order in orders.items()}
        self.prices = dict(prices)

    def call(self, name: str) -> str:
        """Lists the orders of a customer."""
        mine = [f"{code} {o['item']} {o['colour']} {o['state']}" for code, o in self.orders.items() if o["owner"] == name.strip().lower()]
        return "; ".join(mine) or "no orders"

    def cancel(self, code: str) -> str:
        self._order(code, "new")["state"] = "cancelled"
        return "ok"

    def back(self, code: str) -> str:
        self._order(code, "sent")["state"] = "returned"
        return "ok"

    def swap(self, text: str) -> str:
        """Changes the colour of a new order. The text is the order and the colour."""
        code, _, colour = text.strip().partition(" ")
        order = self._order(code, "new")
        if not colour.strip():
            raise ValueError("no colour")
        order["colour"] = colour.strip().lower()
        return "ok"

    def price(self, item: str) -> str:
        found = self.prices.get(item.strip().lower())
        if found is None:
            raise ValueError("no such item")
        return str(found)

    def fork(self, key: Key) -> Shop:
        """Returns a copy of the data base."""
        return copy.deepcopy(self)

    def _order(self, code: str, state: str) -> Order:
        order = self.orders.get(code.strip().lower())
        if order is None:
            raise ValueError("no such order")
        if order["state"] != state:
            raise ValueError(f"the order is {order['state']}")
        return order


def text_schema(name: str, about: str) -> Frozen[Any]:
    """Returns the schema of a tool with one text."""
    return Frozen(type="object", properties={name: {"type": "string", "description": about}}, required=[name])


@dataclass(frozen=True)
class FindOrders:
    """A tool that lists the orders of a customer. The session is the episode's data base, made from `meta["orders"]` and `meta["prices"]`."""

    name: str = "find"
    about: ClassVar[str] = "Lists the orders of a customer."
    parameters: ClassVar[Mapping[str, Any]] = text_schema("name", "the first name of the customer")
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = True

    def open(self, problem: Problem, key: Key, world: World | None) -> Shop:
        return Shop(table_of(problem.meta["orders"]), dict(problem.meta["prices"]))


@dataclass(frozen=True)
class OnShop:
    """A tool that reads or changes the data base of `FindOrders`. `does` names the method of `Shop`."""

    name: str
    does: str
    about: str
    text: str  # the name of the argument
    shares: str = "find"
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = True

    @property
    def parameters(self) -> Mapping[str, Any]:
        return text_schema(self.text, f"the {self.text}")

    def open(self, problem: Problem, key: Key, world: World | None) -> OnSession:
        return self.on(FindOrders().open(problem, key, world))

    def on(self, session: Shop) -> OnSession:
        return OnSession(getattr(session, self.does))


@dataclass(frozen=True)
class OnSession:
    """The session of a tool that works in the data base."""

    method: Callable[[str], str]

    def call(self, *values: str, **arguments: str) -> Result:
        """Returns the answer of the data base, or the reason why the call is not possible."""
        try:
            return Result(self.method(*values, *arguments.values()))
        except ValueError as error:
            return Result(f"error: {error}", ok=False)


TOOLS = (
    FindOrders(),
    OnShop("cancel", "cancel", "Cancels a new order.", "order"),
    OnShop("return", "back", "Takes a sent order back.", "order"),
    OnShop("swap", "swap", "Changes the colour of a new order.", "change"),
    OnShop("price", "price", "Tells the price of an item.", "item"),
)


@dataclass(frozen=True)
class Orders:
    """A dialogue with a customer at the desk of a shop. An action is a call of a tool, or a message to the customer (the answer of `form`).

    The customer speaks first. The slots of the wishes are in `meta["slots"]`. The customer tells the name only if a message contains the word "name". The
    dialogue ends if a message contains the word "done", if the patience is over, or after `limit` actions. The reward is then 1 if the data base is
    equal to `meta["goal"]` and every text of `meta["outputs"]` occurs in a message of the player (without commas, in lower case), else 0. Each episode
    has its own data base.

    The key `meta["user"]` decides the order of the slots, the wordings and the patience. With `varied`, the key of the episode decides them, so each
    dialogue about a problem has another customer. With `open`, the customers of training problems tell everything in the first message, and the
    customers of held-out problems do not.
    """

    form: Form = LineCalls("say")
    limit: int = 30
    open: bool = False
    varied: bool = False
    forks: ClassVar[bool] = True
    tools: Tools = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)")
        object.__setattr__(self, "tools", Tools({tool.name: tool for tool in TOOLS}, form=self.form, limit=self.limit, describes=False))

    @property
    def stops(self) -> tuple[str, ...]:
        return self.tools.stops

    def start(self, problem: Problem, key: Key, world: World | None) -> AtDesk:
        return AtDesk(problem, key, world, self)


class AtDesk:
    """One episode with one customer and one data base."""

    def __init__(self, problem: Problem, key: Key, world: World | None, settings: Orders) -> None:
        self.problem, self.settings = problem, settings
        self.user = customer(problem.meta["slots"], key if settings.varied else Key(problem.meta["user"]), open=settings.open and bool(problem.meta.get("practice")))
        self.desk = ToolEpisode(problem, key, world, settings.tools)
        self.shop = FindOrders().open(problem, key, world)
        self.desk.opened[FindOrders().name] = self.shop
        self.said: tuple[str, ...] = ()  # messages to the customer
        self.turns = 0
        self.seen: tuple[str, ...] = (self.user.first,)
        self.first = Turn(self.user.first, state=self.user.first)

    def fork(self, key: Key) -> AtDesk:
        """Returns a copy in the same state."""
        made = copy.copy(self)
        made.user, made.desk = copy.deepcopy(self.user), self.desk.fork(key)
        made.shop = made.desk.opened[FindOrders().name]  # type: ignore[assignment]
        return made

    async def step(self, action: str) -> Turn:
        self.turns += 1
        said = self.settings.form.read(action, self.settings.tools.listed)
        if isinstance(said, Answer):
            return self._message(said.text)
        turn = await self.desk.step(action)
        return self._ended(replace(turn, truncated=False), over=False)

    def _message(self, text: str) -> Turn:
        self.said = (*self.said, text)
        reply = LEAVE if DONE in words(text) else self.user.reply(text)
        return self._ended(Turn(reply), over=reply == LEAVE)

    def _ended(self, turn: Turn, over: bool) -> Turn:
        """Returns the turn with the state, and with the reward if the dialogue is over."""
        self.seen = (*self.seen, str(turn.observation)) if turn.valid else self.seen
        cut = not over and self.turns >= self.settings.limit
        reward = self.outcome() if over or cut else 0.0
        return replace(turn, reward=reward, terminated=over, truncated=cut, state="\n".join(self.seen))

    def outcome(self) -> float:
        """Returns the reward: 1 if the final data base and the messages are right, else 0."""
        meta = self.problem.meta
        return float(self.shop.orders == table_of(meta["goal"]) and told(meta["outputs"], self.said))


def customer(slots: Sequence[Sequence[tuple[Sequence[str], str | None]]], key: Key, *, open: bool = False) -> ScriptedUser:
    """Returns a customer. The key decides the order of the slots, the wordings and the patience."""
    parts, rng = [[Slot(tuple(forms), asked) for forms, asked in part] for part in slots], key.fold("user").random()
    patience = sum(map(len, parts)) + rng.randint(*SLACK)
    return ScriptedUser(parts, rng, patience, open=open)


def told(outputs: Sequence[str], messages: Sequence[str]) -> bool:
    """Returns whether each required text occurs in a message. Upper case does not matter. Commas are left out of the messages only.

    >>> told(["1200"], ["it costs 1,200"]), told(["1,200"], ["it costs 1,200"]), told(["12"], ["hello"])
    (True, False, False)
    """
    return all(any(one.lower() in message.lower().replace(",", "") for message in messages) for one in outputs)
