"""Links: the connections between the leading process and one worker. All links carry the same messages: plain JSON and tensors, no pickle.

The leading process asks, and the worker answers every question once, in order. A link only moves messages, so the same worker can run in a child process
(`ProcessLink`), in a process of torch.distributed (`Channel`) or in an actor of Ray (`RayLink`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from gradus.types import UserError
from gradus.types.errors import RaisedElsewhere

if TYPE_CHECKING:
    from torch import Tensor

Message = tuple[dict[str, Any], dict[str, "Tensor"]]
"""A document and its tensors."""

HEADER = struct.Struct("<QQ")
"""The first bytes of a message: the lengths of the document and of the tensors, in bytes."""


class Closed(Exception):
    """Raised if the other process has ended."""


class Link(Protocol):
    """A connection to one worker. Only one thread may use a link at a time, but any thread may call `close`."""

    def send(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor] | None = None) -> None:
        """Sends a document with tensors. Raises Closed if the worker has ended."""
        ...

    def receive(self, timeout: float | None = None) -> Message:
        """Returns the next message, with writable tensors. Raises Closed if the worker has ended.

        Raises TimeoutError after `timeout` seconds (None: no limit). The message is not lost then, because the next `receive` waits for it again.
        """
        ...

    @property
    def alive(self) -> bool:
        """Whether the worker runs, as far as this process knows."""
        ...

    @property
    def ending(self) -> str:
        """The end of the worker in words, such as "was killed by SIGKILL"; empty if the worker runs or if the reason is unknown."""
        ...

    def close(self) -> None:
        """Ends the worker at once, even in the middle of its work. A `receive` in another thread then raises Closed."""
        ...


def framed(document: Mapping[str, Any], arrays: Mapping[str, Tensor] | None = None) -> bytes:
    """Returns a message as bytes: the two lengths, the JSON, and the tensors as the bytes of a safetensors file."""
    words, packed = json.dumps(document).encode(), packed_arrays(arrays or {})
    return HEADER.pack(len(words), len(packed)) + words + packed


def unframed(data: bytes | bytearray | memoryview) -> Message:
    """Reads the bytes that `framed` made. Raises ValueError if the bytes are not one whole message."""
    view = memoryview(data)
    if (size := frame_size(view)) != len(view):
        raise ValueError(f"the message has {len(view)} bytes, but its header gives the length {size}")
    words, _ = HEADER.unpack(view[: HEADER.size])
    cut = HEADER.size + words
    return json.loads(bytes(view[HEADER.size : cut])), unpacked_arrays(bytes(view[cut:]))


def frame_size(start: bytes | bytearray | memoryview) -> int | None:
    """Returns the number of bytes of the message that begins with these bytes; None if the bytes do not contain its whole header."""
    return None if len(start) < HEADER.size else HEADER.size + sum(HEADER.unpack(bytes(start[: HEADER.size])))


def packed_arrays(arrays: Mapping[str, Tensor]) -> bytes:
    """Returns tensors as the bytes of a safetensors file. If there are no tensors, returns no bytes."""
    if not arrays:
        return b""
    from safetensors.torch import save

    return save({name: t.detach().cpu().contiguous() for name, t in arrays.items()})


def unpacked_arrays(data: bytes) -> dict[str, Tensor]:
    """Reads tensors from the bytes that `packed_arrays` made."""
    if not data:
        return {}
    from safetensors.torch import load

    return load(data)


def check_answer(document: Mapping[str, Any], who: str) -> None:
    """Raises the error that an answer reports.

    UserError, RaisedElsewhere, MemoryError and torch.OutOfMemoryError keep their class. Any other error becomes a RuntimeError that names the worker.
    """
    if "error" not in document:
        return
    kind, text = document["kind"], document["error"]
    if kind == "user":
        raise UserError(text)
    if kind == RaisedElsewhere.__name__:
        raise RaisedElsewhere(text)
    if kind == "MemoryError":
        raise MemoryError(text)
    if kind == "OutOfMemoryError":
        import torch

        raise torch.OutOfMemoryError(text)
    raise RuntimeError(f"{kind} in {who}: {text}")


def answer(worker: Any, document: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Message:
    """Returns a worker's answer to one message. The field `do` names a method of the worker that is among its `verbs`.

    If the method raises an error, the answer contains this error, and the leading process handles it.
    """
    verb = document["do"]
    try:
        if verb not in worker.verbs:
            raise UserError(f"{type(worker).__name__} has no answer to the message {verb}; both processes must run the same version of Gradus")
        return getattr(worker, verb)(document, arrays)
    except Exception as error:
        return error_document(error), {}


def error_document(error: Exception) -> dict[str, Any]:
    """Returns the answer that reports an error of the worker. The kind of the error is "user" for a UserError, else the name of the error's class."""
    return {"error": str(error), "kind": "user" if isinstance(error, UserError) else type(error).__name__}
