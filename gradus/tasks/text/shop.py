"""The task shop: predict the next action of a scripted shopper from a page and the goal."""

from __future__ import annotations

import json
import random
from typing import Any

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

COLOURS = ("red", "blue", "green", "black", "white", "grey")
THINGS = ("cap", "mug", "lamp", "sock", "bag", "ring", "fork", "vase")
SIZES = ("big", "small", "long", "short")
_TAIL = 400  # characters of a completion that are read


def shop(level: int = 2) -> Task:
    """Makes the task. At level 1 to 4, a page of results has one to four items, and the prompt names up to six items that the shopper looked at before. From
    level 3 on, items also have a size.

    On the page "home" the shopper searches. On a page of results, the shopper clicks the wanted item; if this item is missing, the shopper sorts by
    price. On the page of an item, the shopper buys the item if the price is within the budget, and leaves otherwise. An answer is a JSON object with
    a rationale and an action of the type click (with a name), type_and_submit (name and text) or terminate. `meta["action"]` has the right action.
    """
    return generated_task(
        "shop", _shop, verify, level=level, levels=(1, 4), max_tokens=130, chance=0.1,
        about='the next action of a shopper: "want red cap 9; item red cap 12" -> {"rationale":"...","action":{"type":"terminate"}}; level: items',
    )  # fmt: skip


def _shop(rng: random.Random, level: int) -> Draft:
    def item() -> str:
        return " ".join(([rng.choice(SIZES)] if level >= 3 else []) + [rng.choice(COLOURS), rng.choice(THINGS)])

    wanted, budget, kind = item(), rng.randint(5, 30), rng.choice(("home", "results", "item"))
    if kind == "home":
        seen, action, why = "home", {"type": "type_and_submit", "name": "search", "text": wanted}, "find it"
    elif kind == "results":
        shown = list(dict.fromkeys(item() for _ in range(level)))
        shown = shown if wanted in shown or rng.random() < 0.3 else [*shown[:-1], wanted]
        rng.shuffle(shown)
        seen, found = f"results {', '.join(shown)}", wanted in shown
        action, why = {"type": "click", "name": wanted if found else "sort by price"}, "seen" if found else "not seen"
    else:
        price = rng.randint(3, 34)
        seen, fits = f"item {wanted} {price}", price <= budget
        action, why = {"type": "click", "name": "buy now"} if fits else {"type": "terminate"}, "fits" if fits else "too much"
    answer = json.dumps({"rationale": why, "action": action}, separators=(",", ":"))
    earlier = [item() for _ in range(2 * (level - 1))]
    history = f"looked at {', '.join(earlier)}; " if earlier else ""
    question = f"want {wanted} {budget}; {history}{seen}"
    return Draft(question, answer, answer, question, Frozen(category=str(action["type"]), action=Frozen(action)))


def action_of(completion: str) -> dict[str, Any] | None:
    """Returns the action of the JSON object at the end of a completion; None if there is no such object, or if it has no rationale or no action.

    >>> action_of('{"rationale": "a", "action": {"type": "terminate"}}')
    {'type': 'terminate'}
    """
    text = completion[-_TAIL:]
    try:
        found = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except (ValueError, RecursionError):
        return None
    whole = isinstance(found, dict) and isinstance(found.get("rationale"), str) and isinstance(found.get("action"), dict)
    return found["action"] if whole else None


def verify(problem: Problem, completion: str) -> Outcome:
    """1.0 if the action equals the right action exactly, else 0.0."""
    tail = completion.rpartition("=")[2] if completion.lstrip().startswith("=") else completion
    return float(action_of(tail) == dict(problem.meta["action"]))
