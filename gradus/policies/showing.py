"""Turns messages with pictures into contexts.

The tokens contain the placeholders of every picture; the context also contains the picture itself, which the model reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gradus.policies.chat import render, render_follow
from gradus.policies.tokenizer import Tokenizer
from gradus.types import Context, Message, Seen, UserError, prompt_context
from gradus.types.media import Media, parts_of, shown
from gradus.types.spaces import Observation


@runtime_checkable
class Eyes(Protocol):
    """The facts that a prompt needs about a model with vision: its placeholder, and the number of placeholders per picture."""

    @property
    def mark(self) -> int: ...
    def count(self, picture: np.ndarray) -> int: ...


@runtime_checkable
class Expands(Protocol):
    """`Eyes` of a model that writes a longer text in place of the placeholder of a picture."""

    def stands_for(self, picture: np.ndarray, mark: str) -> str: ...


@runtime_checkable
class OwnTokens(Protocol):
    """`Eyes` of a model with its own processor. The processor makes the tokens of a text with one placeholder per picture."""

    def tokens(self, text: str, pictures: Sequence[np.ndarray]) -> np.ndarray: ...


def opened(eyes: Eyes, tokenizer: Tokenizer, messages: Sequence[Message]) -> Context:
    """Returns the messages as a prompt, with the start of the assistant's turn."""
    return _shown(eyes, tokenizer, messages, lambda some: render(tokenizer.template, some, tokenizer.specials))


def followed(eyes: Eyes, tokenizer: Tokenizer, messages: Sequence[Message], after: Context) -> Context:
    """Returns the tokens to append to the context `after`, as a context. These tokens end the assistant's turn, contain the messages and start the next turn.
    If
    `after` already ends with the end token, the result does not repeat it.
    """
    piece = _shown(eyes, tokenizer, messages, lambda some: render_follow(tokenizer.template, some, tokenizer.specials))
    ended = len(piece.tokens) and len(after.tokens) and after.tokens[-1] == piece.tokens[0]
    return piece.since(1) if ended else piece


def _shown(eyes: Eyes, tokenizer: Tokenizer, messages: Sequence[Message], render: Callable[[Sequence[Message]], str]) -> Context:
    pictures, mark = shown(messages), tokenizer.name(eyes.mark)
    if mark is None:
        raise UserError(f"the tokenizer has no token {eyes.mark}, which config.json names as the picture's placeholder; copy the model again")
    for media in pictures:
        if media.kind != "image":
            raise UserError(f"a message shows media of the kind {media.kind}, but this model reads only text and pictures; take another task or model")
    text = render([_parts(m, tokenizer.template) for m in messages])
    if text.count(mark) != len(pictures):
        raise UserError(
            f"the messages show {len(pictures)} pictures, but the templated text has {text.count(mark)} placeholders {mark}; correct the chat "
            "template to write one placeholder per picture, and remove placeholders from the messages"
        )
    tokens = _tokens(eyes, tokenizer, text, pictures, mark)
    return prompt_context(tokens, columns(eyes, tokens, pictures))


def _tokens(eyes: Eyes, tokenizer: Tokenizer, text: str, pictures: Sequence[Media], mark: str) -> np.ndarray:
    """Returns the int32 tokens of the text. Every placeholder is replaced by the text for its picture, if the model expands placeholders."""
    if isinstance(eyes, OwnTokens) and pictures:
        return eyes.tokens(text, [media.array for media in pictures])
    first, *rest = text.split(mark)
    whole = [first]
    for media, piece in zip(pictures, rest, strict=True):
        whole += [eyes.stands_for(media.array, mark) if isinstance(eyes, Expands) else mark, piece]
    return np.array(tokenizer.encode("".join(whole), False), np.int32)


def columns(eyes: Eyes, tokens: np.ndarray, pictures: Sequence[Media]) -> tuple[Seen, ...]:
    """Returns the pictures with their positions among the tokens, one entry per size of picture."""
    marks = np.flatnonzero(tokens == eyes.mark)
    ends = np.cumsum([0, *(eyes.count(media.array) for media in pictures)])
    if ends[-1] != len(marks):
        raise UserError(
            f"{len(pictures)} pictures need {ends[-1]} placeholder tokens, but the tokenizer makes {len(marks)} of them; add the placeholder to "
            "tokenizer.json as a special token"
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
    """Returns the message in the form that the template reads.

    The content becomes a list of parts if the template iterates over parts and does not check for plain text.
    """
    if isinstance(message.get("content"), str) and "content" in template and "is string" not in template and _goes_over_parts(template):
        return {**message, "content": list(parts_of(message))}
    return message


def _goes_over_parts(template: str) -> bool:
    return any(form in template for form in ("in message['content']", 'in message["content"]', "in message.content", "message['content'] |"))


def readable(observation: Observation) -> str | Sequence[Message]:
    """Returns the observation if it is text or messages. Raises UserError for arrays, and for media that the model does not read."""
    if isinstance(observation, Mapping):
        names = ", ".join(map(str, observation))
        raise UserError(f"a language model reads text, but the environment shows the arrays {names}; use an environment that shows text, or take a controller")
    if not isinstance(observation, str) and (media := shown(observation)):
        raise UserError(f"this language model reads only text, but the environment shows {media[0]!r}; take a model that reads {media[0].kind}")
    return observation
