"""A context: one contiguous sequence of a model.

A context has tokens, a mark for each chosen token, and the shown media. If it continues a parent context, it also has the position at which it branches off.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gradus.types.errors import UserError
from gradus.types.frozen import Frozen
from gradus.types.media import digest_of


class Ended(enum.Enum):
    """The reason why a trajectory ended."""

    STOP = "stop"  # the model emitted its end token or a stop string
    LENGTH = "length"  # the answer reached the limit on new tokens
    CONTEXT = "context"  # the model's context was full
    ENVIRONMENT = "environment"  # the environment terminated the episode
    TRUNCATED = "truncated"  # the environment cut the episode (turn limit)
    FAILED = "failed"  # the environment or a tool raised an error


@dataclass(frozen=True, eq=False)
class Seen:
    """Pictures or arrays of one shape that a context shows between its tokens.

    Item i takes `length[i]` of the context's own tokens. The first of these tokens has the index `at[i]`.
    """

    name: str  # "image", or the name of an array of the observation
    kind: str  # as in `types.media.KINDS`
    rows: np.ndarray  # [n, ...]
    at: np.ndarray  # int32 [n] index of each item's first token among the context's own tokens, ascending
    length: np.ndarray  # int32 [n] number of tokens of each item (placeholders of a picture); 1 for an array
    rate: float | None = None  # frames or samples per second

    def __post_init__(self) -> None:
        for array in (self.rows, self.at, self.length):
            array.flags.writeable = False
        if not len(self.rows) == len(self.at) == len(self.length):
            raise ValueError(
                f"{len(self.rows)} items named {self.name} have {len(self.at)} places and {len(self.length)} lengths; give each item one place and one length"
            )
        if (self.at < 0).any() or (self.length < 1).any() or (self.at[1:] < (self.at + self.length)[:-1]).any():
            raise ValueError(
                f"items named {self.name} are at the places {self.at.tolist()} with {self.length.tolist()} tokens; the places must ascend and must not overlap"
            )

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """The digest of every item: the digest of the item's `Media`."""
        return tuple(digest_of(self.kind, row, self.rate) for row in self.rows)

    def moved(self, shift: int) -> Seen:
        """The same items at places that are `shift` tokens later. The rows are shared, not copied."""
        made = replace(self, at=(self.at + shift).astype(np.int32))
        if "digests" in self.__dict__:
            made.__dict__["digests"] = self.digests
        return made

    def first(self, count: int) -> Seen:
        """The first `count` items. The rows are shared, not copied."""
        made = replace(self, rows=self.rows[:count], at=self.at[:count], length=self.length[:count])
        if "digests" in self.__dict__:
            made.__dict__["digests"] = self.digests[:count]
        return made

    def since(self, start: int) -> Seen | None:
        """The items that begin at token `start` or later, with places counted from `start`; None if there are no such items. The rows are shared, not copied.
        """
        begin = int(np.searchsorted(self.at, start))
        if begin == len(self.at):
            return None
        made = replace(self, rows=self.rows[begin:], at=(self.at[begin:] - start).astype(np.int32), length=self.length[begin:])
        if "digests" in self.__dict__:
            made.__dict__["digests"] = self.digests[begin:]
        return made

    @cached_property
    def end(self) -> int:
        """The number of the context's own tokens up to the end of the last item."""
        return int(self.at[-1] + self.length[-1]) if len(self.at) else 0


@dataclass(frozen=True, eq=False)
class Context:
    """One contiguous token sequence of a model, exactly as sampled.

    The full sequence is `prefix` (the first tokens of `parent`, stored once for all children) followed by `tokens`.
    `chosen` is True for a token that a player chose, and False for a token of the prompt, of a tool or of an insertion. A prompt has no chosen tokens.
    """

    tokens: np.ndarray  # int32 [T], own tokens
    chosen: np.ndarray  # bool [T]
    logprobs: np.ndarray | None = None  # float32 [A] nats under the sampling policy at `temperature`; None if the policy has none
    versions: np.ndarray | None = None  # int32 [A] number of updates that the sampling weights had at each action
    temperature: float = 1.0
    rewards: tuple[tuple[int, str, float], ...] = ()  # only for actions with a reward: (index of the action in this context, component, value)
    streams: Mapping[str, np.ndarray] = field(default_factory=Frozen)  # arrays with one row per action [A, ...]: latents, turn, state
    parent: tuple[Context, int] | None = None  # the parent, and the position in the parent's sequence at which this context branches off
    ended: Ended = Ended.STOP  # the reason why its last actions ended
    seen: tuple[Seen, ...] = ()  # the media that its own tokens show

    def __post_init__(self) -> None:
        for array in (self.tokens, self.chosen, self.logprobs, self.versions, *self.streams.values()):
            if array is not None:
                array.flags.writeable = False
        if any(seen.end > len(self.tokens) for seen in self.seen):
            last = max(self.seen, key=lambda seen: seen.end)
            raise ValueError(
                f"a context has {len(self.tokens)} tokens (without those of its parent), but its items named {last.name} end at token {last.end}; "
                "give every item its placeholder tokens"
            )
        if self.parent is not None:
            self.parent[0].check_cut(self.parent[1])

    @cached_property
    def prefix(self) -> np.ndarray:
        """The inherited tokens, int32."""
        if self.parent is None:
            return np.zeros(0, dtype=np.int32)
        context, at = self.parent
        return context.sequence[:at]

    @cached_property
    def sequence(self) -> np.ndarray:
        """The prefix followed by the context's own tokens, int32 [prefix + T]."""
        return np.concatenate([self.prefix, self.tokens]) if self.parent is not None else self.tokens

    @cached_property
    def shown(self) -> tuple[Seen, ...]:
        """All media of the sequence, with one entry per combination of name, kind, shape, type and rate. `at` counts from the start of `sequence`."""
        inherited = () if self.parent is None else self.parent[0].shown_in(self.parent[1])
        if not self.seen:
            return inherited
        first = len(self.prefix)
        return columns((*inherited, *(seen.moved(first) if first else seen for seen in self.seen)))

    def shown_in(self, count: int) -> tuple[Seen, ...]:
        """The media that the first `count` tokens of the sequence show."""
        if not self.things:
            return ()
        held = [(seen, int(np.searchsorted(seen.at, count))) for seen in self.shown]
        return tuple(seen if inside == len(seen.at) else seen.first(inside) for seen, inside in held if inside)

    @cached_property
    def things(self) -> tuple[tuple[int, int, str, str], ...]:
        """All media of the sequence, sorted by place: (place, number of tokens, name, digest). The result is empty if the sequence has only text."""
        inherited = [] if self.parent is None else [thing for thing in self.parent[0].things if thing[0] < self.parent[1]]
        if not self.seen:
            return tuple(inherited)
        first = len(self.prefix)
        own = [
            (first + at, length, seen.name, digest)
            for seen in self.seen
            for at, length, digest in zip(seen.at.tolist(), seen.length.tolist(), seen.digests, strict=True)
        ]
        return (*inherited, *sorted(own))

    def check_cut(self, count: int) -> None:
        """Raises ValueError if a cut after `count` tokens would separate the tokens of a picture."""
        if count == len(self.tokens) + (0 if self.parent is None else self.parent[1]):
            return  # the whole sequence
        for at, length, name, digest in self.things:
            if at < count < at + length:
                raise ValueError(
                    f"the cut after {count} tokens lies within the {name} {digest[:8]}, at the tokens {at} to {at + length - 1}; cut at {at} or at {at + length}"
                )

    def until(self, count: int) -> Context:
        """The first `count` tokens of the sequence, with their media, as a prompt. Raises ValueError if the cut goes through a picture."""
        self.check_cut(count)
        return prompt_context(self.sequence[:count], self.shown_in(count))

    def since(self, start: int) -> Context:
        """The tokens of the sequence from `start` on, with their media, as a prompt. If `start` cuts a picture, the whole picture is left out."""
        for at, length, _, _ in self.things:
            start = at + length if at < start < at + length else start
        return prompt_context(self.sequence[start:], tuple(piece for s in self.shown if (piece := s.since(start)) is not None))

    def first(self, count: int) -> Context:
        """This context up to its action number `count`, with the streams, rewards and media of these tokens. A cut context has `Ended.LENGTH`.

        Raises ValueError if the context has fewer actions.
        """
        if count == self.actions:
            return self
        if not 0 <= count < self.actions:
            raise ValueError(f"the first {count} actions were asked for, but the context has {self.actions} actions; give a number from 0 to {self.actions}")
        end = int(np.flatnonzero(self.chosen)[count - 1]) + 1 if count else int(self.chosen.argmax())
        return replace(
            self,
            tokens=self.tokens[:end],
            chosen=self.chosen[:end],
            logprobs=None if self.logprobs is None else self.logprobs[:count],
            versions=None if self.versions is None else self.versions[:count],
            rewards=tuple(row for row in self.rewards if row[0] < count),
            streams=Frozen({name: rows[:count] for name, rows in self.streams.items()}),
            ended=Ended.LENGTH,
            seen=tuple(seen.first(int(seen.at.searchsorted(end))) for seen in self.seen if seen.at[0] < end),
        )

    def beginning(self, count: int) -> bytes:
        """Bytes that identify the first `count` tokens and their media. Equal bytes mean an equal beginning."""
        return identity(self.sequence[:count], [thing for thing in self.things if thing[0] < count])

    def then(self, piece: Context) -> Context:
        """This context followed by `piece`'s own tokens, with their choices, rewards, streams and media.

        Raises ValueError if both contexts have actions and the names of their streams differ.
        """
        tokens, actions = len(self.tokens), self.actions
        mine, theirs = dict(self.streams), dict(piece.streams)
        if actions and piece.actions and mine.keys() != theirs.keys():
            raise ValueError(
                f"the context has the streams {sorted(mine)}, but the piece has {sorted(theirs)}; give the context and the piece the same streams, "
                "because a stream needs a row for every action"
            )
        names = theirs if piece.actions else mine
        streams = {n: np.concatenate([a for a in (mine.get(n), theirs.get(n)) if a is not None and len(a)] or [names[n]]) for n in names}
        return replace(
            self,
            tokens=np.concatenate([self.tokens, piece.tokens]),
            chosen=np.concatenate([self.chosen, piece.chosen]),
            logprobs=_rows(self, piece, "logprobs"),
            versions=_rows(self, piece, "versions"),
            temperature=piece.temperature if piece.actions else self.temperature,
            rewards=(*self.rewards, *((at + actions, name, value) for at, name, value in piece.rewards)),
            streams=Frozen(streams),
            ended=piece.ended if piece.actions else self.ended,
            seen=joined(self.seen, [seen.moved(tokens) for seen in piece.seen]),
        )

    @cached_property
    def actions(self) -> int:
        """The number of actions (A)."""
        return int(self.chosen.sum())

    @cached_property
    def finite(self) -> bool:
        """Whether every behaviour log-probability is finite; True if the context has none."""
        return self.logprobs is None or bool(np.isfinite(self.logprobs).all())

    @cached_property
    def action_positions(self) -> np.ndarray:
        """The position of every action in `sequence`, int64 [A]."""
        return np.flatnonzero(self.chosen) + len(self.prefix)


def prompt_context(tokens: Sequence[int] | np.ndarray, seen: tuple[Seen, ...] = ()) -> Context:
    """Makes a context of these tokens. No token is marked as chosen. `seen`: the media that the tokens show."""
    array = np.array(tokens, dtype=np.int32)  # a copy: contexts freeze their arrays
    none = np.zeros(0, np.int32)
    return Context(tokens=array, chosen=np.zeros(len(array), dtype=bool), logprobs=np.zeros(0, np.float32), versions=none, seen=seen)


def told_context(tokens: Sequence[int] | np.ndarray) -> Context:
    """Makes a piece (a context to append to another context) of given actions. All tokens are marked as chosen, and no token has a log-probability."""
    array = np.array(tokens, dtype=np.int32)
    return Context(array, np.ones(len(array), dtype=bool))


def pieces(tokens: np.ndarray, most: int) -> list[Context]:
    """Cuts tokens [T] into contexts of at most `most` tokens. Every token except the first token of the document is an action in exactly one context.

    Raises UserError if there are fewer than two tokens.
    """
    if len(tokens) < 2:
        raise UserError(f"a document has {len(tokens)} tokens with this tokenizer, so there is no token to predict; leave out documents of fewer than two tokens")
    starts = range(0, len(tokens) - 1, most - 1)
    return [replace(told_context(tokens[at + 1 : at + most]), parent=(prompt_context(tokens[at : at + 1]), 1)) for at in starts]


def after_prompt(prompt: Context) -> Context:
    """Returns a context with one action after the prompt. The value before this action is the value of the prompt; the action itself has no effect."""
    return Context(prompt.sequence[-1:].copy(), np.ones(1, bool), parent=(prompt, len(prompt.sequence)))


def following(tokens: Sequence[int] | np.ndarray, after: Context) -> Context:
    """Makes a piece of tokens that no player chose.

    If `after` already ends with the first of these tokens (the end token that the model sampled), the piece leaves this token out.
    """
    array = np.asarray(tokens, np.int32)
    return prompt_context(array[1:] if len(array) and len(after.tokens) and after.tokens[-1] == array[0] else array)


def identity(tokens: np.ndarray, things: Sequence[tuple[int, int, str, str]] = ()) -> bytes:
    """Bytes that are equal only if the tokens and the media (place, number of tokens, name, digest) are equal. Without media, the result is the bytes of the
    tokens."""
    text = tokens.astype(np.int32, copy=False).tobytes()
    # 17 more bytes: no number of tokens has this length, so a text never equals a text with pictures
    return text if not things else text + b"\0" + hashlib.blake2b(json.dumps(sorted(things)).encode(), digest_size=16).digest()


def _rows(first: Context, second: Context, name: str) -> np.ndarray | None:
    """Joins the rows `name` of two contexts. None if a context with actions has no rows; a context without actions adds no rows."""
    acting = [c for c in (first, second) if c.actions] or [first]
    rows = [getattr(c, name) for c in acting]
    return None if any(r is None for r in rows) else rows[0] if len(rows) == 1 else np.concatenate(rows)


def _sort(seen: Seen) -> tuple[object, ...]:
    return seen.name, seen.kind, seen.rows.shape[1:], seen.rows.dtype.str, seen.rate


def columns(seen: Sequence[Seen]) -> tuple[Seen, ...]:
    """Merges the media, so that there is one entry per combination of name, kind, shape, type and rate."""
    found: dict[tuple[object, ...], list[Seen]] = {}
    for one in seen:
        found.setdefault(_sort(one), []).append(one)
    return tuple(pieces[0] if len(pieces) == 1 else _merged(pieces) for pieces in found.values())


def joined(seen: Sequence[Seen], more: Sequence[Seen]) -> tuple[Seen, ...]:
    """Joins the media of `seen` and of `more`, in this order. The `columns` of the result equal the `columns` of (*seen, *more).

    A new entry is merged with the last entry of the same name, kind, shape, type and rate, unless that entry has more items. So a thousand single observations
    need at most ten entries per name, and each observation is copied at most ten times.
    """
    found = list(seen)
    for one in more:
        place, kind = len(found), _sort(one)
        while (at := next((i for i in reversed(range(place)) if _sort(found[i]) == kind), None)) is not None:
            if len(found[at].rows) > len(one.rows):
                break
            one, place = _merged([found.pop(at), one]), at
        found.insert(place, one)
    return tuple(found)


def _merged(pieces: Sequence[Seen]) -> Seen:
    rows, at, length = (np.concatenate([getattr(p, name) for p in pieces]) for name in ("rows", "at", "length"))
    made = replace(pieces[0], rows=rows, at=at, length=length)
    if all("digests" in p.__dict__ for p in pieces):
        made.__dict__["digests"] = tuple(digest for p in pieces for digest in p.digests)
    return made
