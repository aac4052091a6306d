"""The present activity of each worker of a run, and the seconds that the worker has spent on each activity.

A worker is a part of the run that does one thing at a time: the trainer, or a sampler of a system (`Streaming`, `Ahead`). At any moment a worker has exactly
one activity: the last activity that has begun and not ended, or `OTHER` if there is none. A worker without work waits for requests. So the seconds of all
activities of a worker add up to its whole time.

`with activity.on("trainer")` names the worker for the code inside. `with doing(SAMPLING)` marks an activity of that worker. Outside of a worker,
`doing` has no effect, so any code can call it. A context variable holds the worker. Tasks of an event loop inherit it. For a thread, see `carried`.

The seconds are clock time, not processor time. A GPU may still work after a call has returned, so a part of its work may be counted in the next activity.
With `settled`, the work of each activity is counted in this activity.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SAMPLING, ENVIRONMENT, JUDGING, SCORING, UPDATING = "sampling", "environment", "judging", "log-probs", "updating"
EVALUATING, SAVING, OTHER = "evaluating", "saving", "other"
FOR_GROUPS, FOR_REQUESTS = "waits for groups", "waits for requests"
ACTIVITIES = (SAMPLING, ENVIRONMENT, JUDGING, SCORING, UPDATING, EVALUATING, SAVING, OTHER, FOR_GROUPS, FOR_REQUESTS)
"""The activities in the order in which they are shown."""
WHOLE = (JUDGING, EVALUATING)
"""Activities that include others: samples of a judge count as judging, and samples and judgements of an evaluation count as evaluating."""
TRAINER = "trainer"
"""The worker that updates the weights. In a run without a system, it does all work."""


@dataclass(eq=False)
class Worker:
    """The activities of a worker. `open`: the activities that have begun and not ended, in the order in which they began. `since`: the time of the
    last change."""

    since: float
    began: float  # time at which the present activity began
    open: list[list[str]] = field(default_factory=list)  # each entry is a list with one name, so two entries with equal names are different objects
    uses: int = 0  # number of open contexts of `Activity.on` for this worker
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def now(self) -> str:
        return self.open[-1][0] if self.open else OTHER if self.uses else FOR_REQUESTS

    def settle(self, now: float) -> None:
        """Adds the time since the last change to the present activity."""
        if now > self.since:
            self.seconds[self.now] = self.seconds.get(self.now, 0.0) + now - self.since
            self.since = now


@dataclass(eq=False)
class Work:
    """The work of a part: its calls, the rows that a network has read, and the rows for which it has computed the output layer."""

    calls: int = 0
    tokens: int = 0
    outputs: int = 0


class Activity:
    """The workers of a run, the tokens of each activity, and the ages of the groups that updates used. Several threads can use this object at the
    same time.

    `parts`: whether the parts of an activity, such as the reading of prompts, have their own names (see `part`). `settled`: called before each change of
    activity; a measurement on a GPU waits here until the GPU has finished.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.workers: dict[str, Worker] = {}
        self.tokens: Counter[str] = Counter()
        self.ages: Counter[int] = Counter()
        self.work: dict[str, Work] = {}
        self.parts = False
        self.settled: Callable[[], None] | None = None
        self._told: dict[str, Any] = {"seconds": {}, "tokens": Counter(), "ages": Counter()}  # the numbers that `taken` has returned
        self._lock = threading.RLock()  # a signal may come while the lock is held

    @contextmanager
    def on(self, worker: str) -> Iterator[None]:
        """A context manager whose code is the work of `worker`. Between two such contexts, the worker waits for requests."""
        self._use(worker, 1)
        token = _HERE.set(Here(self, worker))
        try:
            yield
        finally:
            _HERE.reset(token)
            self._use(worker, -1)

    def _use(self, worker: str, change: int) -> None:
        with self._lock:
            now = self.clock()
            mine = self.workers.setdefault(worker, Worker(now, now))
            mine.settle(now)
            mine.uses += change
            mine.began = now

    def begin(self, worker: str, what: str) -> list[str]:
        """Begins an activity. Returns the entry that `end` needs."""
        entry = [what]
        if self.settled is not None:
            self.settled()
        with self._lock:
            mine, now = self.workers[worker], self.clock()
            mine.settle(now)
            mine.open.append(entry)
            mine.began = now
        return entry

    def end(self, worker: str, entry: list[str]) -> None:
        """Ends an activity. Activities that began later and have not ended stay open."""
        if self.settled is not None:
            self.settled()
        with self._lock:
            mine, now = self.workers[worker], self.clock()
            mine.settle(now)
            if mine.open and mine.open[-1] is entry:
                mine.began = now
            mine.open = [one for one in mine.open if one is not entry]

    def aged(self, ages: Iterable[float]) -> None:
        """Counts the groups of a step by age. The age is the number of steps from the weights that sampled a group to the weights that the group trains."""
        with self._lock:
            self.ages.update(round(age) for age in ages)

    def seconds(self) -> dict[str, dict[str, float]]:
        """Returns the seconds so far, by worker and activity. The present activities count up to now."""
        with self._lock:
            now = self.clock()
            for worker in self.workers.values():
                worker.settle(now)
            return {name: dict(worker.seconds) for name, worker in self.workers.items()}

    def taken(self) -> dict[str, Any]:
        """Returns the seconds by worker and activity, the tokens by activity, and the groups by age, all since the last call."""
        before, seconds = self._told, self.seconds()
        self._told = {"seconds": seconds, "tokens": Counter(self.tokens), "ages": Counter(self.ages)}
        spent = {w: _less(found, before["seconds"].get(w, {})) for w, found in seconds.items()}
        return {"seconds": spent, "tokens": _less(self.tokens, before["tokens"]), "ages": _less(self.ages, before["ages"])}

    def present(self) -> dict[str, tuple[str, float]]:
        """Returns the present activity of every worker, and the seconds since it began."""
        with self._lock:
            now = self.clock()
            return {name: (worker.now, now - worker.began) for name, worker in self.workers.items()}


def _less(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns the increase of each number. Numbers that did not change are left out."""
    return {name: value - before.get(name, 0) for name, value in now.items() if value != before.get(name, 0)}


@dataclass(frozen=True)
class Here:
    """The worker whose code runs. `role`: the innermost activity that the worker has begun; '' before the first activity. `part`: the innermost part
    of this activity."""

    activity: Activity
    worker: str
    role: str = ""
    part: str = ""


_HERE: ContextVar[Here | None] = ContextVar("gradus_activity", default=None)


def worker_here() -> str | None:
    """Returns the name of the worker whose code runs, such as "worker-0"; None outside of a worker."""
    here = _HERE.get()
    return None if here is None else here.worker


@contextmanager
def doing(what: str) -> Iterator[None]:
    """A context manager around an activity of the present worker. It has no effect outside of a worker, or within an activity in `WHOLE`."""
    here = _HERE.get()
    if here is None or here.role in WHOLE:
        yield
        return
    entry = here.activity.begin(here.worker, what)
    token = _HERE.set(Here(here.activity, here.worker, what))
    try:
        yield
    finally:
        _HERE.reset(token)
        here.activity.end(here.worker, entry)


def during(what: str) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Returns a decorator of an async function whose calls are this activity (see `doing`)."""

    def decorated(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(work)
        async def timed(*args: P.args, **more: P.kwargs) -> T:
            with doing(what):
                return await work(*args, **more)

        return timed

    return decorated


@contextmanager
def part(name: str, tokens: int = 0, outputs: int = 0) -> Iterator[None]:
    """A context manager around a part of the present activity, such as "sampling/prefill". Has no effect unless the activity measures parts.

    `tokens`: the number of rows that the network reads; `outputs`: the number of rows for which it computes the output layer.
    """
    here = _HERE.get()
    if here is None or not here.activity.parts or not here.role:
        yield
        return
    inner = replace(here, part=f"{here.role}/{name}")
    entry, token = here.activity.begin(here.worker, inner.part), _HERE.set(inner)
    try:
        here.activity.work.setdefault(inner.part, Work()).calls += 1
        worked(tokens, outputs)
        yield
    finally:
        _HERE.reset(token)
        here.activity.end(here.worker, entry)


def worked(tokens: int, outputs: int = 0) -> None:
    """Adds rows to the present part (see `part`). Has no effect outside of a part."""
    here = _HERE.get()
    if here is not None and here.part in here.activity.work:
        found = here.activity.work[here.part]
        found.tokens, found.outputs = found.tokens + tokens, found.outputs + outputs


def counted(purpose: str, tokens: int) -> None:
    """Adds tokens to the activity that they belong to. `purpose`: as `RunWorld.count` names it."""
    here = _HERE.get()
    if here is None:
        return
    role = here.role if here.role in WHOLE else {"rollout": SAMPLING, "probe": SAMPLING, "train": UPDATING}.get(purpose, SCORING)
    here.activity.tokens[role] += tokens


def carried(work: Callable[..., T]) -> Callable[..., T]:
    """Returns a function that calls `work` as the present worker, for use in another thread. Otherwise the thread would belong to no worker."""
    run: Any = contextvars.copy_context().run
    return partial(run, work)
