"""A scripted user of a dialogue: a hidden wish in slots. The user tells the slots in random order and in random words, and has limited patience."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

LAST = "that is all"
LEAVE = "bye"


@dataclass(frozen=True)
class Slot:
    """A fact that the user can tell. `forms`: the possible wordings. `asked`: the user tells the fact only if a question contains this word."""

    forms: tuple[str, ...]
    asked: str | None = None


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case.

    >>> words("Name? And 1,200.")
    ['name', 'and', '1', '200']
    """
    return re.findall(r"[a-z0-9]+", text.lower())


class ScriptedUser:
    """The user of one episode. The user tells the slots of the first part, then those of the second part, and so on, one or two per answer.

    Within a part the order is random. After the last slot the user says LAST. The user answers `patience` messages; the message after these gets the
    answer LEAVE. A user with `open` tells all slots in the first message.
    """

    def __init__(self, parts: Sequence[Sequence[Slot]], rng: Random, patience: int, *, open: bool = False) -> None:
        self.rng, self.patience, self.over = rng, patience, False
        self.waiting = [[slot for slot in part if slot.asked is None] for part in parts]  # slots to tell, by part
        self.guarded = [slot for part in parts for slot in part if slot.asked is not None]
        for part in self.waiting:
            rng.shuffle(part)
        count = sum(map(len, parts))
        self.first = self._told([*self.guarded, *self._next(count)] if open else self._next(rng.randint(1, 2)))

    def reply(self, message: str) -> str:
        """Returns the answer to a message of the player."""
        self.patience -= 1
        if self.patience < 0:
            self.over = True
            return LEAVE
        said = words(message)
        asked = [slot for slot in self.guarded if slot.asked in said]
        return self._told([*asked, *self._next(self.rng.randint(1, 2) - len(asked), one=True)])

    def _next(self, count: int, one: bool = False) -> list[Slot]:
        """Takes the next `count` slots. With `one`, takes slots of one part only."""
        found: list[Slot] = []
        while len(found) < count and (part := next(filter(None, self.waiting), None)) is not None:
            found += [part.pop(0) for _ in range(min(count - len(found), len(part)))]
            if one:
                break
        return found

    def _told(self, slots: Sequence[Slot]) -> str:
        told = [self.rng.choice(slot.forms) for slot in slots]
        return ", ".join(told if any(self.waiting) else [*told, LAST])
