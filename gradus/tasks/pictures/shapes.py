"""Questions about a picture of coloured shapes: count, colour, shape, place, relation of two shapes; or a list of all shapes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen
from gradus.tasks.pictures.redrawn import redrawn
from gradus.tasks.pictures.scene import COLOURS, SHAPES, Item, drawn, scene
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.media import Media
from gradus.types.parts import Task

LEVELS = {1: (1, 3, 2, 3, 0), 2: (2, 5, 3, 4, 0), 3: (4, 7, 4, 5, 0), 4: (5, 9, 5, 6, 1), 5: (8, 13, 5, 6, 2)}
"""Level -> least and most shapes, kinds of shape, colours, pixels off the middle of the cell."""
KINDS = ("count", "colour", "shape", "place", "relation", "list")
MOST_CHARACTERS = 2000  # characters of a completion that are read, from its end


def shapes(level: int = 3, kinds: str = "count,colour,shape,place", bias: float = 0.0) -> Task:
    """Shapes on a grid of 4 x 4 at `level` 1 to 5, as a picture of 48 x 48 pixels. `kinds`: "all" or some of count, colour, shape, place, relation, list.

    `bias`: chance that a count or relation question is chosen to have the most usual answer ("1", "yes"). With a high `bias`, many guesses are right without a
    look at the picture.
    """
    if not 0 <= bias <= 1:
        raise UserError(f"task shapes: `bias` is {bias}; give a share, a number from 0 to 1")
    names = chosen("shapes", kinds, KINDS)
    most, of_shape, of_colour = LEVELS[level][1:4] if level in LEVELS else (7, 4, 5)
    chances = {"count": 0.3, "colour": 1 / of_colour, "shape": 1 / of_shape, "place": 1 / 16, "relation": 0.5, "list": 0.0}
    made = generated_task(
        "shapes",
        partial(draft, kinds=names, bias=bias),
        verify,
        level=level,
        levels=(min(LEVELS), max(LEVELS)),
        max_tokens=7 * most + 5,
        chance=sum(chances[name] for name in names) / len(names),
        about="questions about a picture of coloured shapes: count, colour, shape, place, relation, list",
        provides=("images",),
    )
    return replace(made, redraw=redrawn)


def draft(rng: Random, level: int, kinds: Sequence[str], bias: float = 0.0) -> Draft:
    """Draws a picture and a question about it. The content is the scene, so no held-out picture occurs in training."""
    items = scene(rng, *LEVELS[level])
    kind = rng.choice(kinds)
    question, answer, looked = asked(rng, kind, level, items, bias)
    content = " ".join(f"{item.entry} {item.moved[0]} {item.moved[1]}" for item in items)
    picture = Media("image", drawn(items))
    solution = answer if kind == "list" else f"see {_entered(looked)} = {answer}"
    return Draft(question, answer, solution, content, Frozen(category=kind, caption=_entered(items)), media=(picture,))


Asked = tuple[str, str, Sequence[Item]]
"""Question, answer, and the items that decide the answer."""


def asked(rng: Random, kind: str, level: int, items: Sequence[Item], bias: float = 0.0) -> Asked:
    """Returns a question of the given kind about a scene. If no shape is unique, a place question becomes a colour question."""
    item = rng.choice(items)
    if kind == "count":
        return _count(rng, level, items, bias)
    if kind == "colour":
        return f"what colour is in {item.place} ?", item.colour, (item,)
    if kind == "shape":
        return f"what shape is in {item.place} ?", item.shape, (item,)
    if kind == "place":
        single = _single(items)
        if not single:
            return f"what colour is in {item.place} ?", item.colour, (item,)
        item = rng.choice(single)
        return f"where is the {item.name} ?", item.place, (item,)
    if kind == "relation":
        return _relation(rng, level, items, bias)
    return "list all shapes", _entered(items), items


def _count(rng: Random, level: int, items: Sequence[Item], bias: float) -> Asked:
    """Asks how many items have a colour, a shape, or both. Without `bias`, every number that the scene allows has the same chance, including 0."""
    of_shape, of_colour = LEVELS[level][2:4]
    found: dict[int, list[tuple[str, str]]] = {}
    for colour in ("", *list(COLOURS)[:of_colour]):
        for shape in ("shape", *SHAPES[:of_shape]):
            if colour or shape != "shape":
                found.setdefault(len(_matching(items, colour, shape)), []).append((colour, shape))
    usual = bias and rng.random() < bias and 1 in found
    number = 1 if usual else rng.choice(sorted(found))
    colour, shape = rng.choice(found[number])
    return f"how many {f'{colour} {_plural(shape)}'.strip()} ?", str(number), _matching(items, colour, shape)


def _matching(items: Sequence[Item], colour: str, shape: str) -> list[Item]:
    """Returns the items of a colour ("" for any) and a shape ("shape" for any)."""
    return [i for i in items if colour in ("", i.colour) and shape in ("shape", i.shape)]


def _relation(rng: Random, level: int, items: Sequence[Item], bias: float) -> Asked:
    """Asks whether one item is above, below, left or right of another. Both items have a unique name.

    If fewer than two names are unique, the question is whether an item with some name exists. Without `bias`, "yes" and "no" have the same chance.
    """
    wanted = True if bias and rng.random() < bias else rng.random() < 0.5
    answer, single = "yes" if wanted else "no", _single(items)
    if len(single) < 2:
        of_shape, of_colour = LEVELS[level][2:4]
        there = sorted({i.name for i in items})
        others = [f"{c} {s}" for c in list(COLOURS)[:of_colour] for s in SHAPES[:of_shape] if f"{c} {s}" not in there]
        name = rng.choice(there if wanted else others)
        return f"is there a {name} ?", answer, [i for i in items if i.name == name]
    first, second = rng.sample(single, 2)
    ways = {
        "left of": first.column < second.column,
        "right of": first.column > second.column,
        "above": first.row < second.row,
        "below": first.row > second.row,
    }
    way = rng.choice([name for name, holds in ways.items() if holds == wanted])
    return f"is the {first.name} {way} the {second.name} ?", answer, (first, second)


def _single(items: Sequence[Item]) -> list[Item]:
    """Returns the items with a unique pair of colour and shape."""
    return [i for i in items if sum(j.name == i.name for j in items) == 1]


def _entered(items: Sequence[Item]) -> str:
    """Returns the items as the answer to "list all shapes"; "none" if there are no items."""
    return " , ".join(item.entry for item in items) or "none"


def _plural(shape: str) -> str:
    return f"{shape}es" if shape == "cross" else f"{shape}s"


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the text after the last "=" has exactly the words of the answer, in upper or lower case and with any spacing; else 0.0.

    Without "=", the whole completion is this text. For a list, the result is the number of right entries, divided by the length of the longer list (the answer
    or the completion).
    """
    said, right = _words(completion.rpartition("=")[2]), _words(str(problem.answer))
    if problem.meta.get("category") != "list":
        return float(said == right)
    found, due = (_entries(text) for text in (said, right))
    return len(found & due) / max(len(found), len(due), said.count(",") + 1)


def _words(text: str) -> str:
    """Words, numbers and signs in lower case with one space between them, without a full stop at the end."""
    return " ".join(re.findall(r"[a-z]+|[0-9]+|\S", text[-MOST_CHARACTERS:].lower())).removesuffix(" .")


def _entries(text: str) -> frozenset[str]:
    return frozenset(entry.strip() for entry in text.split(",") if entry.strip())
