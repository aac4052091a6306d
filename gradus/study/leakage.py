"""Leakage: held-out problems in the training set.

A held-out problem leaks if a training prompt differs from its prompt only in case, spacing and punctuation. It also leaks if one training prompt contains
most n-grams of its prompt.

Many prompts of a task share words such as "How many ... in all?". Such words are no evidence of a leak. So if there are at least 20 prompts, n-grams that occur
in more than a tenth of all prompts do not count. A short held-out prompt leaks only if the training prompt contains all its numbers. For example, 2 + 47 is
not 2 + 48.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gradus.types import Key, Problem, UserError
from gradus.types.media import Media, words
from gradus.types.parts import Source, Task
from gradus.types.ranges import check_ranges

CHARACTERS = 8  # length of n-grams of characters, for prompts that are too short for n-grams of words
COMMON, ENOUGH = 0.1, 20  # an n-gram is common if it occurs in more than the share COMMON of all prompts; with fewer than ENOUGH prompts, no n-gram is common

_TOKEN = re.compile(r"\w+(?:[.,][0-9]+)*|[^\w\s]")
_STOPS = frozenset(".,;:?\"'`*#")


@dataclass(frozen=True)
class Leak:
    """A held-out problem, and the training problem that matches it.

    `share`: the share of the held-out prompt's n-grams that the training prompt contains. Common n-grams do not count. The share is 1.0 if the prompts are
    the same.
    """

    held_out: Problem
    training: Problem
    share: float
    exact: bool


@dataclass(frozen=True)
class Leakage:
    """The numbers of problems that were compared, and all leaks. The clearest leak is the first one."""

    training: int
    held_out: int
    leaks: tuple[Leak, ...]
    words: int  # length of the n-grams
    least: float  # a prompt counts as nearly the same if the other prompt contains at least this share of its n-grams

    @property
    def exact(self) -> int:
        return sum(leak.exact for leak in self.leaks)

    @property
    def share(self) -> float:
        """Returns the number of leaks divided by the number of held-out problems; 0 if there are no held-out problems."""
        return len(self.leaks) / max(1, self.held_out)


@dataclass(frozen=True)
class Check:
    """The settings of the comparison of prompts."""

    words: int = 8  # words per n-gram; the value 13 finds only long passages
    least: float = 0.7  # a held-out prompt counts as nearly the same if one training prompt contains at least this share of its n-grams

    def __post_init__(self) -> None:
        check_ranges(self, words="[2, 64]", least="(0, 1]")


def tokens(text: str) -> list[str]:
    """Returns the words, numbers and signs of a text, in lower case and without the punctuation of sentences.

    >>> tokens("What is 1,200.50 + x?  Say  it.")
    ['what', 'is', '1,200.50', '+', 'x', 'say', 'it']
    """
    return [t for t in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()) if t not in _STOPS]


def prompt(problem: Problem) -> str:
    """Returns the text of the prompt without system messages."""
    if problem.text is not None:
        return problem.text
    return "\n".join(words(m) for m in problem.messages if m["role"] != "system")


def grams(found: Sequence[str], words: int) -> frozenset[str]:
    """Returns the n-grams of a prompt's tokens. The result has n-grams of words if there are at least 2 * `words` tokens, else n-grams of characters.

    If a text is shorter than one n-gram, the whole text is its only n-gram.
    """
    if len(found) >= 2 * words:
        return frozenset("\x1f".join(found[i : i + words]) for i in range(len(found) - words + 1))
    return letters(found)


def letters(found: Sequence[str]) -> frozenset[str]:
    text = " ".join(found)
    return frozenset(text[i : i + CHARACTERS] for i in range(max(1, len(text) - CHARACTERS + 1)))


def numbers(found: Sequence[str]) -> Counter[str]:
    return Counter(t for t in found if any(c.isdigit() for c in t))


def digest(found: Sequence[str], media: Sequence[Media] = ()) -> str:
    """Returns a hash of a prompt's tokens and media. Equal texts with different pictures have different hashes."""
    return hashlib.blake2b("\x1f".join([*found, *(f"\x1e{m.digest}" for m in media)]).encode(errors="replace"), digest_size=16).hexdigest()


def leakage(training: Iterable[Problem], held_out: Sequence[Problem], check: Check = Check()) -> Leakage:
    """Compares every held-out problem with every training problem. The work grows with the number of shared n-grams.

    A held-out prompt leaks if a training prompt has the same tokens, or contains many of the held-out prompt's n-grams: at least a share of
    `check.least`. N-grams of common wording do not count. A prompt with pictures matches only a training prompt with the same pictures in the same order.
    """
    asked = [tokens(prompt(p)) for p in held_out]
    media = [p.media for p in held_out]
    names = [digest(a, m) for a, m in zip(asked, media, strict=True)]
    known = set(names)
    owners, short = _owners([grams(a, check.words) for a in asked]), any(len(a) < 2 * check.words for a in asked)
    held = Counter({gram: len(of) for gram, of in owners.items()})
    same: dict[str, Problem] = {}
    touched: list[tuple[Problem, list[str], Counter[str]]] = []
    count = 0
    for problem in training:
        count += 1
        found = tokens(prompt(problem))
        if (name := digest(found, problem.media)) in known:
            same.setdefault(name, problem)
        shared = [g for g in grams(found, check.words) | (letters(found) if short else frozenset()) if g in owners]
        held.update(shared)
        if shared:
            touched.append((problem, shared, numbers(found)))
    total = count + len(held_out)
    common = {g for g, n in held.items() if n > COMMON * total} if total >= ENOUGH else set()
    best = _best(touched, owners, common, [numbers(a) if len(a) < 2 * check.words else Counter() for a in asked], media)
    leaks = []
    for n, asked_for in enumerate(held_out):
        twin = same.get(names[n])
        number, other = best.get(n, (0, asked_for))
        share = number / max(1, len(grams(asked[n], check.words) - common))
        if twin is not None:
            leaks.append(Leak(asked_for, twin, 1.0, True))
        elif share >= check.least:
            leaks.append(Leak(asked_for, other, share, False))
    return Leakage(count, len(held_out), tuple(sorted(leaks, key=lambda k: (not k.exact, -k.share))), check.words, check.least)


def _owners(found: Sequence[frozenset[str]]) -> dict[str, list[int]]:
    """Returns, for each n-gram, the indices of the prompts that contain this n-gram."""
    owners: dict[str, list[int]] = {}
    for n, each in enumerate(found):
        for gram in each:
            owners.setdefault(gram, []).append(n)
    return owners


def _best(
    touched: Sequence[tuple[Problem, list[str], Counter[str]]],
    owners: dict[str, list[int]],
    common: set[str],
    needed: Sequence[Counter[str]],
    media: Sequence[tuple[Media, ...]],
) -> dict[int, tuple[int, Problem]]:
    """For every held-out prompt, finds the training problem that has the most n-grams in common with this prompt, and the number of these n-grams.

    Only training problems that contain all `needed` numbers and have the prompt's `media` are considered.
    """
    best: dict[int, tuple[int, Problem]] = {}
    for problem, shared, there in touched:
        counts = Counter(n for gram in shared if gram not in common for n in owners[gram])
        pictures = problem.media
        for n, number in counts.items():
            if pictures == media[n] and number > best.get(n, (0, problem))[0] and needed[n] <= there:
                best[n] = (number, problem)
    return best


def problems_of(source: Source, level: float | None, most: int, key: Key) -> list[Problem]:
    """Returns all problems of a finite source, or the first `most` problems of an endless source. If an endless source cannot draw this number of problems,
    the number is halved until it can.
    """
    count = most if source.size is None else source.size
    while True:
        try:
            return [p for start in range(0, count, 1024) for p in source.draw(range(start, min(start + 1024, count)), level, key)]
        except UserError:
            if source.size is not None or count < 2:
                raise
            count //= 2  # a generator may have fewer problems at its level


def of_task(task: Task, against: Task | None = None, *, most: int = 2000, check: Check = Check()) -> Leakage:
    """Compares held-out problems with the task's training problems. The held-out problems come from the task, or are all problems of the task
    `against`. If the training problems of `against` are endless, they are left out.

    Args: most: number of problems drawn from an endless source.  Raises: UserError if the problems are not text.
    """
    for each in (task, against or task):
        if not each.of_text:
            raise UserError(f"task {each.name} has no text prompts, but this command compares the texts of prompts; take a task with text prompts")
    of = against or task
    held_out = problems_of(of.held_out, of.level, most, Key(0).fold("held out"))
    if against is not None and against.source.size is not None:  # use all problems of the other task's file, not only its held-out problems
        held_out += problems_of(against.source, against.level, most, Key(0))
    return leakage(problems_of(task.source, task.level, most, Key(0)), held_out, check)


def table(found: Leakage, name: str, examples: int = 5) -> str:
    """Returns the lines of the report: counts, shares, and the clearest leaks."""
    lines = [f"{name}: {found.held_out} held-out problems looked up in {found.training} training problems"]
    for label, count, what in (
        ("the same", found.exact, "but for case, spacing and punctuation"),
        (
            "nearly",
            len(found.leaks) - found.exact,
            f"at least {found.least:.0%} of the n-grams ({found.words} words) in one training prompt",
        ),
    ):
        lines.append(f"  {label:<10}{count:6d}   {count / max(1, found.held_out):7.2%}   {what}")
    for leak in found.leaks[:examples]:
        lines.append(f"  {leak.held_out.id} <- {leak.training.id} ({'the same' if leak.exact else f'{leak.share:.0%}'})")
        lines += [
            f"    {side}: {textwrap.shorten(prompt(p), 100)}" for side, p in (("held out", leak.held_out), ("training", leak.training))
        ]
    if len(found.leaks) > examples:
        lines.append(f"  and {len(found.leaks) - examples} more")
    return "\n".join(lines)


def as_json(found: Leakage) -> dict[str, Any]:
    """Returns the counts, and the ids of the two problems of every leak."""
    leaks = [{"held_out": k.held_out.id, "training": k.training.id, "share": k.share, "exact": k.exact} for k in found.leaks]
    return {
        "training": found.training,
        "held_out": found.held_out,
        "exact": found.exact,
        "near": len(leaks) - found.exact,
        "share": found.share,
        "leaks": leaks,
    }
