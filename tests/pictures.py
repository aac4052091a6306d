"""Pictures of one colour for tests: as media, in messages, and in contexts with placeholders."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradus.types import Context, Message, Seen, prompt_context
from gradus.types.media import Media

PLACE = 5  # the token of placeholders


def media(colour: int = 0, height: int = 2, width: int = 3) -> Media:
    return Media("image", np.full((height, width, 3), colour, np.uint8))


def message(*colours: int, text: str = "which colour?", role: str = "user") -> Message:
    """A message with pictures before its text."""
    return {"role": role, "content": (*({"type": "image", "media": media(c)} for c in colours), {"type": "text", "text": text})}


def seen(*colours: int, at: tuple[int, ...], length: int = 2) -> Seen:
    rows = np.stack([media(c).array for c in colours])
    return Seen("image", "image", rows, np.array(at, np.int32), np.full(len(at), length, np.int32))


def shown(*colours: int, tail: tuple[int, ...] = (8,)) -> Context:
    """A prompt: token 9, two placeholders for each picture, `tail`. Prompts with as many pictures have equal tokens."""
    tokens = [9, *[PLACE, PLACE] * len(colours), *tail]
    return prompt_context(tokens, (seen(*colours, at=tuple(1 + 2 * i for i in range(len(colours)))),) if colours else ())


def answered(prompt: Context, *tokens: int, **more: Any) -> Context:
    """Chosen tokens after all of a prompt."""
    count = len(tokens)
    rows = np.zeros(count, np.float32), np.zeros(count, np.int32)
    return Context(np.array(tokens, np.int32), np.ones(count, bool), *rows, parent=(prompt, len(prompt.sequence)), **more)
