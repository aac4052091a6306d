"""Real processes that are killed while they work, at drawn moments."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

from gradus.systems.process_link import ProcessLink


class Doomed:
    """A maker of links to real processes. `kills` of these processes get SIGKILL: before a question, in the middle of its work, or after its answer.

    The numbers of questions between two kills are drawn; their mean is `every`. `opened` makes the links; `process` gives the id of a link's process.
    """

    def __init__(
        self, kills: int, seed: int, every: int, opened: Callable[[str], Any] = ProcessLink, process: Callable[[Any], int] = lambda link: link.process.pid
    ) -> None:
        self.left, self.every, self.draw, self.opened, self.process = kills, every, random.Random(seed), opened, process
        self.roles: list[str] = []  # the role of each process that was killed
        self.wait = self.draw.randint(1, every)

    def __call__(self, role: str) -> DoomedLink:
        return DoomedLink(self, role)

    def moment(self, role: str, verb: str) -> str:
        """When the process of a question is killed; empty if it is not."""
        self.wait -= verb != "begin"
        if verb == "begin" or self.left == 0 or self.wait > 0:
            return ""
        self.wait = self.draw.randint(2, 2 * self.every - 2)
        self.left -= 1
        self.roles.append(role)
        return self.draw.choice(("before", "during", "after"))


class DoomedLink:
    """A link whose process may be killed at each question."""

    def __init__(self, maker: Doomed, role: str) -> None:
        self.maker, self.role, self.link, self.when = maker, role, maker.opened(role), ""
        self.pid = maker.process(self.link)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["link"], name)

    def send(self, document, arrays=None):
        self.when = self.maker.moment(self.role, document["do"])
        if self.when == "before":
            os.kill(self.pid, signal.SIGKILL)
        self.link.send(document, arrays)
        if self.when == "during":
            time.sleep(self.maker.draw.uniform(0, 0.05))
            os.kill(self.pid, signal.SIGKILL)

    def receive(self, timeout=None):
        message = self.link.receive(timeout)
        if self.when == "after":
            os.kill(self.pid, signal.SIGKILL)
        return message
