"""Samples from a network that decodes one sequence at a time. Every sequence has its own state and advances by one token per step."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradus.policies.jobs import DecodeText, Drawn, Job, Likely, Sampled, Stepwise, StepwiseShown, check_job, reason, room, stop_reached
from gradus.policies.token_sampling import Settings, choose, most_likely
from gradus.runtime.activity import part
from gradus.types import UserError, uniforms


@dataclass(eq=False)
class _Sequence:
    """A job, the network's state for it, and its tokens so far."""

    job: Job
    settings: Settings
    room: int
    tokens: np.ndarray
    logprobs: np.ndarray
    state: Any = None
    count: int = 0
    stopped: bool = False
    likely: dict[int, Likely] = field(default_factory=dict)


class OneByOne:
    """A batch (`jobs.Batch`) for a `Stepwise` network, with at most `rows` states at a time."""

    def __init__(self, network: Stepwise, ends: frozenset[int], decode_text: DecodeText, max_context: int, rows: int) -> None:
        self.network, self.ends, self.decode_text, self.max_context, self.rows = network, ends, decode_text, max_context, rows
        self.waiting: deque[int] = deque()
        self.going: list[int] = []
        self.all: dict[int, _Sequence] = {}
        self.next = 0

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.going)

    @property
    def running(self) -> int:
        return len(self.going)

    def add(self, jobs: Sequence[Job], order: Sequence[int] | None = None) -> list[int]:
        for job in jobs:
            check_job(job, self.max_context)
            if job.inputs is not None:
                raise UserError("this model runs through transformers, which does not accept input vectors; take a model that the built-in decoder supports")
        numbers = list(range(self.next, self.next + len(jobs)))
        for number, job in zip(numbers, jobs, strict=True):
            size = room(job, self.max_context)
            self.all[number] = _Sequence(job, Settings.of([job.sampling]), size, np.zeros(size, np.int32), np.zeros(size, np.float32))
        self.waiting += numbers if order is None else [numbers[i] for i in order]
        self.next += len(jobs)
        return numbers

    @torch.inference_mode()
    def step(self) -> Drawn:
        if self.waiting and len(self.going) < self.rows:
            numbers = [self.waiting.popleft()]
            self.going += numbers
        else:
            numbers = list(self.going)
        over = [self._advance(self.all[number]) for number in numbers]
        self.going = [number for number in self.going if number not in {n for n, ended in zip(numbers, over, strict=True) if ended}]
        found = [self.all[number] for number in numbers]
        return Drawn(
            numbers=np.array(numbers, np.int64),
            tokens=np.array([s.tokens[s.count - 1] for s in found], np.int64),
            logprobs=np.array([s.logprobs[s.count - 1] for s in found], np.float32),
            over=np.array(over, bool),
            likely={number: s.likely.pop(s.count - 1) for number, s in zip(numbers, found, strict=True) if s.likely},
        )

    def take(self, number: int) -> Sampled:
        found = self.all.pop(number)
        self.waiting = deque(n for n in self.waiting if n != number)
        self.going = [n for n in self.going if n != number]
        n = found.count
        return Sampled(found.tokens[:n].copy(), found.logprobs[:n].copy(), reason(found.job, n, found.stopped, found.room))

    def _begin(self, job: Job) -> tuple[Tensor, Any]:
        if not job.shown:
            return self.network.begin(job.prefix)
        if not isinstance(self.network, StepwiseShown):
            raise UserError(
                f"the prompt shows media of the kind {job.shown[0].kind}, but this model reads only text; take a model that reads this kind, "
                "or a task in text"
            )
        return self.network.begin_shown(job.prefix, job.shown)

    def _advance(self, s: _Sequence) -> bool:
        """Adds one token to a sequence. Returns whether the sequence ends with this token."""
        logits: Tensor
        if s.count == 0:
            with part("prefill", len(s.job.prefix), 1):
                logits, s.state = self._begin(s.job)
        else:
            with part("decode", 1, 1):
                logits, s.state = self.network.advance(s.state, int(s.tokens[s.count - 1]))
        row = logits.cpu().unsqueeze(0)
        u = torch.from_numpy(uniforms(np.array([s.job.key], np.uint64), np.array([len(s.job.prefix) + s.count])))
        token, logprob = choose(row, s.settings, u)
        if s.job.likely:
            s.likely = dict(zip([s.count], most_likely(row, s.settings, s.job.likely), strict=True))
        s.tokens[s.count], s.logprobs[s.count] = int(token), float(logprob)
        s.count += 1
        s.stopped = int(token) in self.ends or stop_reached(s.tokens[: s.count], s.job.sampling.stops, self.decode_text)
        if s.stopped or s.count == s.room:
            s.state = None  # this releases the memory of the state
            return True
        return False
