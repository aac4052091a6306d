"""Converts media, and the media in contexts, to plain forms for messages between processes and for files.

The positions of media are stored as JSON; each array is stored separately under its digest.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradus.types.contexts import Context, Seen, columns
from gradus.types.frozen import Frozen
from gradus.types.media import Media, digest_of, shown

Take = Callable[[str], np.ndarray]
"""Returns the array with this digest. Raises KeyError for an unknown digest."""


def described(context: Context) -> list[dict[str, Any]]:
    """The media of a context's own tokens as JSON, with digests in place of arrays. A `Seen` of kind "array" has one digest for all its rows."""
    return [
        {
            **{"name": s.name, "kind": s.kind, "rate": s.rate, "at": s.at.tolist(), "length": s.length.tolist()},
            **({"block": digest_of("block", s.rows)} if s.kind == "array" else {"rows": list(s.digests)}),
        }
        for s in columns(context.seen)
    ]


def seen_from(described: Sequence[Mapping[str, Any]], take: Take) -> tuple[Seen, ...]:
    """The inverse of `described`."""
    return tuple(
        Seen(s["name"], s["kind"], _rows(s, take), np.array(s["at"], np.int32), np.array(s["length"], np.int32), s["rate"]) for s in described
    )


def _rows(described: Mapping[str, Any], take: Take) -> np.ndarray:
    return take(described["block"]).copy() if "block" in described else np.stack([take(digest) for digest in described["rows"]])


def arrays_of(contexts: Iterable[Context], messages: Iterable[Sequence[Mapping[str, Any]]] = ()) -> dict[str, np.ndarray]:
    """A mapping digest -> array of all media in the contexts' own tokens and in the messages. The mapping contains each array once."""
    found: dict[str, np.ndarray] = {}
    for context in contexts:
        for seen in columns(context.seen):
            if seen.kind == "array":
                found.setdefault(digest_of("block", seen.rows), seen.rows)
                continue
            for digest, row in zip(seen.digests, seen.rows, strict=True):
                found.setdefault(digest, row)
    for several in messages:
        for media in shown(several):
            found.setdefault(media.digest, media.array)
    return found


def reference(media: Media) -> dict[str, Any]:
    """The media as JSON, without its array."""
    return {"kind": media.kind, "rate": media.rate, "shape": list(media.array.shape), "digest": media.digest}


def restored(message: Mapping[str, Any], take: Take) -> Mapping[str, Any]:
    """Replaces the references in a message by media. `take` gives the array of a digest. A message of text is returned unchanged."""
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        return message
    return Frozen({**message, "content": tuple(_restored(part, take) for part in content)})


def _restored(part: Any, take: Take) -> Any:
    held = part.get("media") if isinstance(part, Mapping) else None
    if not (isinstance(held, Mapping) and "digest" in held):
        return Frozen(part) if isinstance(part, dict) else part
    return Frozen({**part, "media": Media(held["kind"], take(held["digest"]), held["rate"])})


def written(media: Media) -> dict[str, Any]:
    """The media as JSON together with its array, for a process that has no other way to get the array."""
    data = base64.b64encode(media.array.tobytes()).decode()
    return {"kind": media.kind, "rate": media.rate, "dtype": media.array.dtype.str, "shape": list(media.array.shape), "data": data}


def read(plain: Mapping[str, Any]) -> Media:
    """The inverse of `written`."""
    array = np.frombuffer(base64.b64decode(plain["data"]), plain["dtype"]).reshape(plain["shape"])
    return Media(plain["kind"], array, plain["rate"])
