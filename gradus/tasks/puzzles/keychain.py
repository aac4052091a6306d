"""Chains of keys in a long text: pairs such as "q>d" are hidden among filler words; find the key that is reached after a number of hops."""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import hints, verify_exact
from gradus.types import Frozen, UserError
from gradus.types.parts import Task

_LEVELS = {  # pairs, hops, letters of a key, characters of filler
    1: (4, 1, 1, 0),
    2: (7, 2, 1, 0),
    3: (11, 3, 1, 0),
    4: (20, 3, 2, 400),
    5: (40, 4, 2, 2_000),
    6: (80, 6, 3, 8_000),
    7: (160, 8, 3, 32_000),
    8: (320, 12, 3, 128_000),
}
_MOST = 4_000_000  # largest length of filler, in characters
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_FILLER = (
    *("the", "lamp", "near", "door", "was", "quiet", "and", "a", "river", "ran", "past", "old", "stones", "while", "someone", "carried"),
    *("bread", "home", "under", "grey", "clouds", "though", "nobody", "had", "asked", "for", "it", "yet", "later", "on", "they", "sat"),
    *("down", "by", "fire", "talked", "about", "boats", "winters", "long", "roads", "price", "of", "salt"),
)


def keychain(level: int = 2, hops: int = 0, length: int = 0) -> Task:
    """Chains at `level` 1 to 8: from four pairs and one hop to 320 pairs and twelve hops in 128,000 characters of filler.

    `hops`: number of hops, 1 to 100; 0: the level's number. If the level has too few pairs for `hops`, the text gets as many pairs as needed.
    `length`: characters of filler; 0: the level's number. Raises: UserError if `hops` or `length` is out of range.
    """
    if not 0 <= hops <= 100:
        raise UserError(f"task keychain: `hops` is {hops}; give 1 to 100, or 0 for the usual number of hops of the level")
    if not 0 <= length <= _MOST:
        raise UserError(f"task keychain: `length` is {length}; give at most {_MOST} characters, or 0 for the usual length of the level")
    pairs, own, width, _ = _LEVELS.get(level, _LEVELS[8])
    reached = hops or own
    return generated_task(
        "keychain",
        partial(_keychain, hops=hops, length=length),
        verify_exact,
        level=level,
        levels=(1, 8),
        max_tokens=16 + (2 * (width + (reached > 20)) + 2) * reached,
        chance=1 / (max(pairs, reached) + 1 - reached) if reached < pairs else 0.5,  # a guess of the last key
        about='follow keys: "q>d f>q d>t;f 2" -> "f>q q>d=d" (from f, two hops); level: pairs, hops, and text around them',
        provides=("hints",),
    )


def _keychain(rng: random.Random, level: int, hops: int, length: int) -> Draft:
    pairs, own, width, filler = _LEVELS[level]
    hops, filler = hops or own, length or filler
    pairs = max(pairs, hops + 1)
    names = _names(rng, pairs + 1, max(width, 2 if pairs > 20 else 1))
    start = rng.randint(0, pairs - hops)
    links = [f"{a}>{b}" for a, b in pairwise(names)]
    order = rng.sample(range(pairs), pairs)
    told = [links[i] for i in order]
    question = f"{_scattered(rng, told, filler)};{names[start]} {hops}"
    answer = names[start + hops]
    walk = links[start : start + hops]
    solution = f"{' '.join(walk)}={answer}"
    planning = (f"look for {names[start]}>", ", then for the key behind it", f", {hops} times")
    meta = Frozen(
        category=f"{hops} hops",
        hops=hops,
        pairs=pairs,
        hints=hints(("a>b leads from a to b", ", the walk starts behind ;", ", its number of hops is last"), planning, solution),
    )
    # The content leaves names and filler out: the puzzle is the order of the links and the start of the walk.
    return Draft(question, answer, solution, f"{order} {start} {hops}", meta)


def _names(rng: random.Random, count: int, width: int) -> list[str]:
    """Returns different names of `width` letters. Names of two letters or more are not words of the filler."""
    found: dict[str, None] = {}
    while len(found) < count:
        name = "".join(rng.choice(_LETTERS) for _ in range(width))
        if name not in _FILLER or width == 1:
            found[name] = None
    return list(found)


def _scattered(rng: random.Random, told: list[str], filler: int) -> str:
    """Returns the links in one text, with about `filler` characters of words before, between and after them."""
    if not filler:
        return " ".join(told)
    total = sum(map(len, _FILLER)) / len(_FILLER) + 1
    words = rng.choices(_FILLER, k=round(filler / total))
    at = sorted(rng.randint(0, len(words)) for _ in told)
    pieces: list[str] = []
    before = 0
    for link, i in zip(told, at, strict=True):
        pieces += [*words[before:i], link]
        before = i
    return " ".join([*pieces, *words[before:]])
