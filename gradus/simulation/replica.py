"""A replica that samples: its sequences decode together. If a sequence ends, the next one takes its place."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from gradus.simulation.rates import Rates
from gradus.simulation.work import Item

EPS = 1e-9


@dataclass(eq=False)
class Open:
    """A group that a replica decodes: the number of its answers that have not ended, and the event of its end."""

    left: int
    ended: Any


@dataclass(eq=False)
class Replica:
    """A copy of the model. `clock` is a `simpy.Environment`. Time that the replica spends on prompts, decoding and new weights counts as busy."""

    clock: Any
    rates: Rates
    busy: float = 0.0
    version: int = -1  # version of the replica's weights
    steps: float = 0.0  # decoding steps so far; all sequences advance together
    active: list[tuple[float, int, Open]] = field(default_factory=list)  # (step at which it ends, number, group)
    waiting: deque[tuple[int, Open]] = field(default_factory=deque)  # (length, group)
    stall: float = 0.0  # seconds for prompts and new weights before the next decoding step
    count: int = 0
    wake: Any = None

    def __post_init__(self) -> None:
        self.wake = self.clock.event()
        self.clock.process(self._run())

    def submit(self, item: Item, version: int = 0) -> Any:
        """Begins a group with the weights of a version. Returns the event of its last token."""
        group = Open(len(item.lengths), self.clock.event())
        self.stall += item.prompt * self.rates.prefill
        if version != self.version:
            self.stall, self.version = self.stall + self.rates.publish * (self.version >= 0), version
        self.waiting += [(length, group) for length in item.lengths]
        if not self.wake.triggered:
            self.wake.succeed()
        return group.ended

    def _run(self) -> Generator[Any, Any, None]:
        """Decodes until all sequences have ended, and then waits for the next group."""
        while True:
            if not self.active and not self.waiting:
                yield self.wake
            self.wake = self.clock.event()
            while self.waiting and len(self.active) < self.rates.most:
                length, group = self.waiting.popleft()
                heapq.heappush(self.active, (self.steps + length, self.count, group))
                self.count += 1
            if self.stall:
                stall, self.stall = self.stall, 0.0
                self.busy += stall
                yield self.clock.timeout(stall)
                continue
            yield from self._decode()

    def _decode(self) -> Generator[Any, Any, None]:
        """Decodes until the next sequence ends, or until a group joins."""
        seconds = self.rates.decode(len(self.active))
        began, target = self.clock.now, self.active[0][0]
        yield self.clock.timeout((target - self.steps) * seconds) | self.wake
        spent = self.clock.now - began
        self.busy += spent
        self.steps = target if spent + EPS >= (target - self.steps) * seconds else self.steps + spent / seconds
        while self.active and self.active[0][0] <= self.steps + EPS:
            group = heapq.heappop(self.active)[2]
            group.left -= 1
            if not group.left:
                group.ended.succeed()
