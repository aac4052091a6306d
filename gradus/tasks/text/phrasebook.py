"""The task phrasebook: translate sentences into one made-up language. Frequent words can be learned; rare words are only in a dictionary."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from gradus.tasks.generated import HELD_OUT_SHARE, Draft, Generated, is_held_out
from gradus.tasks.kinds import verify_exact
from gradus.types import Frozen, Key, Sampling, UserError
from gradus.types.parts import Task

PATTERNS = (("nvan", 1), ("anvan", 1), ("anvan", 2), ("anvaan", 2))
"""Per level: the kinds of the words of a sentence (noun, verb, adjective), and the number of rare words, which are nouns."""
FREQUENT = Frozen(n=8, v=6, a=6)
RARE = 600
PLAIN = 0.25  # share of sentences without a rare word
OBJECT = "ka"  # the ending of the last noun in the translation
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


@dataclass(frozen=True)
class Book:
    """The words of the language. `frequent`: kind -> words. `rare`: the rare nouns of training sentences, and the rare nouns of held-out sentences."""

    meanings: Mapping[str, str]
    frequent: Mapping[str, tuple[str, ...]]
    rare: tuple[tuple[str, ...], tuple[str, ...]]

    def translated(self, words: Sequence[str], pattern: str) -> str:
        """Returns the translation: the same order, but the verb stands at the end, and the last noun has the ending `OBJECT`."""
        last = pattern.rindex("n")
        said = [self.meanings[word] + OBJECT * (i == last) for i, word in enumerate(words)]
        verb = said.pop(pattern.index("v"))
        return " ".join([*said, verb])


def phrasebook(level: int = 1, seed: int = 0) -> Task:
    """Makes the task. `level` 1 to 4: longer sentences, and one or two rare words. `seed`: another seed gives another language.

    Three of four sentences have a rare word. The rare words of held-out sentences never occur in training. A dictionary has all words as lines "word:
    meaning"; these lines are the passages of the task. A demonstration looks up the rare words (`lookup: WORD`), and then answers. The column `rare` names
    the rare words.
    """
    if not 1 <= level <= len(PATTERNS):
        raise UserError(f"task phrasebook: `level` is {level}; give a number from 1 to {len(PATTERNS)}")
    source = Generated("phrasebook", partial(_sentence, seed=seed), level, (1, len(PATTERNS)))
    return Task(
        "phrasebook",
        source,
        Generated("phrasebook", partial(_sentence, seed=seed), level, (1, len(PATTERNS)), held_out=True),
        verify_exact,
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about='a made-up language with rare words in a dictionary: "mit lob fan gubar" -> "=zori tamu kifokka peda"; level: length and rare words',
        sampling=Sampling(max_tokens=64),
        level=level,
        passages=lambda: tuple(f"{word}: {meaning}" for word, meaning in made(seed).meanings.items()),
    )


@cache
def made(seed: int) -> Book:
    """Makes the language of a seed."""
    rng = Key(seed).fold("phrasebook").random()
    known = set[str]()
    frequent = {kind: tuple(_word(rng, "cvc", known) for _ in range(count)) for kind, count in FREQUENT.items()}
    rare = tuple(_word(rng, "cvcvc", known) for _ in range(RARE))
    words = [word for kind in frequent.values() for word in kind]
    meanings = {word: _word(rng, "cvcv", known) for word in words} | {word: _word(rng, "cvcvc", known) for word in rare}
    held = tuple(word for word in rare if is_held_out("phrasebook", word, HELD_OUT_SHARE))
    return Book(Frozen(meanings), Frozen(frequent), (tuple(word for word in rare if word not in held), held))


def _word(rng: random.Random, shape: str, known: set[str]) -> str:
    """Draws a new word of this shape of consonants and vowels."""
    while True:
        word = "".join(rng.choice(_CONSONANTS if kind == "c" else _VOWELS) for kind in shape)
        if word not in known:
            known.add(word)
            return word


def _sentence(rng: random.Random, level: int, seed: int) -> Draft:
    """Draws a sentence. The rare words are all from training, or all held out; the first of them decides."""
    book, (pattern, most) = made(seed), PATTERNS[level - 1]
    words = [rng.choice(book.frequent[kind]) for kind in pattern]
    rare: list[str] = []
    if rng.random() >= PLAIN:
        own = book.rare[int(rng.random() < HELD_OUT_SHARE)]
        places = sorted(rng.sample([i for i, kind in enumerate(pattern) if kind == "n"], most))
        rare = rng.sample(own, most)
        for place, word in zip(places, rare, strict=True):
            words[place] = word
    asked, answer = " ".join(words), book.translated(words, pattern)
    seen = ["", *(f"{word}: {book.meanings[word]}" for word in rare)]
    actions = [*(f"lookup: {word}" for word in rare), f"answer: {answer}"]
    meta = Frozen(category="rare" if rare else "frequent", rare=" ".join(rare), demonstration=list(zip(seen, actions, strict=True)))
    return Draft(asked, answer, f"={answer}", rare[0] if rare else asked, meta)
