"""Marks actions by the region of the text that contains them: a step, a line or a phrase. Regions are found in the decoded text, which is never encoded again.

A marking gives every action the number of its region, or -1 if the action is in no region. The streams `span` and `segment` contain such numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from gradus.types.contexts import Context
from gradus.types.errors import UserError
from gradus.types.ranges import check_ranges

Reads = Callable[[np.ndarray], str]
"""Returns the text of tokens, without special tokens."""


class Marking(Protocol):
    """Numbers the actions of a context."""

    def of(self, context: Context, text: Reads) -> np.ndarray:
        """Returns int32 [A]: the number of each action's region, -1 without a region. `text` gives the text of tokens."""
        ...


def ends(tokens: np.ndarray, text: Reads) -> np.ndarray:
    """Returns int64 [A]: the number of characters of the text up to the end of each token. A special token has no characters.

    If a character consists of several tokens, the texts of the single tokens do not add up to the whole text. In this case the end of token i is the length
    of the text of tokens 0 to i.
    """
    single = [text(tokens[i : i + 1]) for i in range(len(tokens))]
    if "".join(single) == text(tokens):
        return np.cumsum([len(piece) for piece in single], dtype=np.int64)
    return np.maximum.accumulate(np.array([len(text(tokens[: i + 1])) for i in range(len(tokens))], np.int64))


def numbered(until: np.ndarray, regions: Sequence[tuple[int, int]]) -> np.ndarray:
    """Returns int32 [A]: for every token, the index of the region that contains most of the token's characters, or -1 if no region contains any. If several
    regions contain equally many characters, the first region counts.

    Args: `until` [A]: as in `ends`. `regions`: (first character, character after the last) of each region. A token without characters is in a region
    if the characters before and after it are in the region.

    >>> numbered(np.array([1, 3, 3, 6]), [(0, 2), (2, 6)]).tolist()
    [0, 0, 1, 1]
    """
    begin = np.concatenate([[0], until[:-1]])
    out, most = np.full(len(until), -1, np.int32), np.zeros(len(until), np.int64)
    for number, (first, last) in enumerate(regions):
        share = np.minimum(until, last) - np.maximum(begin, first)
        share[(begin == until) & (begin > first) & (until < last)] = 1
        better = share > most
        out[better], most[better] = number, share[better]
    return out


def runs(context: Context) -> list[tuple[int, int]]:
    """Returns (first action, action after the last) for every turn of a context. A turn is a run of actions without other tokens between them."""
    places = context.action_positions
    cuts = [0, *(np.flatnonzero(np.diff(places) > 1) + 1).tolist(), len(places)] if len(places) else [0]
    return list(pairwise(cuts))


def marked(context: Context, text: Reads, regions: Callable[[str], Sequence[tuple[int, int]]]) -> np.ndarray:
    """Returns int32 [A]: the numbers of the regions of each turn's text. Numbers continue from turn to turn, and no region spans two turns."""
    tokens, found, first = context.sequence[context.action_positions], [], 0
    for start, stop in runs(context):
        own = tokens[start:stop]
        places = regions(text(own))
        row = numbered(ends(own, text), places)
        found.append(np.where(row >= 0, row + first, row).astype(np.int32))
        first += len(places)
    return np.concatenate(found) if found else np.zeros(0, np.int32)


def compiled(pattern: str, owner: str) -> re.Pattern[str]:
    """Returns the compiled regular expression. Raises UserError if the expression is empty or invalid; the message names the field `owner`."""
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise UserError(
            f"{owner} is {pattern!r}, which is not a regular expression: {error}; correct the expression, "
            "or write \\ before a special character to match this character itself"
        ) from None
    if not pattern:
        raise UserError(f"{owner} is empty; give a regular expression")
    return found


@dataclass(frozen=True)
class Phrases:
    """Marks the actions within the matches of a regular expression. The matches do not overlap."""

    pattern: str = r"[A-Za-z]+(?: [A-Za-z]+){2,4}"

    def __post_init__(self) -> None:
        compiled(self.pattern, "Phrases.pattern")

    def of(self, context: Context, text: Reads) -> np.ndarray:
        return marked(context, text, self.regions)

    def regions(self, text: str) -> list[tuple[int, int]]:
        """Returns the regions of a text. Empty matches are left out."""
        return [m.span() for m in re.finditer(self.pattern, text) if m.end() > m.start()]


@dataclass(frozen=True)
class Separated:
    """Cuts each turn into steps at the matches of a regular expression. A separator belongs to the step that it ends, and every action has a step."""

    separator: str = r"\n+"
    most: int | None = None  # largest number of steps of a turn; the last step takes the rest; None: no limit

    def __post_init__(self) -> None:
        compiled(self.separator, "Separated.separator")
        check_ranges(self, most="[1, inf)")

    def of(self, context: Context, text: Reads) -> np.ndarray:
        row = marked(context, text, self.regions)
        for start, stop in runs(context):
            row[start:stop] = _filled(row[start:stop], int(row[:start].max(initial=-1)) + 1)
        return row

    def regions(self, text: str) -> list[tuple[int, int]]:
        """Returns the steps of a text. White space alone is no step: it belongs to the step before it or, at the start of the text, to the first step.

        >>> Separated(" ").regions("3+2=5 =5 ")
        [(0, 6), (6, 9)]
        """
        cuts = [m.end() for m in re.finditer(self.separator, text) if m.end() > m.start()]
        bounds = [0, *(c for c in cuts if text[c:].strip() and text[:c].strip()), len(text)]
        bounds = bounds if self.most is None else [*bounds[: self.most], len(text)]
        return [(a, b) for a, b in pairwise(bounds) if b > a]


STEPS = Separated(r"\n+|(?<=[0-9]) (?==?-?[0-9])")
"""Steps of the built-in tasks: lines, and the terms of a chain of equations such as "2+3 5+4 9 =9"."""


def scores_at_ends(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Returns [L]: the score of the text up to the end of each step, in the order of the steps.

    A value is computed before its action is read. So the score of a step is the value of the next step's first action, and the score of the last step is the
    value of the last action. Args: `values` [A]; `numbers` [A], the step of each action, -1 without a step.

    >>> scores_at_ends(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0, 0, 1, 1])).tolist()
    [2.0, 3.0]
    """
    known = list(dict.fromkeys(numbers[numbers >= 0].tolist()))
    firsts = [int(np.flatnonzero(numbers == n)[0]) for n in known]
    return np.asarray(values, np.float64)[[*firsts[1:], len(values) - 1]] if known else np.zeros(0)


def unsure(context: Context, rho: float) -> np.ndarray:
    """Returns bool [A]: whether each action was sampled with a probability below `rho`. Raises UserError if the probabilities are not known."""
    if context.logprobs is None:
        raise UserError("segments end at tokens with a low probability, but the policy gives no probabilities of sampled tokens; choose another policy or recipe")
    return np.asarray(np.exp(context.logprobs.astype(np.float64)) < rho)


@dataclass(frozen=True)
class CutPoints:
    """Marks segments of `every` unsure tokens. A segment begins with an unsure token; the tokens before the first unsure token have no segment."""

    rho: float = 0.9  # a token is unsure if its probability at sampling is below this number
    every: int = 5

    def __post_init__(self) -> None:
        check_ranges(self, rho="(0, inf)", every="[1, inf)")

    def of(self, context: Context, text: Reads) -> np.ndarray:
        return ((np.cumsum(unsure(context, self.rho)) + self.every - 1) // self.every - 1).astype(np.int32)


def _filled(row: np.ndarray, first: int) -> np.ndarray:
    """Puts an action without a step into the step of the action before it. At the start of the turn, the action goes into the step `first`."""
    out = row.copy()
    for i in range(len(out)):
        if out[i] < 0:
            out[i] = out[i - 1] if i else first
    return out
