"""Other processes that are none: workers in this one, behind the messages that real ones get."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from torch import Tensor

from gradus.systems.link import Closed, answer, framed, unframed
from gradus.systems.worker import Worker


class Near:
    """A link to a worker in this process. `broken`: nobody is there any more. `late`: no answer comes in time.

    `ends`: the numbers of the messages, from 0, at which the process ends: {3: "before"} before it reads message 3, "after" before it answers.
    """

    def __init__(self, worker: Any = None, ends: Mapping[int, str] | None = None) -> None:
        self.worker = Worker() if worker is None else worker
        self.answers: list[Any] = []
        self.asked: list[str] = []
        self.ends = dict(ends or {})
        self.broken = self.late = self.closed = False

    def send(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor] | None = None) -> None:
        how = self.ends.get(len(self.asked))
        if self.broken or how == "before":
            self.broken = True
            raise Closed("gone")
        self.asked.append(document["do"])
        if document["do"] == "end" and not hasattr(self.worker, "end"):
            return
        if document["do"] == "begin" and "memory" in document:
            document = {**document, "memory": None}  # a limit would be this process's own
        told, found = answer(self.worker, *unframed(framed(json.loads(json.dumps(document)), arrays)))
        self.answers.append(unframed(framed(told, found)))
        self.broken = how == "after"

    def receive(self, timeout: float | None = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
        if self.broken:
            raise Closed("gone")
        if self.late and timeout is not None:
            raise TimeoutError
        return self.answers.pop(0)

    @property
    def alive(self) -> bool:
        return not self.broken

    @property
    def ending(self) -> str:
        return "was killed by SIGKILL" if self.broken else ""

    def close(self) -> None:
        self.broken = self.closed = True

    def flush(self) -> None:
        pass


def openings(make: Callable[[], Any], ends: Collection[Mapping[int, str]] = ()) -> tuple[Callable[[], Near], list[Near]]:
    """Opens one link after another, the n-th of which ends at the n-th of `ends`; and the links that were opened."""
    links: list[Near] = []

    def opened() -> Near:
        links.append(Near(make(), dict(list(ends)[len(links)]) if len(links) < len(ends) else {}))
        return links[-1]

    return opened, links
