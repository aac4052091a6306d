"""Texts for constraints: their words and lines, and changes that give a text a property."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

Lines = list[list[str]]
"""An unfinished text: the words of each line."""

Shape = Callable[[random.Random, Lines], Lines]

SIGNS = ".,;:!?\"'()[]{}<>*#-_/`~"
NUMBERED = re.compile(r"^[0-9]{1,4}\. ", re.MULTILINE)
LEXICON = tuple(
    re.findall(
        r"[a-z]+",
        "act age air ant apple arm art ash aunt bag ball bank bear bell bird boat body book bread bridge brush cake calm camp card cart cat "
        "chair child circle city clay clock cloud coat coin cold corn cup dance day deer desk dish dog door dream drum duck dust ear earth "
        "east edge egg elm end evening eye face farm father field fig fire fish flag floor flower fog foot forest fox friend frost fruit "
        "garden gate gift glass goat gold grain grass green guest hall hand harbor hat hill home honey horse hour house ice idea ink iron "
        "island ivy jar jewel job joy judge jump kettle key king kite knee knot lake lamp land leaf letter light lily lion map mark market "
        "meal milk mill moon morning mouse music nail name nest net night north nose note nut oak oar oat ocean oil old olive open orange "
        "owl paint paper path pear pen people piano plate pond queen quiet quill rain reed rice ring river road rock roof room root rope "
        "sail salt sand sea seed sheep ship silver sky snow song star stone storm street sugar summer sun table tea tent thread tiger town "
        "tower tree uncle under urn use valley vase vine voice wagon wall water wave wheel wind winter wolf wood yard year young zebra zero ",
    )
)


def words(text: str) -> list[str]:
    """Returns the words of a text, in lower case."""
    return [w for w in (token.strip(SIGNS).lower() for token in NUMBERED.sub("", text).split()) if w]


def lines(text: str) -> list[str]:
    """Returns the lines of a text that are not blank."""
    return [line for line in text.split("\n") if line.strip()]


def written(made: Lines) -> str:
    return "\n".join(" ".join(line) for line in made)


def each(change: Callable[[str], str]) -> Shape:
    return lambda rng, made: [[change(word) for word in line] for line in made]


def like(fits: Callable[[str, str], bool]) -> Shape:
    """Returns a shape. The shape draws all words again, but only from the words similar (`fits`) to one random word."""

    def shape(rng: random.Random, made: Lines) -> Lines:
        model = rng.choice(LEXICON)
        pool = [word for word in LEXICON if fits(word, model)]
        return [[rng.choice(pool) for _ in line] for line in made]

    return shape


def ordered(key: Callable[[str], Any]) -> Shape:
    def shape(rng: random.Random, made: Lines) -> Lines:
        flat = iter(sorted((word for line in made for word in line), key=key))
        return [[next(flat) for _ in line] for line in made]

    return shape


def somewhere(change: Callable[[random.Random, str], str], most: int = 3) -> Shape:
    """Returns a shape that changes from one to `most` random words."""

    def shape(rng: random.Random, made: Lines) -> Lines:
        places = [(i, j) for i, line in enumerate(made) for j in range(len(line))]
        hit = set(rng.sample(places, min(len(places), rng.randint(1, most))))
        return [[change(rng, word) if (i, j) in hit else word for j, word in enumerate(line)] for i, line in enumerate(made)]

    return shape


def last(sign: Callable[[random.Random], str]) -> Shape:
    return lambda rng, made: [*made[:-1], [*made[-1][:-1], made[-1][-1] + sign(rng)]]


def sentenced(rng: random.Random, made: Lines) -> Lines:
    """Puts a full stop after one or two random words and after the last word."""
    ended = last(lambda _: ".")(rng, made)
    return somewhere(lambda _, word: f"{word.rstrip('.')}.", 2)(rng, ended)


def twice(rng: random.Random, made: Lines) -> Lines:
    word = made[0][0]
    return somewhere(lambda _, w: word)(rng, made)


def framed(rng: random.Random, made: Lines) -> Lines:
    return [*made[:-1], [*made[-1][:-1], made[0][0]]]


def quoted(rng: random.Random, made: Lines) -> Lines:
    opened = [[f'"{made[0][0]}', *made[0][1:]], *made[1:]]
    return [*opened[:-1], [*opened[-1][:-1], f'{opened[-1][-1]}"']]
