"""Real processes that are killed while they work, at drawn moments."""

from __future__ import annotations

import random
import time

from gradus.systems.process_link import ProcessLink


class Doomed:
    """A maker of links to real processes. `kills` of these processes get SIGKILL: before a question, in the middle of its work, or after its answer."""

    def __init__(self, kills: int, seed: int, every: int = 6) -> None:
        self.left, self.every, self.draw = kills, every, random.Random(seed)
        self.roles: list[str] = []  # the role of each process that was killed

    def __call__(self, role: str) -> ProcessLink:
        maker = self

        class Link(ProcessLink):
            def send(self, document, arrays=None):
                doomed = document["do"] != "begin" and maker.left > 0 and maker.draw.randrange(maker.every) == 0
                if doomed:
                    maker.left -= 1
                    maker.roles.append(role)
                when = maker.draw.choice(("before", "during", "after")) if doomed else ""
                if when == "before":
                    self.process.kill()
                super().send(document, arrays)
                if when == "during":
                    time.sleep(maker.draw.uniform(0, 0.05))
                    self.process.kill()
                self.after = when == "after"

            def receive(self, timeout=None):
                message = super().receive(timeout)
                if getattr(self, "after", False):
                    self.process.kill()
                return message

        return Link(role)
