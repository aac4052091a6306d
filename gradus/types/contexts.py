"""A context: one contiguous sequence of a model, with what it chose, what it was shown, and where it left its parent."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gradus.types.frozen import Frozen
from gradus.types.media import digest_of


class Ended(enum.Enum):
    """Why a trajectory ended."""

    STOP = "stop"  # the model emitted its end token or a stop string
    LENGTH = "length"  # the limit on new tokens was reached
    CONTEXT = "context"  # the model's context was full
    ENVIRONMENT = "environment"  # the environment terminated the episode
    TRUNCATED = "truncated"  # the environment cut the episode (turn limit)
    FAILED = "failed"  # the environment or a tool raised


@dataclass(frozen=True, eq=False)
class Seen:
    """Things of one shape that a context shows between its tokens: pictures, vectors. Thing i takes `length[i]` own tokens from `at[i]` on."""

    name: str  # "image", or the name of an array of the observation
    kind: str  # as in `types.media.KINDS`
    rows: np.ndarray  # [n, ...]
    at: np.ndarray  # int32 [n] index among the own tokens, ascending
    length: np.ndarray  # int32 [n] tokens that it takes (placeholders of a picture); 1 for an array
    rate: float | None = None  # frames or samples a second

    def __post_init__(self) -> None:
        for array in (self.rows, self.at, self.length):
            array.flags.writeable = False

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """The digest of every thing; equal to that of the `Media` that it was made from."""
        return tuple(digest_of(self.kind, row, self.rate) for row in self.rows)

    def rows_at(self, chosen: np.ndarray, shift: int = 0) -> Seen:
        """The chosen things, moved by `shift` tokens."""
        return replace(self, rows=self.rows[chosen], at=(self.at[chosen] + shift).astype(np.int32), length=self.length[chosen])


@dataclass(frozen=True, eq=False)
class Context:
    """One contiguous token sequence of a model, exactly as sampled.

    The full sequence is `prefix` (the first tokens of `parent`, stored once for all children) followed by `tokens`.
    `chosen` marks the own tokens that a player chose; it is False for prompt, tool and inserted tokens. A prompt has no chosen tokens.
    """

    tokens: np.ndarray  # int32 [T], own tokens
    chosen: np.ndarray  # bool [T]
    logprobs: np.ndarray | None = None  # float32 [A] nats under the sampling policy at `temperature`; None if the policy has none
    versions: np.ndarray | None = None  # int32 [A] number of updates of the weights that chose the action
    temperature: float = 1.0
    rewards: tuple[tuple[int, str, float], ...] = ()  # sparse: (action index in this context, component, value)
    streams: Mapping[str, np.ndarray] = field(default_factory=Frozen)  # arrays aligned with the actions [A, ...]: latents, turn, state
    parent: tuple[Context, int] | None = None  # the parent context, and the position in its full sequence where this one branches off
    ended: Ended = Ended.STOP  # why its last actions ended
    seen: tuple[Seen, ...] = ()  # what its own tokens show

    def __post_init__(self) -> None:
        for array in (self.tokens, self.chosen, self.logprobs, self.versions, *self.streams.values()):
            if array is not None:
                array.flags.writeable = False

    @cached_property
    def prefix(self) -> np.ndarray:
        """The inherited tokens, int32."""
        if self.parent is None:
            return np.zeros(0, dtype=np.int32)
        context, at = self.parent
        return context.sequence[:at]

    @cached_property
    def sequence(self) -> np.ndarray:
        """Prefix and own tokens, int32 [prefix + T]."""
        return np.concatenate([self.prefix, self.tokens]) if self.parent is not None else self.tokens

    @cached_property
    def shown(self) -> tuple[Seen, ...]:
        """Everything that the sequence shows, one entry per name, shape and kind; `at` counts from the start of `sequence`."""
        found: dict[tuple[object, ...], list[Seen]] = {}
        if self.parent is not None:
            context, at = self.parent
            for seen in context.shown:
                if (inside := seen.at < at).any():
                    found.setdefault(_sort(seen), []).append(seen if inside.all() else seen.rows_at(inside))
        first = len(self.prefix)
        for seen in self.seen:
            moved = seen.rows_at(np.arange(len(seen.at)), first) if first else seen
            found.setdefault(_sort(seen), []).append(moved)
        return tuple(pieces[0] if len(pieces) == 1 else _merged(pieces) for pieces in found.values())

    def beginning(self, count: int) -> bytes:
        """The identity of the first `count` tokens: the tokens, and the digests of what they show. Equal bytes mean an equal beginning."""
        tokens = self.sequence[:count].astype(np.int32, copy=False).tobytes()
        things = [
            f"{at}+{length}:{seen.name}:{digest}"
            for seen in self.shown
            for at, length, digest in zip(seen.at.tolist(), seen.length.tolist(), seen.digests, strict=True)
            if at < count
        ]
        return tokens if not things else tokens + b"\0shown\0" + "\n".join(sorted(things)).encode()

    def then(self, piece: Context) -> Context:
        """This context continued by the own tokens of a piece: tokens, choices, rewards, streams and what is shown.

        Raises ValueError if both have actions and their streams have different names.
        """
        tokens, actions = len(self.tokens), self.actions
        mine, theirs = dict(self.streams), dict(piece.streams)
        if actions and piece.actions and mine.keys() != theirs.keys():
            raise ValueError(f"the context has the streams {sorted(mine)}, the piece {sorted(theirs)}; a stream needs a row for every action")
        names = theirs if piece.actions else mine
        streams = {n: np.concatenate([a for a in (mine.get(n), theirs.get(n)) if a is not None and len(a)] or [names[n]]) for n in names}
        return replace(
            self,
            tokens=np.concatenate([self.tokens, piece.tokens]),
            chosen=np.concatenate([self.chosen, piece.chosen]),
            logprobs=_joined(self.logprobs, piece.logprobs),
            versions=_joined(self.versions, piece.versions),
            temperature=piece.temperature if piece.actions else self.temperature,
            rewards=(*self.rewards, *((at + actions, name, value) for at, name, value in piece.rewards)),
            streams=Frozen(streams),
            ended=piece.ended if piece.actions else self.ended,
            seen=(*self.seen, *(s.rows_at(np.arange(len(s.at)), tokens) for s in piece.seen)),
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


def prompt_context(tokens: Sequence[int] | np.ndarray) -> Context:
    """A context of these tokens, none of them chosen."""
    array = np.array(tokens, dtype=np.int32)  # a copy: contexts freeze their arrays
    return Context(tokens=array, chosen=np.zeros(len(array), dtype=bool), logprobs=np.zeros(0, np.float32), versions=np.zeros(0, np.int32))


def told_context(tokens: Sequence[int] | np.ndarray) -> Context:
    """A piece of given actions: all tokens are chosen, and none has a log-probability."""
    array = np.array(tokens, dtype=np.int32)
    return Context(array, np.ones(len(array), dtype=bool))


def following(tokens: Sequence[int] | np.ndarray, after: Context) -> Context:
    """A piece of tokens that no player chose; without the first one if `after` already ended with it (the sampled end token)."""
    array = np.asarray(tokens, np.int32)
    return prompt_context(array[1:] if len(array) and len(after.tokens) and after.tokens[-1] == array[0] else array)


def _joined(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    """Rows of all actions; None if one of the two has none."""
    return None if first is None or second is None else np.concatenate([first, second])


def _sort(seen: Seen) -> tuple[object, ...]:
    return seen.name, seen.kind, seen.rows.shape[1:], seen.rows.dtype.str, seen.rate


def _merged(pieces: Sequence[Seen]) -> Seen:
    rows, at, length = (np.concatenate([getattr(p, name) for p in pieces]) for name in ("rows", "at", "length"))
    return replace(pieces[0], rows=rows, at=at, length=length)
