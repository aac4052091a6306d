"""Decodes the pictures in the rows of a file, and inserts them into the messages.

A picture is a path, a data URI, bytes, or a picture of the package `datasets`; Pillow decodes it. The pictures of a row are in its column `images`
(or `image`, if the values of that column are pictures). Placeholders of the pictures are the parts {"type": "image"} of the messages, or the words <image> in
the text. Without placeholders, the pictures come before the text of the first user message. A part may also contain its picture, in the
forms of chat templates and of the OpenAI interface: {"type": "image", "image": ...}, {"type": "image_url", ...}.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gradus.tasks.data.files import RowError, kind
from gradus.types import Message, UserError
from gradus.types.media import Media, parts_of

COLUMNS = ("images", "image")
MARK = "<image>"
_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm")
_URI = re.compile(r"data:[\w/+.-]*(;[\w=.-]+)*;base64,", re.IGNORECASE)
_REMEDY = "name a file, or give a data URI or the bytes of a file"


def pictures_of(row: Mapping[str, Any], folder: Path, where: str) -> list[Media]:
    """Reads the pictures in a row's column of pictures, in order. Without such a column the list is empty.

    Raises RowError, which names the row, for a picture that cannot be read.
    """
    column = next((name for name in COLUMNS if _several(row.get(name))), None)
    if column is None or (column == "image" and not all(map(_looks_like_one, _several(row[column])))):
        return []
    return [picture(one, folder, where, column) for one in _several(row[column])]


def _several(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def _looks_like_one(value: Any) -> bool:
    """Returns whether a value of the column `image` is a picture. Text in this column can mean something else, such as the name of a disk image."""
    if isinstance(value, str):
        return bool(_URI.match(value)) or value.lower().endswith(_ENDINGS)
    return isinstance(value, bytes) or hasattr(value, "convert") or (isinstance(value, Mapping) and {"bytes", "path"} & set(value) != set())


def with_pictures(messages: tuple[Message, ...], pictures: Sequence[Media], where: str, column: str) -> tuple[Message, ...]:
    """Replaces the placeholders in the messages by the pictures. Raises RowError if the number of placeholders differs from the number of pictures."""
    parts = [parts_of(m) if isinstance(m["content"], list | tuple) else None for m in messages]
    places = sum(_is_place(part) for several in parts if several is not None for part in several)
    marks = sum(m["content"].count(MARK) for m in messages if isinstance(m["content"], str)) if pictures and not places else 0
    if places or marks:
        if (places or marks) != len(pictures):
            what = 'parts {"type": "image"}' if places else MARK
            raise RowError(where, f"has {places or marks} places for pictures ({what}), but the row has {len(pictures)} pictures; write a place for each", column)
        left = iter(pictures)
        return tuple(
            {**m, "content": tuple(_filled(several, left))} if several is not None else _marked(m, left) if marks else m
            for m, several in zip(messages, parts, strict=True)
        )
    if not pictures:
        return tuple(m if several is None else {**m, "content": several} for m, several in zip(messages, parts, strict=True))
    first = next((i for i, m in enumerate(messages) if m["role"] == "user"), None)
    if first is None:
        raise RowError(where, "has no user message for the pictures; add one", column)
    before = tuple({"type": "image", "media": media} for media in pictures)
    return tuple({**m, "content": (*before, *parts_of(m))} if i == first else m for i, m in enumerate(messages))


def part(value: Any, folder: Path, where: str, which: str) -> dict[str, Any]:
    """Reads one part of a message's content and decodes its picture. A part {"type": "image"} without a picture stays as it is.

    Raises RowError, which names the row, for a value that is neither text nor picture.
    """
    if not isinstance(value, Mapping):
        raise RowError(where, f'{which}: a part of "content" is {kind(value)}; it must be an object with "type"')
    sort = value.get("type")
    if sort == "text" and isinstance(value.get("text"), str):
        return {"type": "text", "text": value["text"]}
    if sort in ("image", "image_url", "input_image"):
        held = next((value[name] for name in ("image", "image_url", "url", "path", "base64", "bytes") if value.get(name) is not None), None)
        held = held.get("url") if sort != "image" and isinstance(held, Mapping) else held
        return {"type": "image"} if held is None else {"type": "image", "media": picture(held, folder, where, which)}
    raise RowError(where, f'{which}: a part of "content" has the type {sort!r}; the type must be text, image or image_url')


def picture(value: Any, folder: Path, where: str, column: str) -> Media:
    """Reads one picture as media. Relative paths start at `folder`. Raises RowError, which names the row, if the picture cannot be read."""
    try:
        if hasattr(value, "convert") and hasattr(value, "size"):  # Pillow's own, as the package datasets gives it
            return _media(value)
        if isinstance(value, Mapping) and value.get("bytes") is not None:
            value = value["bytes"]
        elif isinstance(value, Mapping):
            value = value.get("path")
        if isinstance(value, bytes):
            return decoded(value)
        if not isinstance(value, str) or not value.strip():
            raise RowError(where, f"contains {kind(value)} in place of a picture; {_REMEDY}", column)
        if match := _URI.match(value):
            return decoded(base64.b64decode(value[match.end() :], validate=True))
        return _of_text(value, folder, where, column)
    except (OSError, ValueError, SyntaxError, binascii.Error) as error:
        if isinstance(error, UserError):
            raise
        said = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
        if "cannot identify image file" in said:
            said = "it is not a picture, or it is damaged"
        name = f"the picture {_short(value)}" if isinstance(value, str) else "a picture"
        raise RowError(where, f"contains {name}, which cannot be read: {said}; {_REMEDY}", column) from None


def _of_text(value: str, folder: Path, where: str, column: str) -> Media:
    """Reads a picture from a path or from bare base64."""
    if re.match(r"[a-z][a-z0-9+.-]+://", value, re.IGNORECASE) and not value.lower().startswith("file://"):
        raise RowError(where, f"names the picture {_short(value)} on the network; save the picture, and name its file", column)
    path = folder / value.removeprefix("file://")
    try:
        state = path.stat()
    except (OSError, ValueError):
        if len(value) >= 64 and re.fullmatch(r"[A-Za-z0-9+/\s]+={0,2}\s*", value):
            return decoded(base64.b64decode(value))
        raise RowError(where, f"names the picture {_short(value)}, but there is no file {path!s:.200}; {_REMEDY}", column) from None
    return _of_file(str(path), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _of_file(path: str, size: int, changed: int) -> Media:
    """Reads the picture in a file. A file that was read recently is decoded again only if its size or its time of change (`changed`) differs."""
    return decoded(Path(path).read_bytes())


def decoded(data: bytes) -> Media:
    """Decodes the bytes of a picture's file. Raises OSError or ValueError if Pillow cannot read the bytes, and UserError if Pillow is not installed."""
    import warnings

    image = pillow()
    with warnings.catch_warnings():
        warnings.simplefilter("error", image.DecompressionBombWarning)
        try:
            return _media(image.open(io.BytesIO(data)))
        except (image.DecompressionBombWarning, image.DecompressionBombError) as error:
            raise ValueError(str(error).partition(",")[0]) from None


def _media(opened: Any) -> Media:
    """Converts a picture to RGB as programs show it: rotated by its EXIF data, with transparent parts on white. An animation gives its first frame."""
    from PIL import Image, ImageOps

    opened = ImageOps.exif_transpose(opened)
    if opened.mode.startswith("I;16"):  # 16 bits of grey
        opened = Image.fromarray((np.asarray(opened) >> 8).astype(np.uint8))
    if opened.mode in ("RGBA", "LA", "PA") or "transparency" in opened.info:
        opened = opened.convert("RGBA")
        opened = Image.alpha_composite(Image.new("RGBA", opened.size, "white"), opened)
    return Media("image", np.array(opened.convert("RGB"), np.uint8))


def pillow() -> Any:
    """Returns Pillow's module Image. Raises UserError if Pillow is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise UserError('pictures of files need the package Pillow; install it: pip install "gradus[pictures]"') from None
    return Image


def _is_place(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "image" and "media" not in part


def _filled(parts: Sequence[Mapping[str, Any]], left: Iterator[Media]) -> Iterator[Mapping[str, Any]]:
    for each in parts:
        yield {"type": "image", "media": next(left)} if _is_place(each) else each


def _marked(message: Message, left: Iterator[Media]) -> Message:
    """Replaces every mark <image> in the text of a message by the next picture."""
    if MARK not in message["content"]:
        return message
    parts: list[dict[str, Any]] = []
    for i, text in enumerate(message["content"].split(MARK)):
        parts += [{"type": "image", "media": next(left)}] if i else []
        parts += [{"type": "text", "text": text}] if text else []
    return {**message, "content": tuple(parts)}


def _short(value: str) -> str:
    return value if len(value) <= 60 else f"{value[:40]}..."
