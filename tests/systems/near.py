"""Other processes that are none: workers in this one, behind the messages that real ones get."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from gradus.systems.link import Closed, answer, packed_arrays, unpacked_arrays
from gradus.systems.worker import Worker


class Near:
    """A channel to a worker in this process. `broken`: nobody is there any more."""

    def __init__(self) -> None:
        self.worker = Worker()
        self.answers: list[Any] = []
        self.asked: list[str] = []
        self.broken = False

    def send(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor] | None = None) -> None:
        if self.broken:
            raise Closed("gone")
        self.asked.append(document["do"])
        if document["do"] == "end":
            return
        if document["do"] == "begin":
            document = {**document, "memory": None}  # a limit would be this process's own
        given = json.loads(json.dumps(document)), unpacked_arrays(packed_arrays(arrays or {}))
        told, found = answer(self.worker, *given)
        self.answers.append((json.loads(json.dumps(told)), unpacked_arrays(packed_arrays(found))))

    def receive(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        if self.broken:
            raise Closed("gone")
        return self.answers.pop(0)

    def flush(self) -> None:
        pass
