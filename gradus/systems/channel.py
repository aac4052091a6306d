"""The link between processes that torch.distributed (gloo) connects: messages of plain JSON and tensors, no pickle."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from gradus.systems.link import Closed, packed_arrays, unpacked_arrays

T = TypeVar("T")

PATIENCE = timedelta(days=365)  # time limit of a wait; long, because rewards may take long, and the end of a process is noticed without it


def join(where: str, rank: int, size: int) -> None:
    """Connects `size` processes. This process gets number `rank`. `where`: a URL of torch.distributed, such as file:///... or env:// (under torchrun)."""
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size, timeout=PATIENCE)


def leave() -> None:
    """Disconnects this process after `join`."""
    if dist.is_initialized():
        dist.destroy_process_group()


class Later(Generic[T]):
    """The result of `work`, which another thread computes. While a C operation waits in that thread, the calling thread can still handle signals."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._done: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

        def run() -> None:
            try:
                self._done.put((work(), None))
            except BaseException as error:
                self._done.put((None, error))

        threading.Thread(target=run, daemon=True).start()  # a daemon thread does not delay the end of the run

    def result(self, timeout: float | None = None) -> T:
        """Returns the result of `work` or raises its exception. Raises TimeoutError if there is no result within `timeout` seconds."""
        try:
            found, error = self._done.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"no answer within {timeout:g} seconds") from None
        if error is not None:
            raise error
        return found  # type: ignore[return-value]


class Channel:
    """Sends messages to one other process, and receives messages from it, in order.

    `send` may return before the other process has received the message. The next `send` or `receive` first waits until the message is received. Signals are
    handled during a wait.
    After a signal has interrupted a wait, the channel must not be used again.
    """

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self._sent: list[tuple[Any, Tensor]] = []  # keeps the tensors alive until the other process has received them
        self._coming: Later[list[bytes]] | None = None  # a message that did not arrive within the time limit of an earlier `receive`
        self.alive, self.ending = True, ""

    def send(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor] | None = None) -> None:
        """Sends a document with tensors. Raises Closed if the other process has ended."""
        words, packed = json.dumps(document).encode(), packed_arrays(arrays or {})
        pieces = torch.tensor([len(words), len(packed)]), _bytes(words), _bytes(packed)

        def work() -> None:
            self._settle()
            for piece in pieces:
                if piece.numel():
                    self._sent.append((dist.isend(piece, self.peer), piece))

        self._aside(Later(work))

    def receive(self, timeout: float | None = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Returns the document and the tensors (writable) of the next message. Raises Closed if the other process has ended.

        Raises TimeoutError after `timeout` seconds (None: no limit). The next `receive` then waits for the same message.
        """

        def work() -> list[bytes]:
            sizes = torch.zeros(2, dtype=torch.int64)
            dist.recv(sizes, self.peer)
            found = [self._take(int(n)) for n in sizes]
            self._settle()
            return found

        self._coming = self._coming or Later(work)
        words, packed = self._aside(self._coming, timeout)
        self._coming = None
        return json.loads(words), unpacked_arrays(packed)

    def flush(self) -> None:
        """Waits until the other process has received the last message."""
        self._aside(Later(self._settle))

    def close(self) -> None:
        """Marks the channel as unusable. The other process ends when the leading process disconnects or ends."""
        self.alive = False

    def _aside(self, work: Later[T], timeout: float | None = None) -> T:
        try:
            return work.result(timeout)
        except RuntimeError as error:
            self.alive = False
            raise Closed(str(error)) from error

    def _take(self, count: int) -> bytes:
        piece = torch.zeros(count, dtype=torch.uint8)
        if count:
            dist.recv(piece, self.peer)
        return piece.numpy().tobytes()

    def _settle(self) -> None:
        for work, _ in self._sent:
            work.wait()
        self._sent.clear()


def _bytes(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)
