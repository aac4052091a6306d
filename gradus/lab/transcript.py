"""A trajectory as text: the turns of the player with the observations between them, or the sample of a flow generator."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradus.lab import checkpoints
from gradus.types import Context, Trajectory, UserError
from gradus.types.media import Media, printed

Decode = Callable[[Sequence[int]], str]
_NUMBERS = 16  # a sample of a flow generator appears as numbers if it has at most this many


@dataclass(frozen=True)
class Segment:
    """A stretch of a context.

    `own`: whether the player chose the tokens. Other tokens are part of the prompt, of an observation or of other given text.
    """

    own: bool
    text: str  # media appear as "[image 48x48 ab12cd34]"
    media: tuple[Media, ...] = ()  # the media that the stretch shows


def decoder(run: Path) -> Decode | None:
    """Returns a function that turns tokens into text, from the run's newest readable model; None if no checkpoint has a tokenizer."""
    from gradus.policies.tokenizer import load_tokenizer

    for path in reversed(checkpoints.steps(run).values()):
        try:
            tokenizer = load_tokenizer(path / "model")
        except (UserError, OSError):
            continue
        if tokenizer is not None:
            return tokenizer.text
    return None


def many_turns(trajectory: Trajectory) -> bool:
    """Whether the trajectory is an episode, has several contexts, or has given text between chosen tokens."""
    return len(trajectory.contexts) > 1 or any("turn" in c.streams or len(_runs(c)) > 2 for c in trajectory.contexts)


def segments(trajectory: Trajectory, decode: Decode) -> list[list[Segment]]:
    """Returns the text of each context in stretches, in order. A stretch consists of given tokens or of chosen tokens."""
    return [
        [Segment(own, *_read(c, start, stop, decode)) for own, start, stop in _runs(c)]
        for c in trajectory.contexts
    ]


def _read(context: Context, start: int, stop: int, decode: Decode) -> tuple[str, tuple[Media, ...]]:
    """Returns the text of a stretch and its pictures. A label replaces the tokens of a picture. Arrays for controllers have no text."""
    tokens, text, at, found = context.sequence, "", start, []
    shown = sorted(
        (
            (int(place), int(length), Media(s.kind, row, s.rate))
            for s in context.shown
            if s.kind != "array"
            for place, length, row in zip(s.at, s.length, s.rows, strict=True)
        ),
        key=lambda thing: thing[0],
    )
    for place, length, media in shown:
        if start <= place < stop:
            text += decode([int(token) for token in tokens[at:place]]) + printed({"media": media})
            at = min(stop, place + length)
            found.append(media)
    return text + decode([int(token) for token in tokens[at:stop]]), tuple(found)


def _runs(context: Context) -> list[tuple[bool, int, int]]:
    """Yields (chosen, start, stop) for every stretch of a context's sequence. Tokens that were chosen in a parent context count as given."""
    mask = np.concatenate([np.zeros(len(context.prefix), bool), context.chosen])
    edges = [0, *(np.flatnonzero(mask[1:] != mask[:-1]) + 1).tolist(), len(mask)]
    return [(bool(mask[start]), start, stop) for start, stop in itertools.pairwise(edges) if stop > start]


def sample(trajectory: Trajectory) -> str:
    """Returns the sample of a flow generator as numbers, or its shape if it is large; '' for a trajectory of tokens."""
    rows = trajectory.contexts[-1].streams.get("sample") if trajectory.contexts else None
    if rows is None or not len(rows):
        return ""
    last = np.asarray(rows[-1])
    if last.size > _NUMBERS:
        return f"sample of shape {' x '.join(map(str, last.shape))}"
    return f"sample ({', '.join(f'{value:.3f}' for value in last.ravel().tolist())})"
