"""An endless source of problems from a generator. A hash of a problem's content decides whether it is held out for evaluation."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from gradus.types import Frozen, Key, Problem, Sampling, UserError, unknown
from gradus.types.media import Media
from gradus.types.parts import Task, Verify

HELD_OUT_SHARE = 0.1  # share of all contents that are held out; training never draws them, with any key or level
_MOST = 100_000  # limit for the number of held-out problems, because problem i needs all problems before it
_TRIES = 2000  # the level counts as exhausted after this many draws in a row without a new problem of the split


@dataclass(frozen=True)
class Draft:
    """The output of a generator. `content` decides whether the problem is held out. Two forms of one puzzle, such as 47+85 and 85+47, have the same `content`."""

    question: str
    answer: Any
    solution: str | None  # a worked solution, as a completion that the verifier accepts; None: no solution is known
    content: str
    meta: Mapping[str, Any] = field(default_factory=Frozen)
    media: tuple[Media, ...] = ()  # media that come before the question


Make = Callable[[random.Random, Any], Draft]
"""Makes a draft from a random generator and a level, which is None if the source has no levels."""


@dataclass(frozen=True)
class Noted:
    """Adds the fields `meta` to the meta of every draft of a generator.

    The fields mark the training problems of a task. The held-out problems do not have these fields.
    """

    make: Make
    meta: Frozen[Any]

    def __call__(self, rng: random.Random, level: Any) -> Draft:
        draft = self.make(rng, level)
        return replace(draft, meta=Frozen({**draft.meta, **self.meta}))


def digest(task: str, content: str) -> str:
    """Computes a hash of a content: 16 hexadecimal digits."""
    return hashlib.blake2b(f"{task}\n{content}".encode(), digest_size=8).hexdigest()


def is_held_out(task: str, content: str, share: float = HELD_OUT_SHARE) -> bool:
    """Returns whether a content is held out: the first 32 bits of its digest, read as a fraction, are below `share`."""
    return int(digest(task, content)[:8], 16) < share * 2**32


@dataclass(frozen=True)
class Generated:
    """A source of generated problems. Problem i is a function of (i, level, key). The held-out problems of a level and key all differ."""

    task: str
    make: Make
    default: int | None  # level of a draw without a level; None: the source has no levels
    levels: tuple[int, int] | None  # lowest and highest level
    held_out: bool = False
    size: int | None = None
    share: float = HELD_OUT_SHARE  # share of all contents that are held out

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Draws the problems at these indices. A training level between two levels, such as 2.3, gives level 3 with chance 0.3, else level 2.

        Key and index determine which of the two levels the problem has. Raises UserError for an unknown level, for a held-out level that is not whole, and if
        there are to be more held-out problems than _MOST, or than the level has.
        """
        level = self.default if level is None else level
        if level is not None:
            check_level(self.task, level, self.levels)
        if not self.held_out:
            levels = [None if level is None else rounded_level(level, key.fold("level", i)) for i in indices]
            return [problem(self, i, at, self._train(i, at, key)) for i, at in zip(indices, levels, strict=True)]
        if level is not None and level != int(level):
            raise UserError(f"task {self.task}: level {level:g} was given for the evaluation; give a whole number, because only whole levels have held-out problems")
        level = None if level is None else int(level)
        if max(indices, default=0) >= _MOST:
            raise UserError(f"task {self.task}: {max(indices) + 1} held-out problems are needed, but at most {_MOST} are possible; set a smaller number of problems")
        drafts = _held_out(self, level, key).first(max(indices, default=-1) + 1)
        if max(indices, default=-1) >= len(drafts):
            raise UserError(
                f"task {self.task} has only {len(drafts)} held-out problems{_at(level)}, "
                f"but {max(indices) + 1} are needed; set a smaller number (--study.problems N of gradus train, --problems N of gradus eval), or {_larger(level)}"
            )
        return [problem(self, i, level, drafts[i]) for i in indices]

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of the arms: one per level, such as "countdown/3". A task without levels has one arm with the task's name."""
        return (self.task,) if self.levels is None else tuple(f"{self.task}/{n}" for n in range(self.levels[0], self.levels[1] + 1))

    def draw_arm(self, arm: str, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Draws the problems of an arm at these indices, at the arm's level and with its name in `meta`. Raises UserError for an unknown arm."""
        if arm not in self.arms:
            raise unknown("arm", arm, self.arms, f"These are the arms of task {self.task}")
        at = None if self.levels is None else int(arm.rpartition("/")[2])
        return [replace(p, meta=Frozen({**p.meta, "arm": arm})) for p in self.draw(indices, at, key)]

    def _train(self, index: int, level: int | None, key: Key) -> Draft:
        for draft in _tries(self, level, key.fold(index)):
            if not is_held_out(self.task, draft.content, self.share):
                return draft
        raise UserError(f"task {self.task} has only held-out problems{_at(level)}, so there is no problem for training; {_larger(level)}")


def check_level(task: str, level: float, levels: tuple[int, int] | None) -> None:
    """Raises UserError if the task does not have this level."""
    if levels is None:
        raise UserError(f"task {task} has no levels, but level {level} was given; leave the level out")
    if not levels[0] <= level <= levels[1]:
        raise UserError(f"task {task} has levels {levels[0]} to {levels[1]}, but level {level:g} was given; choose one of these levels")


def rounded_level(level: float, key: Key) -> int:
    """Rounds a level to a whole number at random: 2.3 becomes 3 with chance 0.3, else 2.

    >>> rounded_level(4, Key())
    4
    """
    below = math.floor(level)
    return below + int(level > below and float(key.uniform()) < level - below)


def _named(level: int | None) -> tuple[int, ...]:
    return () if level is None else (level,)


def _at(level: int | None) -> str:
    return "" if level is None else f" at level {level}"


def _larger(level: int | None) -> str:
    return "choose options of the task that allow more problems" if level is None else "take a higher level or other options of the task"


def _tries(source: Generated, level: int | None, key: Key) -> Iterator[Draft]:
    path = key.fold("generated", source.task, *_named(level))
    return (source.make(path.fold(i).random(), level) for i in range(_TRIES))


class _HeldOut:
    """The held-out drafts in the sequence (key, 0), (key, 1), ..., without repetitions.

    Each draft is made at its first use, because large puzzles take long to make, and is then kept. An interrupted attempt changes nothing.
    """

    def __init__(self, source: Generated, level: int | None, key: Key) -> None:
        self._source, self._level, self._path = source, level, key.fold("held out", source.task, *_named(level))
        self._drafts, self._known = list[Draft](), set[tuple[str, str]]()
        self._next = self._fruitless = 0

    def first(self, count: int) -> Sequence[Draft]:
        """Returns at least the first `count` drafts, or fewer if the level has no more."""
        while len(self._drafts) < count and self._fruitless < _TRIES:
            draft = self._source.make(self._path.fold(self._next).random(), self._level)
            name = (draft.question, draft.content)
            fresh = is_held_out(self._source.task, draft.content, self._source.share) and name not in self._known
            self._next, self._fruitless = self._next + 1, 0 if fresh else self._fruitless + 1
            if fresh:
                self._known.add(name)
                self._drafts.append(draft)
        return self._drafts


@lru_cache(maxsize=8)
def _held_out(source: Generated, level: int | None, key: Key) -> _HeldOut:
    return _HeldOut(source, level, key)


def problem(source: Generated, index: int, level: int | None, draft: Draft) -> Problem:
    """Makes a problem with one user message from a draft. The problem's id contains the level, the index and the hash of the content."""
    known = {"difficulty": level, "solution": draft.solution}
    meta = Frozen({**{name: value for name, value in known.items() if value is not None}, **draft.meta})
    name = "-".join(map(str, (source.task, *_named(level), index, digest(source.task, draft.content)[:6])))
    shown = tuple({"type": media.kind, "media": media} for media in draft.media)
    content = (*shown, {"type": "text", "text": draft.question}) if shown else draft.question
    return Problem(name, source.task, messages=({"role": "user", "content": content},), answer=draft.answer, meta=meta)


def generated_task(
    name: str,
    make: Make,
    verify: Verify,
    *,
    level: int,
    levels: tuple[int, int],
    max_tokens: int,
    chance: float,
    about: str,
    provides: Sequence[str] = (),
) -> Task:
    """Makes a task whose training source and held-out source use the same generator, but have no content in common.

    `max_tokens`: the limit on the tokens of a completion. The limit is a little larger than the number of characters of a worked solution. `chance`: the
    accuracy of guesses at this level.
    """
    check_level(name, level, levels)
    source = Generated(name, make, level, levels)
    return Task(
        name=name,
        source=source,
        held_out=replace(source, held_out=True),
        verify=verify,
        provides=frozenset({"solution", "difficulty", *provides}),
        about=about,
        sampling=Sampling(max_tokens=max_tokens),
        level=level,
        chance=chance,
    )
