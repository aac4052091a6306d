"""Translation from one made-up language into another. The prompt gives a dictionary, the word orders and the affixes."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Literal

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import hints, verify_exact
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

ORDERS = tuple("".join(order) for order in permutations("SVO"))
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_ROOTS = tuple(a + b + c for a in _CONSONANTS for b in _VOWELS for c in _CONSONANTS)
_ENDINGS = tuple(b + c for b in _VOWELS for c in _CONSONANTS)


@dataclass(frozen=True)
class Level:
    nouns: int
    verbs: int
    adjectives: int = 0
    clauses: int = 1
    plural: bool = True
    tense: bool = False
    case: bool = False  # the second language marks the object
    agreement: bool = False  # the second language marks the verb if the subject is in the plural


_LEVELS = {
    1: Level(3, 1, plural=False),
    2: Level(3, 1),
    3: Level(4, 2, 2),
    4: Level(6, 4, 3, tense=True, case=True),
    5: Level(9, 6, 5, tense=True, case=True, agreement=True),
    6: Level(14, 8, 8, 2, tense=True, case=True, agreement=True),
    7: Level(24, 14, 14, 4, tense=True, case=True, agreement=True),
}


@dataclass(frozen=True)
class Affix:
    """Two letters that are written before or after a root."""

    letters: str
    before: bool

    def on(self, word: str) -> str:
        return self.letters + word if self.before else word + self.letters

    def __str__(self) -> str:
        return f"{self.letters}-" if self.before else f"-{self.letters}"


@dataclass(frozen=True)
class Language:
    """A made-up language: its roots (one for each entry of the dictionary), its word order and its affixes.

    `order`: the order of subject, verb and object.
    """

    roots: Sequence[str]
    order: str
    adjective_first: bool
    plural: Affix
    past: Affix
    case: Affix | None = None
    agreement: Affix | None = None


@dataclass(frozen=True)
class Phrase:
    noun: int
    many: bool
    adjective: int | None


@dataclass(frozen=True)
class Clause:
    """A clause: its subject, verb and object are entries of the dictionary."""

    subject: Phrase
    verb: int
    object: Phrase
    past: bool


def translation(level: int = 2, form: Literal["plain", "tags"] = "plain") -> Task:
    """Makes the task at `level` 1 to 7. Higher levels have more grammar and a larger dictionary (up to 53 words).

    1: word order; 2: plural; 3: adjectives; 4: tense and case; 5: agreement; 6 and 7: several clauses.

    `form`: the form of worked solutions. "plain": the verifier reads the answer after the last "=". "tags": solutions have `<think>` and `<answer>` tags, and
    the verifier reads the last `<answer>` tag. Raises: UserError for an unknown form.
    """
    if form not in ("plain", "tags"):
        raise UserError(f'task translation: `form` is "{form}"; give "plain" or "tags"')
    return generated_task(
        "translation",
        partial(_translation, form=form),
        verify_exact if form == "plain" else verify_tags,
        level=level,
        levels=(1, 7),
        max_tokens={1: 80, 2: 100, 3: 140}.get(level, 100 * level),
        chance={1: 0.04, 2: 0.01}.get(level, 0.0),  # 4 * 3 * 2 = 24 rows of three words; the plural of two of them leaves 4 of each
        about='between made-up languages: "lob:bek mit:sur tan:gof SOV>VSO;mit lob tan" -> "...=gof sur bek"; level: grammar. '
        '"-es>ka-": the ending becomes a beginning; "aN>Na": adjectives; "O>-un": objects; "Vpl>-ab": verbs of a plural; '
        "number and tense are next to the root",
        provides=("hints",),
    )


def verify_tags(problem: Problem, completion: str) -> Outcome:
    """1.0 if the content of the last `<answer>` tag equals the answer, else 0.0. Only the last 1,000 characters are read."""
    found = re.findall("<answer>(.*?)</answer>", completion[-1000:], re.DOTALL)
    return float(bool(found) and found[-1].strip() == str(problem.answer))


def _translation(rng: random.Random, level: int, form: str) -> Draft:
    size = _LEVELS[level]
    source, target = _languages(rng, size)
    entries = _entries(rng, size)
    clauses = [_clause(rng, size, entries) for _ in range(size.clauses)]
    link = size.nouns + size.verbs + size.adjectives
    pairs = [spoken(clause, source) for clause in clauses]
    answer = f" {target.roots[link]} ".join(" ".join(word for _, word in spoken(clause, target)) for clause in clauses)
    asked = f" {source.roots[link]} ".join(" ".join(word for _, word in said) for said in pairs)
    rules = _rules(size, source, target)
    steps = []
    for clause, said in zip(clauses, pairs, strict=True):
        there = dict(spoken(clause, target))
        steps += [f"{word}:{role}:{there[role]}" for role, word in said]
    solution = f"{' '.join(steps)}={answer}" if form == "plain" else f"<think>{' '.join(steps)}</think><answer>{answer}</answer>"
    plan = (
        f"parts in order {source.order}",
        f" become {target.order}",
        f", {len(steps)} words",
        f"; the first is {steps[0].split(':')[2]}",
    )
    meta = Frozen(
        category=f"{source.order}>{target.order}",
        hints=hints(("look up each word", ", move its ending over", ", put the parts in the new order"), plan, solution),
    )
    # The content leaves words and affixes out: the puzzle is the roles, their marks, and the entries of the dictionary that they need.
    sides = [a.before for a in (source.plural, target.plural, source.past, target.past, target.case, target.agreement) if a]
    content = f"{rules[-1]} {source.adjective_first} {target.adjective_first} {clauses} {sides}"
    return Draft(f"{_dictionary(size, entries, source, target)} {' '.join(rules)};{asked}", answer, solution, content, meta)


def spoken(clause: Clause, language: Language) -> list[tuple[str, str]]:
    """Returns the (role, word) pairs of a clause in the order of the language. The roles are S, V and O, and aS and aO for the adjectives of S and O."""
    parts = {"V": [("V", _verb(clause, language))]}
    for role, phrase in (("S", clause.subject), ("O", clause.object)):
        noun = language.roots[phrase.noun]
        noun = language.plural.on(noun) if phrase.many else noun
        words = [(role, language.case.on(noun) if language.case and role == "O" else noun)]
        if phrase.adjective is not None:
            words.insert(0 if language.adjective_first else 1, (f"a{role}", language.roots[phrase.adjective]))
        parts[role] = words
    return [word for role in language.order for word in parts[role]]


def _verb(clause: Clause, language: Language) -> str:
    word = language.roots[clause.verb]
    word = language.past.on(word) if clause.past else word
    return language.agreement.on(word) if language.agreement and clause.subject.many else word


def _languages(rng: random.Random, size: Level) -> tuple[Language, Language]:
    """Draws two languages with different word orders and no common root. If there are no adjectives, `adjective_first` is equal in both."""
    count = size.nouns + size.verbs + size.adjectives + 1
    roots, endings = rng.sample(_ROOTS, 2 * count), rng.sample(_ENDINGS, 6)
    marks = [Affix(letters, rng.random() < 0.4) for letters in endings]
    first, second = rng.sample(ORDERS, 2)
    before = [rng.random() < 0.5 if size.adjectives else True for _ in range(2)]
    case, agreement = marks[4] if size.case else None, marks[5] if size.agreement else None
    return (
        Language(roots[:count], first, before[0], marks[0], marks[1]),
        Language(roots[count:], second, before[1], marks[2], marks[3], case, agreement),
    )


def _entries(rng: random.Random, size: Level) -> list[int]:
    """Returns the numbers of the dictionary's entries, in the order nouns, verbs, adjectives. The entries are shuffled if the dictionary does not name the
    classes."""
    total = size.nouns + size.verbs + size.adjectives
    return list(range(total)) if size.adjectives else rng.sample(range(total), total)


def _clause(rng: random.Random, size: Level, entries: Sequence[int]) -> Clause:
    nouns, verbs = entries[: size.nouns], entries[size.nouns : size.nouns + size.verbs]
    adjectives = entries[size.nouns + size.verbs :]

    def phrase(noun: int) -> Phrase:
        adjective = rng.choice(adjectives) if adjectives and rng.random() < 0.6 else None
        return Phrase(noun, size.plural and rng.random() < 0.5, adjective)

    subject, thing = (phrase(noun) for noun in rng.sample(list(nouns), 2))
    return Clause(subject, rng.choice(list(verbs)), thing, size.tense and rng.random() < 0.5)


def _dictionary(size: Level, entries: Sequence[int], source: Language, target: Language) -> str:
    """Writes the dictionary: all entries in order. The dictionary names the classes if there are adjectives, and the link word if there are several clauses."""
    told = [f"{a}:{b}" for a, b in zip(source.roots, target.roots, strict=True)]
    if not size.adjectives:
        return " ".join(told[: len(entries)])
    cuts = {"n": 0, "v": size.nouns, "a": size.nouns + size.verbs}
    lines = [f"{name} {' '.join(told[at:until])}" for (name, at), until in zip(cuts.items(), [*list(cuts.values())[1:], -1], strict=True)]
    return " ".join(lines + ([f"c {told[-1]}"] if size.clauses > 1 else []))


def _rules(size: Level, source: Language, target: Language) -> list[str]:
    """Returns the rules in the form of the prompt. The last rule is the word order."""
    order = {True: "aN", False: "Na"}
    told = [f"{source.plural}>{target.plural}"] if size.plural else []
    told += [f"{source.past}>{target.past}"] if size.tense else []
    told += [f"O>{target.case}"] if target.case else []
    told += [f"Vpl>{target.agreement}"] if target.agreement else []
    told += [f"{order[source.adjective_first]}>{order[target.adjective_first]}"] if size.adjectives else []
    return [*told, f"{source.order}>{target.order}"]
