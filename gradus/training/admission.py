"""The rules of a system for its rollouts: when a request is admitted, which worker gets the request, and when a sample is too old. Runs and the simulator
call the same functions.

Steps are numbered from 0. Version v of the weights is the state of the weights before step v. Each request has a number, in the order of admission.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def admitted_until(step: int, ahead: int, last: int | None) -> int:
    """Returns the last step whose requests may be admitted before `step` trains. This is the step `step` + `ahead`, but at most `last` (None: no limit)."""
    return step + ahead if last is None else min(step + ahead, last)


def due(step: int, published: int | None, every: int) -> bool:
    """Whether version `step` must be published now. `published` is the newest published version. If it is None, no version is published yet, so version
    `step` is due."""
    return published is None or (step % every == 0 and published < step)


def too_old(version: int, step: int, staleness: int) -> bool:
    """Whether a group is too old for `step`. `version`: the version of the weights that sampled the group."""
    return step - version > staleness


def next_request(free: Iterable[int], running: Mapping[int, tuple[float, int]], late: float | None) -> int | None:
    """Returns the request for an idle worker: the first request without a worker. If every request has a worker, the first late request is returned; None if
    no request is late.

    Args: `free`: the requests that no worker has. `running`: for each request that a worker samples, its start time and the number of its workers. `late`: if
    a request has only one worker and began at this time or earlier, it is late. None: no request is late.
    """
    first = min(free, default=None)
    if first is not None or late is None:
        return first
    return min((number for number, (began, copies) in running.items() if began <= late and copies == 1), default=None)


def dealt(count: int, free_in: Sequence[float], seconds: Sequence[float]) -> list[int]:
    """Deals `count` requests to workers, one after another. Each request goes to the worker that is expected to finish it first. Returns the workers.

    Args: `free_in`: the expected seconds until each worker is free. `seconds`: the expected seconds of a request for each worker. If several workers are
    equally good, the first one gets the request.

    >>> dealt(7, [0.0, 0.0, 0.0], [1.0, 2.0, 4.0])
    [0, 0, 1, 0, 0, 1, 2]
    """
    ends = [(start + each, worker) for worker, (start, each) in enumerate(zip(free_in, seconds, strict=True))]
    heapq.heapify(ends)
    found = []
    for _ in range(count):
        end, worker = ends[0]
        found.append(worker)
        heapq.heapreplace(ends, (end + seconds[worker], worker))
    return found


def newest_finished(versions: Mapping[int, int], count: int) -> list[int] | None:
    """Returns the `count` finished requests with the newest weights, in the order of their numbers; None if fewer requests are finished. `versions`: the
    version of each finished request, in the order in which the requests finished. Requests with the same version are ordered by the times at which they
    finished.
    """
    return sorted(sorted(versions, key=lambda number: -versions[number])[:count]) if len(versions) >= count else None


def first_finished(done: Mapping[int, T], count: int) -> list[int] | None:
    """Returns the `count` requests that finished first, in the order of their numbers; None if fewer are done. `done` lists the requests in the order in
    which they finished."""
    return sorted(list(done)[:count]) if len(done) >= count else None


def stale_of(versions: Mapping[int, int], step: int, staleness: int) -> Collection[int]:
    """Returns the finished requests that are too old for `step`. The run samples these requests again. `versions`: the version of each finished
    request."""
    return [number for number, version in versions.items() if too_old(version, step, staleness)]
