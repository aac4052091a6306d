"""A question is hidden in a long text, and a chain of keys leads to this question. Other chains lead to other questions. The text also has the facts for the
answer."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import hints, verify_exact
from gradus.types import Frozen, UserError
from gradus.types.parts import Task

_LEVELS = {  # chains, lines of a chain, hops of a question, characters of the text, characters of a key
    1: (1, 1, 1, 160, 4),
    2: (2, 1, 1, 320, 4),
    3: (2, 2, 2, 512, 4),
    4: (4, 3, 2, 1_024, 4),
    5: (4, 3, 3, 4_096, 8),
    6: (8, 4, 3, 16_384, 8),
}
_MOST = 4_000_000  # largest length of a text, in characters
_PEOPLE = (
    *("ada", "amy", "ann", "ben", "bob", "dan", "eva", "ian", "ida", "ivy", "jon", "kim"),
    *("leo", "liz", "max", "mia", "ned", "pam", "ray", "sam", "sue", "tom", "uma", "zoe"),
)
_LINKS = ("boss", "aunt", "friend", "nurse", "tutor")
_VALUES = {
    "home": ("oslo", "rome", "bern", "riga", "lima", "cork", "bari", "lyon", "york", "graz"),
    "pet": ("dog", "cat", "owl", "fox", "hen", "bat", "cow", "elk", "emu", "yak"),
    "dish": ("soup", "rice", "stew", "pie", "fish", "corn", "beans", "salad", "toast", "cake"),
}
_FILLER = (
    *("a lamp stands near the door.", "the river is quiet today.", "somebody carried bread home.", "old stones lie under grey clouds."),
    *("the salt is in a small box.", "they talked about boats by the fire.", "the road is long in winter.", "a letter came late."),
)


@dataclass(frozen=True)
class Asked:
    """A question with the facts that answer it. `people`: the persons of the chain, from the first to the last."""

    question: str
    facts: tuple[str, ...]
    people: tuple[str, ...]
    answer: str


def hidden_question(level: int = 2, chains: int = 0, depth: int = 0, length: int = 0) -> Task:
    """Hidden questions at `level` 1 to 6: from one chain of one line in 160 characters to eight chains of four lines in 16,384 characters.

    `chains`: number of chains, 1 to 8. `depth`: lines of a chain, 1 to 8; the last line of a chain has its question. `length`: characters of the whole text. If
    `chains`, `depth` or `length` is 0, the level decides the number. Raises: UserError for a number out of range, and for a length that is too short for the
    chains.
    """
    for name, value, most in (("chains", chains, 8), ("depth", depth, 8), ("length", length, _MOST)):
        if not 0 <= value <= most:
            raise UserError(f"task hidden_question: `{name}` is {value}; give 1 to {most}, or 0 for the usual number of the level")
    own = _LEVELS.get(level, _LEVELS[6])
    due, least = length or own[3], needed(chains or own[0], depth or own[1], own[2], own[4])
    if due < least:
        raise UserError(f"task hidden_question: `length` is {due}, which is too short for the chains and facts; give {least} or more, or give fewer chains")
    return generated_task(
        "hidden_question",
        partial(_hidden_question, chains=chains, depth=depth, length=length),
        verify_exact,
        level=level,
        levels=(1, 6),
        max_tokens=32 + (own[4] + 1) * (depth or own[1]) + 24 * own[2],
        chance=1 / (chains or own[0]) if (chains or own[0]) > 1 else 0.5,
        about='follow keys to a question, and answer it from the text: "... {"a1f3": "home of ann"} home of ann is oslo. ...; a1f3" -> '
        '"a1f3 home of ann=oslo"; level: chains, their length, hops, length of the text',
        provides=("hints",),
    )


def needed(chains: int, depth: int, hops: int, width: int) -> int:
    """Returns a number of characters that is enough for every text with these chains and facts."""
    question = len("home of ") + (hops - 1) * len("friend of ") + 3
    fact = len("friend of ada is toast.")
    return chains * ((depth - 1) * (2 * width + 9) + width + question + 9 + hops * (fact + 1)) + width + 2


def _hidden_question(rng: random.Random, level: int, chains: int, depth: int, length: int) -> Draft:
    own_chains, own_depth, hops, own_length, width = _LEVELS[level]
    chains, depth = chains or own_chains, depth or own_depth
    asked = _questions(rng, chains, hops)
    keys = _keys(rng, chains * depth, width)
    each = [keys[i * depth : (i + 1) * depth] for i in range(chains)]
    lines = [line for own, one in zip(each, asked, strict=True) for line in chain_lines(own, one.question)]
    facts = [fact for one in asked for fact in one.facts]
    told, true = rng.sample([*lines, *facts], len(lines) + len(facts)), asked[0]
    question = f"{_scattered(rng, told, (length or own_length) - width - 2)}; {each[0][0]}"
    walk = (*each[0], true.question)
    solution = f"{' '.join(walk)} {' '.join(true.people)}={true.answer}"
    planning = (f"look for {each[0][0]}", ", follow its chain to a question", ", then answer it")
    meta = Frozen(
        category=f"{hops} hops",
        hops=hops,
        asked=true.question,
        chains=tuple(tuple(own) for own in each),
        questions=tuple(one.question for one in asked),
        hints=hints(("a key leads to a key or to a question", ", the text has the facts"), planning, solution),
    )
    return Draft(question, true.answer, solution, f"{[one.question for one in asked]} {[one.answer for one in asked]} {sorted(facts)}", meta)


def chain_lines(keys: list[str], question: str) -> list[str]:
    """Returns the lines of a chain: each key leads to the next one, and the last key leads to the question.

    >>> chain_lines(["a1", "b2"], "home of ann")
    ['{"a1": "b2"}', '{"b2": "home of ann"}']
    """
    return [f'{{"{a}": "{b}"}}' for a, b in pairwise([*keys, question])]


def _questions(rng: random.Random, count: int, hops: int) -> list[Asked]:
    """Draws questions about different people with different answers."""
    people = rng.sample(_PEOPLE, count * hops)
    pairs = [(attribute, value) for attribute, values in _VALUES.items() for value in values]
    out = []
    for i, (attribute, answer) in enumerate(rng.sample(pairs, count)):
        way = people[i * hops : (i + 1) * hops]
        links = [rng.choice(_LINKS) for _ in way[1:]]
        facts = [f"{link} of {a} is {b}." for link, (a, b) in zip(links, pairwise(way), strict=True)]
        question = " of ".join([attribute, *reversed(links), way[0]])
        out.append(Asked(question, (*facts, f"{attribute} of {way[-1]} is {answer}."), tuple(way), answer))
    return out


def _keys(rng: random.Random, count: int, width: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choice("0123456789abcdef") for _ in range(width))] = None
    return list(found)


def _scattered(rng: random.Random, told: list[str], length: int) -> str:
    """Returns the pieces in one text of `length` characters, with sentences between them. If the pieces alone are longer, the text is longer."""
    pieces = list(told)
    left = length - len(" ".join(pieces))
    while left > max(map(len, _FILLER)) + 1:
        sentence = rng.choice(_FILLER)
        pieces.insert(rng.randint(0, len(pieces)), sentence)
        left -= len(sentence) + 1
    if left > 1:
        pieces.insert(rng.randint(0, len(pieces)), ("and so on " * left)[: left - 2].strip().ljust(left - 2, "n") + ".")
    return " ".join(pieces)
