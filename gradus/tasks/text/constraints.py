"""Constraints on a text that can be checked exactly. Each constraint has a wording, a check, and a function that finds a fitting value for a given text.

A word is the text between two spaces without the signs around it. The number of a numbered line is not a word. Upper and lower case are
equal, except in constraints about case.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradus.tasks.text.texts import (
    LEXICON,
    NUMBERED,
    SIGNS,
    Shape,
    each,
    framed,
    last,
    like,
    lines,
    ordered,
    quoted,
    sentenced,
    somewhere,
    twice,
    words,
)
from gradus.types import Frozen


@dataclass(frozen=True)
class Constraint:
    """One kind of constraint.

    `value`: finds a value that a given text meets; None if there is no such value. `shape`: changes a text so that the text can meet this constraint.
    """

    code: str  # short form, with {} for the value
    sentence: str
    holds: Callable[[str, Any], bool]
    value: Callable[[random.Random, str], Any | None]
    shape: Shape | None = None
    group: str = ""  # a problem has at most one kind of each group; "": no group
    lines: bool = False  # whether the constraint is about lines; then the text needs several lines


def _initials(tokens: Sequence[str], at: int) -> str:
    return "".join(word[at] for word in tokens)


def _alphabetic(rng: random.Random, text: str, at: int) -> str | None:
    found = words(text)
    return _initials(found, at) if found and all(w.isalpha() for w in found) and len(found) <= 9 else None


def _pair(rng: random.Random, text: str) -> str | None:
    """Draws two words that each occur once in the text, in the order of the text."""
    once = [w for w in words(text) if words(text).count(w) == 1]
    if len(once) < 2:
        return None
    i, j = sorted(rng.sample(range(len(once)), 2))
    return f"{once[i]},{once[j]}"


def _in_order(text: str, value: str) -> bool:
    first, second = value.split(",")
    found = words(text)
    return first in found and second in found and found.index(first) < found.index(second)


def _nth(rng: random.Random, text: str) -> str | None:
    found = words(text)
    n = rng.randint(1, len(found))
    return f"{n},{found[n - 1]}"


def _is_nth(text: str, value: str) -> bool:
    n, word = value.split(",")
    return words(text)[int(n) - 1 : int(n)] == [word]


def _repeated(rng: random.Random, text: str) -> str | None:
    found = words(text)
    several = sorted({w for w in found if found.count(w) > 1})
    return f"{(word := rng.choice(several))},{found.count(word)}" if several else None


def _frequent(rng: random.Random, text: str) -> str | None:
    letters = sorted(set(text.lower()) & set("aeiourstnl"))
    return f"{(letter := rng.choice(letters))},{text.lower().count(letter)}" if letters else None


def _counted(count: Callable[[str], int], least: int = 1) -> Callable[[random.Random, str], int | None]:
    return lambda rng, text: n if (n := count(text)) >= least else None


def _flag(fits: Callable[[str], bool]) -> tuple[Callable[[str, Any], bool], Callable[[random.Random, str], Any | None]]:
    """Returns the functions (holds, value) of a constraint without a value."""
    return (lambda text, _: fits(text)), (lambda rng, text: "" if fits(text) else None)


def _one_of(items: Callable[[str], Sequence[str]]) -> Callable[[random.Random, str], str | None]:
    return lambda rng, text: rng.choice(found) if (found := items(text)) else None


def _times(pattern: str) -> Callable[[str], int]:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text: len(compiled.findall(text))


_BULLETS, _STEPS = _times(r"^- "), _times(r"^[0-9]{1,4}\. ")
_TAGS, _SLOTS, _STARS, _ASIDES = _times(r"#[a-zA-Z]+"), _times(r"\[[a-zA-Z]+\]"), _times(r"\*[a-zA-Z]+\*"), _times(r"\([a-zA-Z]+\)")
_SENTENCES, _NUMBERS = _times(r"[.!?](?=\s|\"?$)"), _times(r"(?<![a-zA-Z0-9])[0-9]+(?![a-zA-Z0-9])")


def _steps(text: str) -> int:
    """Returns the number of lines if the lines are numbered 1, 2, 3 and so on; else 0."""
    told = [line.split(". ")[0] for line in lines(text)]
    return len(told) if _STEPS(text) == len(told) and told == [str(i + 1) for i in range(len(told))] else 0


CONSTRAINTS: Mapping[str, Constraint] = Frozen(
    start=Constraint(
        "start:{}",
        "Every word starts with the letter {}.",
        lambda t, v: all(w.startswith(v) for w in words(t)),
        lambda rng, t: first if len(found := {w[0] for w in words(t)}) == 1 and (first := found.pop()).isalpha() else None,
        like(lambda word, model: word[0] == model[0]),
        "like",
    ),
    length=Constraint(
        "length:{}",
        "The length of every word, in letters: {}.",
        lambda t, v: all(len(w) == v for w in words(t)),
        lambda rng, t: found.pop() if len(found := {len(w) for w in words(t)}) == 1 else None,
        like(lambda word, model: len(word) == len(model)),
        "like",
    ),
    times=Constraint(
        "times:{}",
        'The word "{0}" stands there this many times: {1}.',
        lambda t, v: words(t).count(v.split(",")[0]) == int(v.split(",")[1]),
        _repeated,
        twice,
        "repeat",
    ),
    sorted=Constraint(
        "sorted", "The words stand in alphabetical order.", *_flag(lambda t: words(t) == sorted(words(t))), ordered(str), "order"
    ),
    rising=Constraint(
        "rising",
        "No word is shorter than the one before it.",
        *_flag(lambda t: list(map(len, words(t))) == sorted(map(len, words(t)))),
        ordered(len),
        "order",
    ),
    frame=Constraint("frame", "The first and the last word are the same.", *_flag(lambda t: words(t)[0] == words(t)[-1]), framed, "repeat"),
    upper=Constraint("upper", "Use capital letters only.", *_flag(lambda t: t == t.upper() != t.lower()), each(str.upper), "case"),
    lower=Constraint("lower", "Use no capital letters.", *_flag(lambda t: t == t.lower() != t.upper()), None, "case"),
    title=Constraint(
        "title",
        "Every word starts with a capital letter and has no other.",
        *_flag(lambda t: all(w == w[0].upper() + w[1:].lower() for w in (x.strip(SIGNS) for x in t.split()) if w)),
        each(str.capitalize),
        "case",
    ),
    number=Constraint(
        "number:{}",
        "The number {} stands there.",
        lambda t, v: v in words(t),
        _one_of(lambda t: [w for w in words(t) if w.isdigit()]),
        somewhere(lambda rng, _: str(rng.randint(2, 99)), 1),
        "digits",
    ),
    numbers=Constraint(
        "numbers:{}",
        "Numbers in digits: exactly {}.",
        lambda t, v: _NUMBERS(NUMBERED.sub("", t)) == v,
        _counted(lambda t: _NUMBERS(NUMBERED.sub("", t))),
        somewhere(lambda rng, _: str(rng.randint(2, 99))),
        "digits",
    ),
    tags=Constraint(
        "tags:{}",
        "Words with # before them: exactly {}.",
        lambda t, v: _TAGS(t) == v,
        _counted(_TAGS),
        somewhere(lambda _, w: f"#{w}"),
        "sign",
    ),
    slots=Constraint(
        "slots:{}",
        "Words in square brackets: exactly {}.",
        lambda t, v: _SLOTS(t) == v,
        _counted(_SLOTS),
        somewhere(lambda _, w: f"[{w}]"),
        "sign",
    ),
    stars=Constraint(
        "stars:{}",
        "Words between asterisks: exactly {}.",
        lambda t, v: _STARS(t) == v,
        _counted(_STARS),
        somewhere(lambda _, w: f"*{w}*"),
        "sign",
    ),
    asides=Constraint(
        "asides:{}",
        "Words in round brackets: exactly {}.",
        lambda t, v: _ASIDES(t) == v,
        _counted(_ASIDES),
        somewhere(lambda _, w: f"({w})"),
        "sign",
    ),
    commas=Constraint(
        "commas:{}",
        "Commas: exactly {}.",
        lambda t, v: t.count(",") == v,
        _counted(lambda t: t.count(",")),
        somewhere(lambda _, w: f"{w},"),
    ),
    sentences=Constraint(
        "sentences:{}",
        "Sentences: exactly {}, each with . or ! or ? at its end.",
        lambda t, v: _SENTENCES(NUMBERED.sub("", t)) == v and t.rstrip('"')[-1:] in tuple(".!?"),
        lambda rng, t: n if (n := _SENTENCES(NUMBERED.sub("", t))) and t.rstrip('"')[-1:] in tuple(".!?") else None,
        sentenced,
        "end",
    ),
    ends=Constraint(
        "ends:{}",
        "The last sign is {}",
        lambda t, v: t.endswith(v),
        lambda rng, t: t[-1] if t[-1] in "!?" else None,
        last(lambda rng: rng.choice("!?")),
        "end",
    ),
    quoted=Constraint(
        "quoted",
        'The whole text stands between two signs ", and there is no other.',
        *_flag(lambda t: len(t) > 2 and t[0] == t[-1] == '"' and t.count('"') == 2),
        quoted,
        "end",
    ),
    bullets=Constraint(
        "bullets:{}",
        'Each line starts with "- "; lines: exactly {}.',
        lambda t, v: _BULLETS(t) == v == len(lines(t)),
        lambda rng, t: n if (n := _BULLETS(t)) == len(lines(t)) else None,
        lambda rng, made: [["-", *line] for line in made],
        "list",
        True,
    ),
    steps=Constraint(
        "steps:{}",
        'The lines are numbered "1. ", "2. " and so on; lines: exactly {}.',
        lambda t, v: _steps(t) == v,
        _counted(_steps),
        lambda rng, made: [[f"{i + 1}.", *line] for i, line in enumerate(made)],
        "list",
        True,
    ),
    lines=Constraint(
        "lines:{}", "Lines: exactly {}.", lambda t, v: len(lines(t)) == v, _counted(lambda t: len(lines(t)), 2), None, "list", True
    ),
    down=Constraint(
        "down:{}",
        "The first letters of the lines, read downwards, are {}.",
        lambda t, v: _initials([words(line)[0] for line in lines(t) if words(line)], 0) == v,
        lambda rng, t: _initials([words(line)[0] for line in lines(t)], 0) if all(words(line) for line in lines(t)) else None,
        lines=True,
    ),
    words=Constraint("words:{}", "Words: exactly {}.", lambda t, v: len(words(t)) == v, _counted(lambda t: len(words(t))), None, "size"),
    over=Constraint(
        "words>{}",
        "Words: more than {}.",
        lambda t, v: len(words(t)) > v,
        lambda rng, t: len(words(t)) - rng.randint(1, 2),
        None,
        "size",
    ),
    under=Constraint(
        "words<{}",
        "Words: fewer than {}.",
        lambda t, v: len(words(t)) < v,
        lambda rng, t: len(words(t)) + rng.randint(1, 2),
        None,
        "size",
    ),
    short=Constraint(
        "chars<{}",
        "Characters, spaces among them: fewer than {}.",
        lambda t, v: len(t) < v,
        lambda rng, t: len(t) + rng.randint(1, 9),
    ),
    first=Constraint("first:{}", 'The first word is "{}".', lambda t, v: words(t)[:1] == [v], lambda rng, t: words(t)[0], None, "first"),
    last=Constraint("last:{}", 'The last word is "{}".', lambda t, v: words(t)[-1:] == [v], lambda rng, t: words(t)[-1]),
    nth=Constraint("nth:{}", 'Word number {0} is "{1}".', _is_nth, _nth),
    has=Constraint("has:{}", 'The word "{}" stands there.', lambda t, v: v in words(t), _one_of(words)),
    lacks=Constraint(
        "lacks:{}",
        'The word "{}" does not stand there.',
        lambda t, v: v not in words(t),
        lambda rng, t: rng.choice([w for w in LEXICON if w not in words(t)]),
    ),
    order=Constraint("order:{}", '"{0}" stands there before "{1}" does.', _in_order, _pair),
    no=Constraint(
        "no:{}",
        "The letter {} is not used.",
        lambda t, v: v not in t.lower(),
        _one_of(lambda t: [c for c in "aeiorstnldhc" if c not in t.lower()]),
    ),
    letter=Constraint(
        "letter:{}",
        "The letter {0} is used this many times: {1}.",
        lambda t, v: t.lower().count(v.split(",")[0]) == int(v.split(",")[1]),
        _frequent,
    ),
    initials=Constraint(
        "initials:{}",
        "The first letters of the words are {}, in this order.",
        lambda t, v: _initials(words(t), 0) == v,
        lambda rng, t: _alphabetic(rng, t, 0),
        None,
        "spelt",
    ),
    finals=Constraint(
        "finals:{}",
        "The last letters of the words are {}, in this order.",
        lambda t, v: _initials(words(t), -1) == v,
        lambda rng, t: _alphabetic(rng, t, -1),
        None,
        "spelt",
    ),
    most=Constraint(
        "most:{}",
        "The most letters that a word may have: {}.",
        lambda t, v: all(len(w) <= v for w in words(t)),
        lambda rng, t: max(map(len, words(t))),
    ),
    least=Constraint(
        "least:{}",
        "The fewest letters that a word may have: {}.",
        lambda t, v: all(len(w) >= v for w in words(t)),
        lambda rng, t: min(map(len, words(t))),
    ),
    unique=Constraint("unique", "No word stands there twice.", *_flag(lambda t: len(set(words(t))) == len(words(t))), None, "repeat"),
    vowels=Constraint(
        "vowels:{}",
        "Words that start with a, e, i, o or u: exactly {}.",
        lambda t, v: sum(w[0] in "aeiou" for w in words(t)) == v,
        _counted(lambda t: sum(w[0] in "aeiou" for w in words(t))),
    ),
)
"""Name -> kind. Shapes are applied to a text in this order."""

TELLING = ("first", "last", "nth", "has", "order", "initials", "finals", "times")
"""Kinds that name words or letters of the text. Another text does not meet them by chance."""


def holds(kind: str, value: Any, text: str) -> bool:
    """Returns whether a text has at least one word and meets a constraint."""
    return bool(words(text)) and CONSTRAINTS[kind].holds(text, value)
