"""Messages with pictures as contexts: the placeholders of every picture among the tokens, and the picture as it is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from gradus.policies.chat import render, render_follow
from gradus.policies.tokenizer import Tokenizer
from gradus.types import Context, Message, Seen, UserError, prompt_context
from gradus.types.media import Media, parts_of, shown


class Eyes(Protocol):
    """What a prompt needs to know of a model that reads pictures: the placeholder, and the text that stands for a picture."""

    @property
    def mark(self) -> int: ...
    def count(self, picture: np.ndarray) -> int: ...
    def stands_for(self, picture: np.ndarray, mark: str) -> str: ...


def opened(eyes: Eyes, tokenizer: Tokenizer, messages: Sequence[Message]) -> Context:
    """The prompt of messages with the start of the assistant's turn."""
    return _shown(eyes, tokenizer, messages, lambda some: render(tokenizer.template, some, tokenizer.specials))


def followed(eyes: Eyes, tokenizer: Tokenizer, messages: Sequence[Message]) -> Context:
    """The piece that ends the assistant's turn, gives the messages and starts the next turn."""
    return _shown(eyes, tokenizer, messages, lambda some: render_follow(tokenizer.template, some, tokenizer.specials))


def _shown(eyes: Eyes, tokenizer: Tokenizer, messages: Sequence[Message], render: Callable[[Sequence[Message]], str]) -> Context:
    pictures, mark = shown(messages), tokenizer.name(eyes.mark)
    if mark is None:
        raise UserError(f"the tokenizer has no token {eyes.mark}, which config.json names as the picture's placeholder; copy the model again")
    for media in pictures:
        if media.kind != "image":
            raise UserError(f"a message shows {media.kind}, but this model reads pictures; take another task or model")
    pieces = render([_parts(m, tokenizer.template) for m in messages]).split(mark)
    if len(pieces) - 1 != len(pictures):
        raise UserError(
            f"the messages show {len(pictures)} pictures, but their text has {len(pieces) - 1} placeholders {mark}; "
            "the chat template must write one for every picture, and the text none"
        )
    text = [pieces[0]]
    for media, piece in zip(pictures, pieces[1:], strict=True):
        text += [eyes.stands_for(media.array, mark), piece]
    tokens = np.array(tokenizer.encode("".join(text), False), np.int32)
    return prompt_context(tokens, columns(eyes, tokens, pictures))


def columns(eyes: Eyes, tokens: np.ndarray, pictures: Sequence[Media]) -> tuple[Seen, ...]:
    """The pictures with their places among the tokens, one entry per size."""
    marks = np.flatnonzero(tokens == eyes.mark)
    ends = np.cumsum([0, *(eyes.count(media.array) for media in pictures)])
    if ends[-1] != len(marks):
        raise UserError(
            f"{len(pictures)} pictures need {ends[-1]} placeholder tokens, but the tokenizer makes {len(marks)}; "
            "tokenizer.json must have the placeholder as a special token"
        )
    found: dict[tuple[int, ...], list[tuple[Media, int, int]]] = {}
    for media, start, stop in zip(pictures, ends, ends[1:], strict=False):
        at = int(marks[start])
        found.setdefault(media.array.shape, []).append((media, at, int(marks[stop - 1]) + 1 - at))
    return tuple(_column(entries) for entries in found.values())


def _column(entries: Sequence[tuple[Media, int, int]]) -> Seen:
    rows = np.stack([media.array for media, _, _ in entries])
    at, length = (np.array([entry[i] for entry in entries], np.int32) for i in (1, 2))
    return Seen("image", "image", rows, at, length)


def _parts(message: Message, template: str) -> Mapping[str, Any]:
    """The message as the template reads it: with parts for a template that goes over them without asking for plain text."""
    if isinstance(message.get("content"), str) and "content" in template and "is string" not in template and _goes_over_parts(template):
        return {**message, "content": list(parts_of(message))}
    return message


def _goes_over_parts(template: str) -> bool:
    return any(form in template for form in ("in message['content']", 'in message["content"]', "in message.content", "message['content'] |"))
