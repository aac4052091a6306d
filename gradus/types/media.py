"""Media in messages: pictures, videos, sound and arrays, with a digest that identifies them.

The content of a message is text, or a tuple of parts: {"type": "text", "text": "..."} or {"type": "image", "media": Media}. Chat templates and TRL use the
same form. A record contains the unprepared pixels, and each model prepares them itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

Part: TypeAlias = Mapping[str, Any]
KINDS = ("image", "video", "audio", "array")


@dataclass(frozen=True, eq=False)
class Media:
    """One picture, video, sound or array, before a model prepares it. Two media are equal if their digests are equal.

    Shapes: image uint8 [H, W, 3]; video uint8 [F, H, W, 3]; audio float32 [N]; array: any numbers.
    """

    kind: str
    array: np.ndarray  # read-only and contiguous
    rate: float | None = None  # frames or samples per second

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f'unknown kind of media "{self.kind}"; the kinds are {", ".join(KINDS)}')
        array = np.ascontiguousarray(self.array)
        due = {"image": (3, np.uint8), "video": (4, np.uint8), "audio": (1, np.float32)}.get(self.kind)
        pixels = self.kind in ("image", "video")
        if due is not None and (array.ndim != due[0] or array.dtype != due[1] or (pixels and array.shape[-1] != 3)):
            form = {"image": "uint8 [height, width, 3]", "video": "uint8 [frames, height, width, 3]", "audio": "float32 [samples]"}[self.kind]
            raise ValueError(f"the array of {self.kind} media is {array.dtype} {list(array.shape)}; it must be {form}")
        if array.dtype.hasobject or (pixels and 0 in array.shape):
            remedy = "it must contain numbers, and a picture must have at least one pixel"
            raise ValueError(f"the array of {self.kind} media is {array.dtype} {list(array.shape)}; {remedy}")
        if _writeable(array) and (array is self.array or np.shares_memory(array, self.array)):
            array = array.copy()
        array.flags.writeable = False
        object.__setattr__(self, "array", array)

    @cached_property
    def digest(self) -> str:
        """Hexadecimal blake2b hash (16 bytes) of kind, type, shape, rate and bytes."""
        return digest_of(self.kind, self.array, self.rate)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Media) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Media({self.kind}, {self.array.dtype} {list(self.array.shape)}, {self.digest[:8]})"


def _writeable(array: np.ndarray) -> bool:
    """Whether code can change the array's memory: through the array itself or through its base array."""
    return array.flags.writeable or (isinstance(array.base, np.ndarray) and _writeable(array.base))


def digest_of(kind: str, array: np.ndarray, rate: float | None = None) -> str:
    """Hexadecimal blake2b hash (16 bytes) of an array with its kind and rate."""
    head = f"{kind} {array.dtype.str} {array.shape} {None if rate is None else float(rate)}\n".encode()
    return hashlib.blake2b(head + np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()


def parts_of(message: Mapping[str, Any]) -> tuple[Part, ...]:
    """The content of a message as parts. Text is one part."""
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        return tuple(content)
    return ({"type": "text", "text": "" if content is None else str(content)},)


def is_part(value: Any) -> bool:
    """Whether a value is a part of a message's content: a text, or media with its kind."""
    if not isinstance(value, Mapping):
        return False
    media = value.get("media")
    return (value.get("type") == "text" and isinstance(value.get("text"), str)) or (isinstance(media, Media) and value.get("type") == media.kind)


def words(message: Mapping[str, Any]) -> str:
    """The text of a message without its media."""
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        return "".join(str(part.get("text", "")) for part in content if part.get("type") == "text")
    return "" if content is None else str(content)


def shown(messages: Sequence[Mapping[str, Any]]) -> tuple[Media, ...]:
    """The media of messages, in order."""
    return tuple(_media(messages))


def _media(messages: Sequence[Mapping[str, Any]]) -> Iterator[Media]:
    for message in messages:
        for part in parts_of(message):
            if isinstance(part.get("media"), Media):
                yield part["media"]


def printed(part: Part) -> str:
    """A part of a message's content as readable text: its text, or a label such as "[image 48x48 ab12cd34]" (width, height, start of the digest)."""
    media = part.get("media")
    if isinstance(media, Mapping) and "digest" in media:  # the form of a reference in a file
        return f"[{label(media['kind'], media['shape'], media['digest'])}]"
    if not isinstance(media, Media):
        return str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type')}]"
    return f"[{label(media.kind, media.array.shape, media.digest)}]"


def label(kind: str, shape: Sequence[int], digest: str) -> str:
    """The label of media in a text: "image 48x48 ab12cd34", "video 8 x 48x48 ab12cd34", "audio 16000 ab12cd34", "array 3x4 ab12cd34"."""
    if kind == "image":
        size = f"{shape[1]}x{shape[0]}"
    elif kind == "video":
        size = f"{shape[0]} x {shape[2]}x{shape[1]}"
    else:
        size = "x".join(map(str, shape))
    return f"{kind} {size} {digest[:8]}"


def readable(message: Mapping[str, Any]) -> str:
    """The content of a message as readable text. Text is unchanged."""
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        return "".join(printed(part) for part in content)
    return "" if content is None else str(content)


def changed(message: Mapping[str, Any], before: str = "", after: str = "") -> dict[str, Any]:
    """A copy of the message with the text `before` added at the start of its content, and `after` at the end. The media keep their order."""
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        return {**message, "content": (*_text(before), *content, *_text(after))}
    return {**message, "content": f"{before}{content}{after}"}


def _text(text: str) -> tuple[Part, ...]:
    return ({"type": "text", "text": text},) if text else ()
