"""The task orders: serve a customer of a shop. The wishes are hidden; the customer tells them in parts, and tools change the orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from gradus.environments.orders import DONE, Orders, Shop, customer, rows_of
from gradus.environments.scripted_user import LAST, ScriptedUser
from gradus.tasks.generated import Draft, Generated, Noted
from gradus.types import Frozen, Key, Sampling
from gradus.types.parts import Task

NAMES = ("ann", "bob", "cem", "dea", "eli", "fay", "gus", "ida", "jon", "kim", "leo", "mia")
ITEMS = ("cap", "cup", "bag", "fan", "hat", "jar", "kit", "mug", "pen", "rug")
COLOURS = ("red", "blue", "green", "pink", "grey")
LEVELS = (1, 3)  # fewest and most wishes of a customer
INSTRUCTION = "Write find: name, cancel: order, return: order, swap: order colour, price: item, or say: words"
Wish = tuple[str, str, str]
"""The kind of a wish (drop, swap, price), the item and the new colour."""


def orders(level: int = 1, instruction: bool = True, varied: bool = False) -> Task:
    """Makes the task: serve customers with `level` wishes, from 1 to 3. A customer gives a thing back, changes its colour, or asks for a price.

    The customer tells one or two details per message, and the name only if asked. Unwanted things are cancelled if they are new, and returned if they are
    sent. The reward is 1 if the final orders are right and the customer heard the prices. `instruction`: whether the prompt says how to write actions.
    `varied`: whether each dialogue about a problem has another customer, with other words in another order; else the problem decides.
    """
    source = Generated("orders", partial(make, instruction=instruction), level, LEVELS)
    return Task(
        "orders",
        replace(source, make=Noted(source.make, Frozen(practice=True))),
        replace(source, held_out=True),
        environment=Orders(varied=varied),
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about='serve a customer of a shop: "it is the cup" "say: name?" -> "cancel: k4"; a turn is a call or a message; level: wishes',
        sampling=Sampling(max_tokens=24),
        level=level,
        chance=0.0,
    )


def make(rng: Random, level: int, instruction: bool = True) -> Draft:
    """Draws the orders of three customers, and the wishes of one of them about different things."""
    owner, *others = rng.sample(NAMES, 3)
    items = rng.sample(ITEMS, 2 * level + 2)
    owners = [owner] * (level + 1) + [rng.choice(others) for _ in range(level + 1)]
    codes = [f"{letter}{digit}" for letter, digit in zip(rng.sample("bdfghkmp", len(items)), rng.choices("123456789", k=len(items)), strict=True)]
    listed = [
        (code, {"owner": who, "item": item, "colour": rng.choice(COLOURS), "state": rng.choice(("new", "sent"))})
        for code, who, item in zip(codes, owners, items, strict=True)
    ]
    start, wishes = dict(listed), list[Wish]()
    for code in rng.sample(codes[: level + 1], level):
        kind = rng.choice(("drop", "price") if start[code]["state"] == "sent" else ("drop", "swap", "price"))
        colour = rng.choice([c for c in COLOURS if c != start[code]["colour"]]) if kind == "swap" else ""
        wishes.append((kind, start[code]["item"], colour))
    table = dict(sorted(start.items()))
    prices = {item: rng.randint(11, 99) for item in items}
    calls, goal, outputs = served(table, prices, owner, wishes)
    slots: list[list[Any]] = [[((f"i am {owner}", f"{owner} here"), "name"), *wished(wishes[0])], *(wished(wish) for wish in wishes[1:])]
    told = tuple(tuple(part) for part in slots)
    user = rng.getrandbits(60)
    meta: dict[str, Any] = {
        "orders": rows_of(table), "prices": tuple(prices.items()), "goal": rows_of(goal), "outputs": outputs, "slots": told, "customer": owner, "user": user,
    }  # fmt: skip
    content = f"{owner} {wishes} {sorted((o['item'], o['colour'], o['state']) for o in table.values() if o['owner'] == owner)}"
    shown = talk(customer(told, Key(user)), Shop(table, prices), owner, calls)
    return Draft(INSTRUCTION if instruction else "shop", None, "\n".join(a for _, a in shown), content, Frozen({**meta, "demonstration": shown}))


def wished(wish: Wish) -> list[tuple[tuple[str, ...], None]]:
    """Returns the slots of a wish: the wordings of each detail."""
    kind, item, colour = wish
    forms = {"drop": ("take it back", "i do not want it"), "swap": ("change the colour", "another colour"), "price": ("the price please", "how much is it")}
    told = [forms[kind], (f"it is the {item}", f"about the {item}"), *([(f"in {colour}", f"make it {colour}")] if colour else [])]
    return [(one, None) for one in told]


def served(
    table: Mapping[str, Mapping[str, str]], prices: Mapping[str, int], owner: str, wishes: list[Wish]
) -> tuple[list[list[str]], dict[str, dict[str, str]], tuple[str, ...]]:
    """Returns the actions that fulfil each wish, the final orders, and the texts that the customer must hear."""
    shop, calls, outputs = Shop(table, prices), list[list[str]](), list[str]()
    for kind, item, colour in wishes:
        code = next(code for code, order in table.items() if order["owner"] == owner and order["item"] == item)
        if kind == "price":
            outputs.append(shop.price(item))
            calls.append([f"price: {item}", f"say: {outputs[-1]}"])
        elif kind == "swap":
            shop.swap(f"{code} {colour}")
            calls.append([f"swap: {code} {colour}"])
        else:
            verb, act = ("cancel", shop.cancel) if table[code]["state"] == "new" else ("return", shop.back)
            act(code)
            calls.append([f"{verb}: {code}"])
    return calls, shop.orders, tuple(outputs)


def talk(user: ScriptedUser, shop: Shop, owner: str, calls: list[list[str]]) -> list[tuple[str, str]]:
    """Plays the expert with a customer, the owner of the orders. Returns pairs (observation, action).

    The expert asks for the name, then for the details of each wish, and acts.
    """
    does = {"find": shop.call, "cancel": shop.cancel, "return": shop.back, "swap": shop.swap, "price": shop.price}
    pairs, seen, last = list[tuple[str, str]](), user.first, user.first

    def act(action: str) -> None:
        nonlocal seen, last
        pairs.append((seen, action))
        verb, _, text = action.partition(": ")
        seen = user.reply(text) if verb == "say" else does[verb](text)
        last = seen if verb == "say" else last

    act("say: name?")
    for number, actions in enumerate(calls):
        while any(user.waiting[: number + 1]):
            act("say: and?")
        for action in [f"find: {owner}", *actions] if number == 0 else actions:
            act(action)
        if number + 1 < len(calls) and not actions[-1].startswith("say:"):
            act("say: ok")
    while not last.endswith(LAST):
        act("say: and?")
    return [*pairs, (seen, f"say: {DONE}")]
