"""The speed of each worker of a system, measured in tokens per second, and the times at which the workers will be free."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Pace:
    """The tokens and seconds of the finished groups of each worker, and the time at which each busy worker began its group."""

    workers: int
    tokens: dict[int, int] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    groups: int = 0
    began: dict[int, float] = field(default_factory=dict)

    def begin(self, worker: int, now: float) -> None:
        self.began[worker] = now

    def end(self, worker: int, tokens: int, now: float) -> None:
        """Counts a finished group with this number of tokens."""
        self.seconds[worker] = self.seconds.get(worker, 0.0) + now - self.began.pop(worker)
        self.tokens[worker] = self.tokens.get(worker, 0) + max(tokens, 1)
        self.groups += 1

    def expected(self) -> list[float]:
        """Returns the expected seconds of a group for each worker: the mean tokens of all groups, divided by the worker's tokens per second.

        If a worker has no finished group, the function uses the speed of the fastest worker. If no group is finished, the result is 1 for every worker.
        """
        mean = sum(self.tokens.values()) / max(self.groups, 1)
        known = {worker: mean * self.seconds[worker] / tokens for worker, tokens in self.tokens.items()}
        least = min(known.values(), default=1.0)
        return [known.get(worker, least) for worker in range(self.workers)]

    def free_in(self, now: float) -> list[float]:
        """Returns the expected seconds until each worker is free; 0 for an idle worker.

        If a worker is x seconds late, the function expects that the worker needs x seconds more. So requests do not wait without end for a worker that never
        finishes.
        """
        expected = self.expected()
        return [abs(expected[w] - (now - self.began[w])) if w in self.began else 0.0 for w in range(self.workers)]
