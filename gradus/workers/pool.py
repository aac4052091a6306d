"""A pool of worker processes for one user file or function. Calls have limits, failed calls are repeated, and workers that hang are killed."""

from __future__ import annotations

import atexit
import json
import os
import selectors
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from gradus.runtime.cores import usable_cores
from gradus.runtime.user_code import split_spec
from gradus.types import Failed, FailureKind, UserError
from gradus.workers.call_queue import CallQueue, Limits, Question, overfull, overtime
from gradus.workers.process import ForkServer, Job, Worker, ending
from gradus.workers.worker import Answer, read_outcomes

START_SECONDS = 120.0  # time limit for the start of a worker; long, because the imports of a reward function may take long
PRINTED = 16 << 20  # largest number of bytes that a call may print; a call that prints more fails
SHOWN = 1 << 16  # largest number of printed bytes that are shown
_AHEAD, _AHEAD_SECONDS, _AHEAD_BYTES = 64, 0.05, 1 << 17  # limits (number, seconds, bytes) of calls that are sent to a worker before its earlier answers arrive
_GROW = 0.05  # if calls wait for this number of seconds, one more worker is started
_STILLBORN = 3  # number of workers that may end before they have loaded the code, although other workers have loaded it
_LONGEST_ANSWER = 1 << 25  # largest answer in bytes; a longer answer could fill this process's memory


class Stopped(Exception):
    """The error if the pool is stopped during calls."""


class Pool:
    """The workers of one job. The workers start at the first use and then remain. Any thread may call `ask`, but only one `ask` runs at a time."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.hello: dict[str, Any] | None = None  # the first message of the last started worker
        self.ended: Counter[str] = Counter()  # workers that ended during a call, by the kind of failure
        self._nursery: ForkServer | None = None
        self._workers: dict[int, Worker] = {}
        self._dying: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._stillborn = 0
        self._stopped = False
        self._round: CallQueue | None = None
        self._limits = Limits()

    def greeting(self, limits: Limits = Limits()) -> dict[str, Any]:
        """Returns the first message of a worker. Starts a worker if there is none. Raises UserError if the code cannot be loaded."""
        with self._asking(limits):
            while not any(w.ready for w in self._workers.values()):
                with self._surviving():
                    if not self._workers:
                        self._start()
                    self._turn(self._deadline())
                    self._late()
            assert self.hello is not None
            return self.hello

    def ask(self, questions: Sequence[Question], limits: Limits = Limits()) -> list[Answer]:
        """Returns the answer to each question, or its failure. Raises Stopped after a call of `stop`, and UserError if the code cannot be loaded."""
        if not questions:
            return []
        with self._asking(limits):
            self._round = round_ = CallQueue(questions, limits)
            for worker in self._workers.values():
                worker.typical = 0.0
            while round_.open:
                round_.give_up()
                with self._surviving():
                    self._give()
                    self._turn(self._deadline())
                    self._late()
            patience = time.monotonic() + 5.0
            while self._dying and time.monotonic() < patience:  # so that hanging processes have ended when this method returns
                with self._surviving():
                    self._turn(patience)
            self._dying.clear()
            return round_.found

    def longest(self) -> tuple[float, str] | None:
        """Returns the seconds and the name of the call that has run longest; None if no call is running. Any thread may call this method."""
        round_ = self._round
        heads = [(w.since, w.asked[0]) for w in list(self._workers.values()) if w.asked]
        if round_ is None or not heads:
            return None
        since, number = min(heads)
        return time.monotonic() - since, round_.questions[number].about

    def stop(self) -> None:
        """Ends the processes. A call that runs in another thread raises Stopped. The next call starts new processes."""
        self._stopped = True
        nursery = self._nursery
        if nursery is not None:
            nursery.close()
        with self._lock:
            self._forget()
            self._stopped = False

    # one turn: reads the received data, then ends workers that are late

    @contextmanager
    def _asking(self, limits: Limits) -> Iterator[None]:
        with self._lock:
            if limits.memory != self._limits.memory:
                self._forget()  # a worker gets its memory limit at its start, so a new limit needs new workers
            self._limits, self._stillborn = limits, 0
            try:
                self._begin()
                yield
            except (EOFError, ConnectionError, BrokenPipeError) as error:
                self._forget()
                if self._stopped:
                    raise Stopped from None
                raise UserError("the process that starts the reward functions has ended; start the run again") from error
            except BaseException:
                self._forget()
                raise
            finally:
                self._round = None

    def _begin(self) -> None:
        if self._nursery is None or self._nursery.process.poll() is not None:
            self._forget()
            self._nursery = ForkServer()
            self._selector.register(self._nursery.control, selectors.EVENT_READ)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """A context that handles the end of the fork server and its workers. It starts another server, and then repeats the calls or lets them fail."""
        try:
            yield
        except (EOFError, ConnectionError):
            if self._stopped:
                raise
            self._orphaned()
            self._begin()

    def _orphaned(self) -> None:
        """Handles the end of the fork server.

        If only one call was running, this call is the cause. If several calls were running, they are repeated one by one to find the cause.
        """
        for worker in list(self._workers.values()):
            with suppress(ConnectionError):  # after an invalid answer, there is no fork server that could kill the worker
                self._read_answers(worker, last=True)
        asking = [w for w in self._workers.values() if w.asked]
        for worker in list(self._workers.values()):
            self._retire(worker, "ended the process that starts the workers", FailureKind.DIED, charged=len(asking) == 1)
        if self._round is not None:
            self._round.one_by_one = True
        self._forget()

    def _forget(self) -> None:
        for worker in list(self._workers.values()):
            self._drop(worker)
        if self._nursery is not None:
            self._nursery.close()
            self._selector.unregister(self._nursery.control)
            self._nursery.control.close()
        self._nursery = None
        self._dying.clear()

    def _start(self) -> None:
        assert self._nursery is not None
        worker = self._nursery.start(self.job, self._limits.memory)
        worker.since = time.monotonic()
        self._workers[worker.number] = worker
        self._selector.register(worker.answers, selectors.EVENT_READ, worker)
        self._selector.register(worker.prints, selectors.EVENT_READ, worker)

    def _turn(self, deadline: float) -> None:
        """Reads the received data, or waits for data until the deadline."""
        ready = self._selector.select(max(0.0, deadline - time.monotonic()))
        # prints come first, because they belong to the call before its answer; the fork server comes last, because a dead worker's pipe may have answers
        for key, _ in sorted(ready, key=lambda pair: 2 if pair[0].data is None else pair[0].fd != pair[0].data.prints):
            worker: Worker | None = key.data
            if worker is None:
                self._hear()
            elif worker.number in self._workers:
                if key.fd == worker.prints:
                    self._read_prints(worker)
                elif key.fd == worker.answers:
                    self._read_answers(worker)
                else:
                    self._push(worker)

    def _hear(self) -> None:
        assert self._nursery is not None
        for message in self._nursery.heard():
            number, code = message["ended"], message["code"]
            self._dying.discard(number)
            worker = self._workers.get(number)
            if worker is not None:
                self._read_answers(worker, last=True)
                if number in self._workers:
                    self._retire(worker, ending(code), FailureKind.DIED)

    def _read_answers(self, worker: Worker, last: bool = False) -> None:
        try:
            while worker.number in self._workers:  # an invalid answer may have ended its worker
                for line in worker.lines():
                    if worker.number in self._workers:
                        self._answered(worker, line)
                if worker.number in self._workers and len(worker.read) > _LONGEST_ANSWER:
                    self._lost(worker, "sent an answer without end", FailureKind.INVALID)
                if not last:
                    return
        except BlockingIOError:
            return
        except EOFError:
            if not last and worker.number in self._workers:
                # the fork server reports the end of a worker; if a worker has only closed its pipe, it reaches the time limit
                self._selector.unregister(worker.answers)

    def _answered(self, worker: Worker, line: bytes) -> None:
        now = time.monotonic()
        try:
            if not worker.ready:
                self._greeted(worker, json.loads(line))
                return
            told, _, message = line.partition(b" ")
            number = worker.asked[0]
            if told != str(number).encode():
                raise ValueError
            assert self._round is not None
            answer = read_outcomes(json.loads(message), self._round.questions[number].count)
        except UserError:
            raise
        except (ValueError, IndexError, RecursionError):
            self._lost(worker, "sent an invalid answer", FailureKind.INVALID)
            return
        worker.asked.popleft()
        worker.answered += 1
        took, worker.since, worker.printed = now - worker.since, now, 0
        worker.typical = took if not worker.typical else 0.8 * worker.typical + 0.2 * took
        failed = answer if isinstance(answer, Failed) else next((o for o in answer if isinstance(o, Failed) and o.kind.chance), None)
        if failed is not None and failed.kind is FailureKind.MEMORY:  # its memory is full, so the next call would also fail
            worker.asked.appendleft(number)
            worker.answered -= 1
            self._lost(worker, overfull(failed.reason, self._limits.memory), FailureKind.MEMORY)
        else:
            self._round.settle(number, answer)

    def _greeted(self, worker: Worker, message: Any) -> None:
        if not isinstance(message, dict):
            raise ValueError
        if "error" in message:
            self._drop(worker)
            self._unloadable(str(message["error"]))
            return
        worker.ready, self.hello = True, message
        worker.printed = 0

    def _unloadable(self, reason: str) -> None:
        """Handles code that cannot be loaded. Raises UserError if no worker has loaded the code before. Otherwise the open calls fail."""
        if self._round is None or self.hello is None:
            raise UserError(reason)
        self._round.fail_all(Failed(reason, FailureKind.RAISED))

    def _read_prints(self, worker: Worker) -> None:
        try:
            chunk = os.read(worker.prints, 1 << 18)
        except BlockingIOError:
            return
        if not chunk:
            self._selector.unregister(worker.prints)
            return
        with suppress(OSError):
            os.write(2, worker.shown(chunk, SHOWN, self.job.name))
        if worker.printed > PRINTED and (worker.asked or not worker.ready):
            self._lost(worker, f"printed more than {PRINTED >> 20} MiB in one call; print less", FailureKind.INVALID)

    # sending calls

    def _give(self) -> None:
        """Sends waiting calls to workers that have room, and starts workers as long as calls wait."""
        round_, limits = self._round, self._limits
        assert round_ is not None
        most = 1 if round_.one_by_one else max(1, limits.workers or usable_cores())
        busy = sum(bool(w.asked) for w in self._workers.values())
        for worker in sorted(self._workers.values(), key=lambda w: len(w.asked)):
            if worker.ready and (worker.asked or busy < most):
                busy += not worker.asked
                self._feed(worker, round_, max(1, len(round_.waiting) // most))
        starting = sum(not w.ready for w in self._workers.values())
        if starting == len(self._workers):
            round_.began = time.monotonic()
        allowed = min(most, 1 + int((time.monotonic() - round_.began) / _GROW))
        if self._stillborn >= _STILLBORN and len(self._workers) > starting:
            return
        # after the loss of a worker, one more worker is kept ready, so that no call waits for a start
        while len(round_.waiting) > starting and len(self._workers) < allowed + (round_.losses > 0):
            self._start()
            starting += 1

    def _feed(self, worker: Worker, round_: CallQueue, share: int) -> None:
        depth = min(share, max(1, min(_AHEAD, int(_AHEAD_SECONDS / worker.typical))) if worker.typical > 0 else 2)
        fresh = not worker.asked
        while round_.waiting and len(worker.asked) < depth and (len(worker.unsent) < _AHEAD_BYTES or not worker.asked):
            number = round_.waiting.popleft()
            if round_.attempts[number] and worker.asked:  # a repeated call gets its own worker, so that no other call waits for it
                round_.waiting.append(number)
                break
            worker.asked.append(number)
            worker.unsent += round_.line(number)
            if round_.attempts[number]:
                break
        if worker.unsent:
            if fresh:
                worker.since, worker.printed = time.monotonic(), 0
            self._push(worker)

    def _push(self, worker: Worker) -> None:
        watched = worker.requests in self._selector.get_map()
        with suppress(OSError):  # the worker has ended; its other pipes report it
            worker.push()
            if worker.unsent and not watched:
                self._selector.register(worker.requests, selectors.EVENT_WRITE, worker)
            if not worker.unsent and watched:
                self._selector.unregister(worker.requests)
            return
        worker.unsent.clear()
        if watched:
            self._selector.unregister(worker.requests)

    # ending

    def _deadline(self) -> float:
        """Returns the time of the next limit, but at most one second from now."""
        ends = [w.since + (self._limits.seconds if w.ready else START_SECONDS) for w in self._workers.values() if w.asked or not w.ready]
        waiting = self._round is not None and self._round.waiting
        return min([*ends, time.monotonic() + (_GROW if waiting else 1.0)])

    def _late(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers.values()):
            limit = self._limits.seconds if worker.ready else START_SECONDS
            if (worker.asked or not worker.ready) and now - worker.since >= limit:
                self._lost(worker, overtime(limit) if worker.ready else f"did not answer within {limit:g} seconds", FailureKind.TIMEOUT)

    def _lost(self, worker: Worker, reason: str, kind: FailureKind) -> None:
        """Kills a worker that cannot be used any more, and handles its calls."""
        assert self._nursery is not None
        self._dying.add(worker.number)
        self._nursery.kill(worker)
        self._retire(worker, reason, kind)

    def _retire(self, worker: Worker, reason: str, kind: FailureKind, charged: bool = True) -> None:
        """Handles the calls of a lost worker. The first call is repeated or fails. All other calls are repeated.

        If `charged` is False, no call counts as the cause.
        """
        asked, ready = list(worker.asked), worker.ready
        self._drop(worker)
        if not ready:
            self._stillborn += 1
            if self.hello is None or (self._stillborn >= _STILLBORN and not self._workers):
                kind_, spec = self.job.kind, self.job.spec
                self._unloadable(f"{kind_} {spec} could not be loaded: its process {reason}; try to import the file yourself")
        elif asked and self._round is not None:
            self.ended[kind.value] += 1
            # if memory ran out in a process that had already answered a call, data of earlier calls may be the cause
            charged = charged and (kind is not FailureKind.MEMORY or not worker.answered)
            self._round.lost(asked, Failed(reason, kind), charged=charged)

    def _drop(self, worker: Worker) -> None:
        self._workers.pop(worker.number, None)
        for pipe in (worker.requests, worker.answers, worker.prints):
            with suppress(KeyError, ValueError):
                self._selector.unregister(pipe)
        worker.close()


_POOLS: dict[tuple[Job, int], Pool] = {}


def pool_of(spec: str, kind: str = "reward function", options: str = "{}") -> Pool:
    """Returns this process's pool for `FILE.py:NAME`. `options` are in JSON. Raises UserError if the file is missing."""
    path, name = split_spec(spec, kind)
    key = Job(f"{path.resolve()}:{name}", kind, options), os.getpid()
    if not _POOLS:
        atexit.register(stop_workers)
    if key not in _POOLS:
        _POOLS[key] = Pool(key[0])
    return _POOLS[key]


def stop_workers() -> None:
    """Ends every worker of this process."""
    for (_, owner), pool in list(_POOLS.items()):
        if owner == os.getpid():
            pool.stop()
    _POOLS.clear()
