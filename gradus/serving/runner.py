"""The thread that advances all sequences in one batch, and the answers that it fills.

Requests reach the thread through a queue. The thread informs the event loop of new tokens at most once in `POST` seconds. Streams write new text only if
their share of the process's processor time so far is at most `SHARE`. So the remaining processor time is free for the engine, even on a busy machine.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradus.policies.engine import Together, open_batch
from gradus.policies.jobs import Batch, Job, Likely
from gradus.policies.scoring import Scored, score
from gradus.serving.errors import Refused
from gradus.types import Ended

POST = 0.005  # smallest time in seconds between two messages to the event loop
SHARE = 0.02
LEAST, MOST = 0.02, 1.0  # smallest and largest time in seconds between two events of a stream that has new tokens
STOPPING = "the server is stopping; ask again when it runs"
log = logging.getLogger("gradus.serve")


class Reply:
    """The answers to one request. `news` is set if an answer has new text or has ended."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.news = asyncio.Event()
        self.answers = [Answer(job, self) for job in jobs]

    @property
    def done(self) -> bool:
        return all(answer.ended is not None for answer in self.answers)

    @property
    def error(self) -> Refused | None:
        return next((answer.error for answer in self.answers if answer.error is not None), None)


@dataclass(eq=False)
class Answer:
    """A sequence that grows: its new tokens, their log-probabilities, and the most likely tokens if the job asks for them.

    The engine's thread appends values, and the event loop reads them. The thread appends a token after the token's other values. So if a reader sees a token,
    it also sees the other values.
    """

    job: Job
    reply: Reply
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    likely: list[Likely] = field(default_factory=list)
    seen: bool = False  # whether the event loop knows of the answer's first token
    ended: Ended | None = None
    error: Refused | None = None


@dataclass(eq=False)
class Scoring:
    """A sequence to score, and the future for its result."""

    tokens: np.ndarray
    likely: int
    done: asyncio.Future[Scored]


News = tuple[Answer, Ended | None]
"""An answer with new tokens, and the reason of its end (None: it continues)."""


class Runner:
    """Advances the answers of all requests. The event loop calls `submit`, `leave` and `score`."""

    def __init__(self, model: Any, *, rows: int, waiting: int) -> None:
        self.model, self.rows, self.most_waiting = model, rows, waiting
        self.orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="gradus-engine", daemon=True)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.batch = self._batch()
        self.open: dict[int, Answer] = {}  # by number, in the thread
        self.coming: list[Answer] = []
        self.scoring: list[Scoring] = []
        self.outbox: dict[Answer, Ended | None] = {}
        self.posted = 0.0
        self.unfinished = 0  # answers, in the event loop
        self.paced: set[Reply] = set()  # replies whose tokens wait for the timer
        self.timed, self.sent = False, _clocks()
        self.stopping = False

    # called in the event loop

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread.start()

    def stop(self) -> None:
        """Ends the thread, and ends every open answer with an error."""
        if not self.stopping:
            self.stopping = True
            self.orders.put(None)
            if self.thread.is_alive():
                self.thread.join(timeout=10)

    def room(self, count: int) -> None:
        """Raises Refused if `count` more sequences are too many (429), or if the server is stopping (503)."""
        if self.stopping:
            raise Refused(503, STOPPING)
        most = self.rows + self.most_waiting
        if self.unfinished + count > most:
            raise Refused(
                429,
                f"the server has {self.unfinished} unfinished sequences, this request asks for {count} more and the limit is {most} "
                f"({self.rows} at once, {self.most_waiting} waiting); ask again later",
                code="too_many_requests",
            )

    def submit(self, jobs: Sequence[Job]) -> Reply:
        """Returns a reply with one answer per job. After this call the answers grow. Raises Refused if the server is full or stopping."""
        self.room(len(jobs))
        reply = Reply(jobs)
        self.unfinished += len(jobs)
        self.orders.put(lambda: self.coming.extend(reply.answers))
        return reply

    def leave(self, reply: Reply) -> None:
        """Frees the slots of a reply that no client reads any more."""
        left = [answer for answer in reply.answers if answer.ended is None]
        self.paced.discard(reply)
        if left:
            self.unfinished -= len(left)
            for answer in left:
                answer.ended = Ended.FAILED
            self.orders.put(lambda: self._drop(left))

    async def score(self, prompts: Sequence[np.ndarray], likely: int) -> list[Scored]:
        """Returns the log-probabilities of the prompts' tokens."""
        self.room(len(prompts))
        assert self.loop is not None
        asked = [Scoring(tokens, likely, self.loop.create_future()) for tokens in prompts]
        self.unfinished += len(asked)
        self.orders.put(lambda: self.scoring.extend(asked))
        try:
            return list(await asyncio.gather(*(one.done for one in asked)))
        finally:
            self.unfinished -= len(asked)

    def _deliver(self, news: Collection[News]) -> None:
        """Informs the replies of new tokens. First tokens and ends are reported at once, other tokens in groups."""
        now: set[Reply] = set()
        for answer, ended in news:
            if answer.ended is not None:  # the answer has ended
                continue
            if ended is not None:
                answer.ended = ended
                self.unfinished -= 1
            (now if ended is not None or not answer.seen else self.paced).add(answer.reply)
            answer.seen = True
        for reply in now:
            reply.news.set()
        self.paced -= now
        if self.paced and not self.timed:
            assert self.loop is not None
            self.timed = True
            self.loop.call_later(LEAST, self._send_paced)

    def _send_paced(self) -> None:
        seconds, work, written = (now - then for now, then in zip(_clocks(), self.sent, strict=True))
        if written > SHARE * work and seconds < MOST:
            assert self.loop is not None
            self.loop.call_later(LEAST, self._send_paced)
            return
        self.timed, self.sent = False, _clocks()
        for reply in self.paced:
            reply.news.set()
        self.paced.clear()

    def _fail(self, answers: Sequence[Answer], error: Refused) -> None:
        for answer in answers:
            if answer.ended is None:
                answer.ended, answer.error = Ended.FAILED, error
                self.unfinished -= 1
                answer.reply.news.set()

    # called in the thread

    def _batch(self) -> Batch:
        m = self.model
        return open_batch(
            m.trunk, end_tokens=m.end_tokens, decode_text=m.text, max_context=m.context_length, rows=self.rows, graphs=m.graphs
        )

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            self.stopping = True  # further requests are refused
            self._fail_all(Refused(503, STOPPING))

    def _turn(self) -> bool:
        """Carries out orders, scores one sequence, and advances all other sequences by one step. Returns False if the thread should end."""
        try:
            if not self._take_orders():
                return False
            if self.scoring:
                self._score(self.scoring.pop(0))
            if self.batch.busy:
                self._step()
            self._post()
        except Exception as error:  # the server continues after a fault; only the affected requests get an error
            log.exception("a step of the engine failed")
            self._fail_all(Refused(500, f"the engine failed ({type(error).__name__}: {error}); the server's log has more"))
            self.batch = self._batch()
        return True

    def _take_orders(self) -> bool:
        """Carries out the orders since the last step. Waits if there is no work. Returns False if the thread should end."""
        idle = not (self.batch.busy or self.scoring or self.coming)
        if idle:
            self._post(now=True)
        while True:
            try:
                order = self.orders.get(block=idle)
            except queue.Empty:
                break
            if order is None:
                return False
            order()
            idle = False
        if self.coming:
            coming, self.coming = self.coming, []
            for number, answer in zip(self.batch.add([answer.job for answer in coming]), coming, strict=True):
                self.open[number] = answer
        return True

    def _drop(self, left: Sequence[Answer]) -> None:
        gone = set(map(id, left))
        self.coming = [answer for answer in self.coming if id(answer) not in gone]
        for number in [n for n, answer in self.open.items() if id(answer) in gone]:
            self.batch.take(number)
            del self.open[number]

    def _step(self) -> None:
        drawn = self.batch.step()
        rows = zip(drawn.numbers.tolist(), drawn.tokens.tolist(), drawn.logprobs.tolist(), strict=True)
        for number, token, logprob in rows:
            answer = self.open[number]
            if drawn.likely:
                answer.likely += [drawn.likely[number]] if number in drawn.likely else []
            answer.logprobs.append(logprob)
            answer.tokens.append(token)
            self.outbox.setdefault(answer)
        for number in drawn.numbers[drawn.over].tolist():
            self.outbox[self.open.pop(number)] = self.batch.take(number).ended

    def _score(self, asked: Scoring) -> None:
        if asked.done.cancelled():
            return
        network = self.batch.fused if isinstance(self.batch, Together) else self.model.trunk
        found = score(network, asked.tokens, asked.likely)
        self._call(lambda: None if asked.done.done() else asked.done.set_result(found))

    def _post(self, *, now: bool = False) -> None:
        if self.outbox and (now or time.monotonic() - self.posted >= POST):
            news, self.outbox = self.outbox, {}
            self.posted = time.monotonic()
            self._call(lambda: self._deliver(news.items()))

    def _fail_all(self, error: Refused) -> None:
        """Ends all open answers and scorings with an error."""
        self._post(now=True)
        failed, scoring = [*self.open.values(), *self.coming], self.scoring
        self.open, self.coming, self.scoring = {}, [], []
        self._call(lambda: self._fail(failed, error))
        for asked in scoring:
            self._call(lambda asked=asked: None if asked.done.done() else asked.done.set_exception(error))  # type: ignore[misc]

    def _call(self, function: Callable[[], None]) -> None:
        assert self.loop is not None
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function)


def _clocks() -> tuple[float, float, float]:
    """Returns three times in seconds: the clock, the process's processor time, and this thread's processor time."""
    return time.monotonic(), time.process_time(), time.thread_time()
