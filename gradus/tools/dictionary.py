"""A dictionary: the meanings of a word, or of words with almost the same spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.edits import edit_distance
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges

LONGEST = 50  # only this number of first characters of a word is used


@dataclass(frozen=True)
class Dictionary:
    """Looks up a word. Returns at most `top` entries, one per line: the entries of the word itself. If there are none, returns the entries of similar words,
    the most similar first.

    An entry is a line `word: meaning`. The entries come from `entries`, or from the passages of the task. Upper and lower case do not differ.
    """

    entries: tuple[str, ...] = ()
    top: int = 5
    farthest: int = 2  # largest edit distance of a similar word; 0: only the word itself
    name: str = "lookup"
    about: ClassVar[str] = "Finds the meaning of a word."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object", properties={"word": {"type": "string", "description": "the word"}}, required=["word"]
    )
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, top="[1, inf)", farthest="[0, inf)")
        words_of(self.entries)

    def check_task(self, task: Task) -> None:
        """Raises UserError if neither the tool nor the task has entries."""
        if not self.entries and task.passages is None:
            raise UserError(f"the tool Dictionary has no entries, and task {task.name} has none; take a task such as phrasebook, or set the tool's entries")

    def open(self, problem: Problem, key: Key, world: World | None) -> Lookups:
        found = world.task.passages if world is not None and not self.entries else None
        return Lookups(self.entries if found is None else tuple(found()), self.top, self.farthest)


@dataclass(frozen=True)
class Lookups:
    """A session, which has no state."""

    entries: tuple[str, ...]
    top: int
    farthest: int

    def call(self, word: str) -> str:
        return "\n".join(self.entries[i] for i in looked_up(self.entries, word, self.top, self.farthest)) or "no entry"

    def fork(self, key: Key) -> Lookups:
        return self


@lru_cache(maxsize=16)
def words_of(entries: Sequence[str]) -> tuple[str, ...]:
    """Returns the words of the entries in lower case. Raises UserError for an entry without a colon."""
    if wrong := [entry for entry in entries if ":" not in entry]:
        raise UserError(f'the entry "{wrong[0]:.40}" of a Dictionary has no colon; write it as "word: meaning"')
    return tuple(entry.partition(":")[0].strip().lower() for entry in entries)


def looked_up(entries: tuple[str, ...], word: str, top: int = 5, farthest: int = 2) -> list[int]:
    """Returns the numbers of the best entries: those of the word itself. If there are none, these are the entries of words with an edit distance of at most
    `farthest`, the nearest first.

    Entries at the same distance are in the order of the dictionary.

    >>> looked_up(("cat: mio", "car: rum", "dog: wuf"), "Cat"), looked_up(("cat: mio", "car: rum", "dog: wuf"), "carr")
    ([0], [1, 0])
    """
    asked, words = word.strip().lower()[:LONGEST], words_of(entries)
    same = [i for i, known in enumerate(words) if known == asked]
    if same or not farthest or not asked:
        return same[:top]
    near = [(edit_distance(asked, known), i) for i, known in enumerate(words) if abs(len(known) - len(asked)) <= farthest]
    return [i for distance, i in sorted(near) if distance <= farthest][:top]
