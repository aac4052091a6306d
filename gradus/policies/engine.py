"""Samples many sequences at once. Each sequence gets the same tokens and log-probabilities as when it is sampled alone.

A prompt is read once for all jobs that share it. Then the sequences advance together, one token per step. Finished sequences leave, and waiting sequences take
their slots. Draws, rounding and block sizes do not depend on the other sequences. So the results of a sequence do not depend on the other sequences.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from gradus.policies.blocks import cover
from gradus.policies.compiled import CompiledCache, Shared, fits
from gradus.policies.decoder import Decoder
from gradus.policies.decoding import Fused, PlainCache, Prompt, padded
from gradus.policies.inputs import Inputs
from gradus.policies.jobs import Batch, DecodeText, Drawn, Job, Likely, Sampled, Stepwise, check_job, reason, room, stop_reached
from gradus.policies.lengths import Lengths
from gradus.policies.one_by_one import OneByOne
from gradus.policies.token_sampling import Settings, choose, most_likely
from gradus.runtime.activity import part
from gradus.runtime.memory import free_memory
from gradus.types import uniforms

CACHE_SHARE = 0.5  # largest share of free memory for a cache; if the memory is too small, the cache has fewer slots
CACHE_BYTES = 4 << 30  # the limit if the system does not report free memory
_AHEAD = 32  # uniform numbers are drawn for this number of positions at once
_READ_TOKENS = 2048  # prefixes are read together in advance, up to about this number of padded tokens

P = TypeVar("P", Prompt, Shared)


class Cache(Protocol[P]):
    """Slots with one sequence each: a prefix that was read, and the tokens after it."""

    def __len__(self) -> int: ...
    def read(self, prefixes: Sequence[np.ndarray], given: Sequence[Inputs | None] = ()) -> list[P]: ...
    def fill(self, slot: int, prompt: P) -> None: ...
    def clear(self, slot: int) -> None: ...
    def move(self, source: int, target: int, length: int) -> None: ...
    def step(self, tokens: np.ndarray, positions: np.ndarray, used: int) -> Tensor: ...
    def take_over(self, other: Any, used: int) -> None: ...


def generate(
    network: Decoder | Stepwise,
    jobs: Sequence[Job],
    *,
    end_tokens: Collection[int],
    decode_text: DecodeText,
    max_context: int,
    rows: int = 256,
    graphs: bool = False,
    order: Sequence[int] | None = None,
    pause: Callable[[], bool] = bool,
) -> list[Sampled]:
    """Samples all jobs, at most `rows` at a time, and returns the samples in the order of the jobs.

    The result of a job does not depend in any byte on the other jobs.

    A sequence ends after an end token, or after the first token that completes a stop string in its new text. The sequence also ends after max_tokens new
    tokens, or when prefix and new text together have `max_context` tokens. Log-probabilities are of the full tempered distribution (`token_sampling.choose`).
    `graphs`: whether decoding steps are captured as CUDA graphs and replayed. `order`: the numbers of the jobs, in the order in which they take slots; None:
    long prefixes first. `pause`: called between two tokens; if it returns True, all sequences are returned with their tokens so far.

    Raises: UserError for an empty prefix, and for a prefix without room for a new token.
    """
    for job in jobs:
        check_job(job, max_context)
    if not jobs:
        return []
    longest = max(len(job.prefix) + room(job, max_context) for job in jobs)
    one = 1 if not isinstance(network, Decoder) else rows
    batch = open_batch(
        network, end_tokens=end_tokens, decode_text=decode_text, max_context=max_context, rows=one, graphs=graphs, longest=longest
    )
    numbers = batch.add(jobs) if order is None else batch.add(jobs, order)
    while batch.busy and not pause():
        batch.step()
    return [batch.take(number) for number in numbers]


def open_batch(
    network: Decoder | Stepwise,
    *,
    end_tokens: Collection[int],
    decode_text: DecodeText,
    max_context: int,
    rows: int = 256,
    graphs: bool = False,
    longest: int | None = None,
) -> Batch:
    """Opens a batch with the same results as `generate`. Sequences join and leave the batch between steps; at most `rows` run at a time.

    The batch uses the weights from the time of this call. `longest`: the length of the longest sequence that will join; None: `max_context`.
    """
    ends = frozenset(int(t) for t in end_tokens)
    if isinstance(network, Decoder):
        return Together(network, ends, decode_text, max_context, rows, graphs, longest or max_context)
    return OneByOne(network, ends, decode_text, max_context, rows)


class Together:
    """A batch (`jobs.Batch`) for the built-in decoder: the waiting jobs, the slots, and the tokens of every sequence."""

    def __init__(
        self, decoder: Decoder, ends: frozenset[int], decode_text: DecodeText, max_context: int, rows: int, graphs: bool, longest: int
    ) -> None:
        self.decode_text, self.device, self.max_context, self.most, self.graphs = decode_text, decoder.device, max_context, rows, graphs
        with torch.inference_mode():
            self.fused = Fused(decoder, max(longest, padded(longest)))
        self.longest = longest
        self.is_end = np.zeros(self.fused.vocab, bool)
        self.is_end[[t for t in ends if 0 <= t < self.fused.vocab]] = True
        self.jobs: list[Job | None] = []  # the job with each number; None: the number is free
        self.prefixes: list[bytes] = []
        self.free: list[int] = []  # free numbers, which new jobs use again
        self.rooms, self.starts, self.counts = (np.zeros(0, np.int64) for _ in range(3))  # limit on new tokens, prefix, new tokens
        self.tokens, self.logprobs = np.zeros((0, 0), np.int32), np.zeros((0, 0), np.float32)
        self.stopped, self.with_stops = np.zeros(0, bool), np.zeros(0, bool)
        self.keys = np.zeros(0, np.uint64)
        self.numbers = np.zeros((0, _AHEAD))  # uniform numbers for a sequence's next tokens, drawn _AHEAD at a time
        self.settings: Settings | None = None  # the settings of every number; None: `_settle` makes them again
        self.some_stops = self.some_likely = False
        self.waiting: deque[int] = deque()
        self.read: dict[bytes, Any] = {}
        self.wanting: Counter[bytes] = Counter()  # waiting jobs by prefix
        self.cache: Cache[Any] | None = None
        self.lengths, self.limit = Lengths(0, 0, 0), 0  # of the cache: room per slot; limit on slots from the memory
        self.holds = np.zeros(0, np.int64)  # the sequence of every slot; valid for the first `used` slots, except for `holes`
        self.used = 0
        self.holes: list[int] = []  # slots below `used` whose sequence has left

    @property
    def busy(self) -> bool:
        return bool(self.waiting) or self.running > 0

    @property
    def running(self) -> int:
        return self.used - len(self.holes)

    def add(self, jobs: Sequence[Job], order: Sequence[int] | None = None) -> list[int]:
        for job in jobs:
            check_job(job, self.max_context)
        numbers = self._numbers(jobs)
        rooms = [room(job, self.max_context) for job in jobs]
        prefixes = [job.beginning for job in jobs]
        for number, job, prefix in zip(numbers, jobs, prefixes, strict=True):
            self.jobs[number], self.prefixes[number] = job, prefix
        at = np.array(numbers, np.int64)
        self.rooms[at], self.starts[at] = rooms, [len(job.prefix) for job in jobs]
        self.counts[at], self.stopped[at], self.with_stops[at] = 0, False, [bool(job.sampling.stops) for job in jobs]
        self.keys[at] = np.array([job.key for job in jobs], np.uint64)
        self.settings = None
        if order is None:
            # Long prefixes come first, so that neighbouring slots have sequences of similar length. Jobs with the same prefix stay together.
            first = {p: i for i, p in reversed(list(enumerate(prefixes)))}
            order = sorted(range(len(jobs)), key=lambda i: (-len(jobs[i].prefix), first[prefixes[i]], i))
        self.waiting += [numbers[i] for i in order]
        self.wanting.update(prefixes)
        return numbers

    @torch.inference_mode()
    def step(self) -> Drawn:
        if self.waiting and (free := self._free_slots()):
            return self._admit(free)
        self._close_holes()
        return self._advance()

    def take(self, number: int) -> Sampled:
        job, n = self.jobs[number], self.counts[number]
        assert job is not None
        if n < self.rooms[number] and not self.stopped[number]:
            self._leave(number)
        self.jobs[number] = None
        self.free.append(number)
        self.settings = None
        return Sampled(self.tokens[number, :n].copy(), self.logprobs[number, :n].copy(), reason(job, n, bool(self.stopped[number]), self.rooms[number]))

    def _leave(self, number: int) -> None:
        """Removes a sequence from the queue or from its slot."""
        if number in self.waiting:
            self.waiting.remove(number)
            self.wanting[self.prefixes[number]] -= 1
            return
        held = np.flatnonzero(self.holds[: self.used] == number).tolist()
        self.holes += [slot for slot in held if slot not in self.holes]

    def _numbers(self, jobs: Sequence[Job]) -> list[int]:
        """Returns an unused number for each job, and makes room in the arrays for the jobs' tokens."""
        needed = len(jobs) - len(self.free)
        have, width = self.tokens.shape
        longest = max((room(job, self.max_context) for job in jobs), default=0)
        if needed > 0 or longest > width:
            count = have if needed <= 0 else have + max(needed, have)
            new, wider = count - have, max(0, longest - width)
            self.tokens = np.pad(self.tokens, ((0, new), (0, wider)))
            self.logprobs = np.pad(self.logprobs, ((0, new), (0, wider)))
            self.numbers = np.pad(self.numbers, ((0, new), (0, 0)))
            for name in ("rooms", "starts", "counts", "stopped", "with_stops", "keys"):
                setattr(self, name, np.pad(getattr(self, name), (0, new)))
            self.jobs += [None] * new
            self.prefixes += [b""] * new
            self.free += range(have, count)
        taken, self.free = self.free[: len(jobs)], self.free[len(jobs) :]
        return taken

    def _free_slots(self) -> list[int]:
        """Returns the slots that waiting sequences may take.

        If the cache is too small and there is enough memory, the method first makes the cache larger.
        """
        full = self.cache is not None and not self.holes and self.used == len(self.cache)
        if self.cache is None or not self._head_fits() or (full and len(self.cache) < self.limit):
            self._close_holes()
            if not self._enlarge():
                return []
        free = [*self.holes, *range(self.used, len(self.cache or ()))]
        return free[: max(0, self.most - self.running)]  # the smallest cache may have more slots than `most`

    def _enlarge(self) -> bool:
        """Makes the cache, or a larger cache that takes over the running sequences.

        Returns False if there is not enough memory now. Other sequences must then end first.
        """
        coming = [*self.waiting] if self.used == 0 else [self.waiting[0]]
        at = np.array([*self.holds[: self.used], *coming], np.int64)
        lengths = Lengths.of(self.starts[at], self.rooms[at])
        if self.used == 0:
            self.cache = None  # this releases its memory for the new cache
        else:
            lengths = self.lengths.grown(lengths, self.longest)
        f, compiled = self.fused, fits(self.fused)
        one = CompiledCache.slot_bytes(f, lengths.own) if compiled else PlainCache.slot_bytes(f, lengths.whole, self.max_context)
        free = free_memory(self.device)
        budget = CACHE_BYTES if free is None else int(CACHE_SHARE * free)
        allowed = [size for size in f.sizes if size <= self.most and size * one <= budget] or [f.sizes[0]]
        wanted = self.used + len(self.waiting)
        count = cover(max(wanted, 2 * self.used), allowed)
        if count <= self.used:
            return False
        made: Any
        if compiled:
            made = CompiledCache(f, count, prefix=lengths.prefix, own=lengths.own)
        else:
            made = PlainCache(f, count, sequence=lengths.whole, context=self.max_context, graphs=self.graphs)
        if self.used:
            made.take_over(self.cache, self.used)
        self.cache, self.lengths, self.limit = made, lengths, allowed[-1]
        self.holds = np.concatenate([self.holds[: self.used], np.zeros(count - self.used, np.int64)])
        return True

    def _admit(self, free: list[int]) -> Drawn:
        """Gives free slots to waiting sequences.

        A sequence's first token comes from the logits of its prefix. The first token may also be the sequence's last token.
        """
        assert self.cache is not None
        prompts: dict[int, Any] = {}
        while self.waiting and len(prompts) < len(free) and self._head_fits():
            number = self.waiting.popleft()
            self.wanting[self.prefixes[number]] -= 1
            prompts[number] = self._prompt(number)
        drawn = self._draw(np.array(list(prompts)), torch.stack([p.logits for p in prompts.values()]))
        going = [(number, prompt) for (number, prompt), over in zip(prompts.items(), drawn.over, strict=True) if not over]
        for slot, (number, prompt) in zip(free, going, strict=False):
            self.cache.fill(slot, prompt)
            self.holds[slot] = number
            self.used = max(self.used, slot + 1)
        self.holes = [slot for slot in free[len(going) :] if slot < self.used]
        return drawn

    def _head_fits(self) -> bool:
        head = np.array([self.waiting[0]])
        return self.lengths.cover(Lengths.of(self.starts[head], self.rooms[head]))

    def _close_holes(self) -> None:
        """Moves the last sequences into the slots that became free. So the slots in use are always the first slots."""
        if self.cache is None:
            return
        for hole in sorted(self.holes, reverse=True):
            self.used -= 1
            if hole < self.used:
                number = self.holds[hole] = self.holds[self.used]
                self.cache.move(self.used, hole, int(self.starts[number] + self.counts[number]))
            self.cache.clear(self.used)
        self.holes = []

    def _advance(self) -> Drawn:
        """Adds one token to every running sequence."""
        held, rows = self.holds[: self.used], cover(self.used, self.fused.sizes)
        if self.cache is None or not self.used:
            return Drawn(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, bool))
        tokens, positions = np.zeros(rows, np.int64), np.zeros(rows, np.int64)  # empty slots read token 0 at place 0, without effect
        tokens[: self.used] = self.tokens[held, self.counts[held] - 1]
        positions[: self.used] = self.starts[held] + self.counts[held] - 1
        with part("decode", self.used, self.used):
            logits = self.cache.step(tokens, positions, self.used)
        drawn = self._draw(held.copy(), logits[: self.used])
        self.holes = np.flatnonzero(drawn.over).tolist()
        return drawn

    def _draw(self, held: np.ndarray, logits: Tensor) -> Drawn:
        """Draws and stores the next token of the sequences `held` from their logits [n, vocab]."""
        counts = self.counts[held]
        place = counts % _AHEAD
        fresh = held[place == 0]
        if len(fresh):
            ahead = (self.starts[fresh] + self.counts[fresh])[:, None] + np.arange(_AHEAD)
            self.numbers[fresh] = uniforms(self.keys[fresh, None], ahead)
        if self.settings is None:
            self._settle()
        assert self.settings is not None
        settings = self.settings.rows(self._tensor(held))
        chosen, logprobs = choose(logits, settings, torch.from_numpy(self.numbers[held, place]))
        tokens, likelihoods = chosen.cpu().numpy(), logprobs.cpu().numpy()
        self.tokens[held, counts] = tokens
        self.logprobs[held, counts] = likelihoods
        self.counts[held] = counts + 1
        stopped = self.is_end[tokens]
        if self.some_stops:
            for i in np.flatnonzero(self.with_stops[held] & ~stopped):
                number = held[i]
                stops = self.jobs[number].sampling.stops
                stopped[i] = stop_reached(self.tokens[number, : self.counts[number]], stops, self.decode_text)
        self.stopped[held] = stopped
        return Drawn(held, tokens, likelihoods, stopped | (counts + 1 == self.rooms[held]), self._likely(held, logits, settings))

    def _settle(self) -> None:
        """Stores the sampling settings of the sequences in an array with one row per number.

        An unused number gets the settings of another number. If all sequences have equal settings, only one row is stored.
        """
        held = [job for job in self.jobs if job is not None]
        self.settings = Settings.of([(job or held[0]).sampling for job in self.jobs], self.device)
        self.some_stops = any(job.sampling.stops for job in held)
        self.some_likely = any(job.likely for job in held)

    def _likely(self, held: np.ndarray, logits: Tensor, settings: Settings) -> dict[int, Likely]:
        """Returns the most likely tokens for each sequence whose job asks for such tokens, by the sequence's number."""
        if not self.some_likely:
            return {}
        counts = [self.jobs[number].likely for number in held]
        rows = [i for i, count in enumerate(counts) if count]
        if not rows:
            return {}
        at = torch.tensor(rows, device=logits.device)
        found = most_likely(logits[at], settings.rows(at), max(counts))
        return {int(held[i]): (ids[: counts[i]], values[: counts[i]]) for i, (ids, values) in zip(rows, found, strict=True)}

    def _prompt(self, number: int) -> Any:
        """Returns the sequence's prefix. If the prefix was not read before, reads it first.

        The next waiting prefixes of the same padded length are read together with this prefix.
        """
        assert self.cache is not None
        wanted = self.prefixes[number]
        if wanted not in self.read:
            length = padded(int(self.starts[number]))
            batch = {wanted: self.jobs[number]}
            for other in self.waiting:
                if padded(int(self.starts[other])) != length or len(batch) * length >= _READ_TOKENS:
                    break
                batch.setdefault(self.prefixes[other], self.jobs[other])
            jobs = [job for job in batch.values() if job is not None]
            given = [job.inputs for job in jobs] if any(job.inputs is not None for job in jobs) else ()
            with part("prefill", sum(len(job.prefix) for job in jobs), len(jobs)):
                self.read |= dict(zip(batch, self.cache.read([job.prefix for job in jobs], given), strict=True))
        prompt = self.read[wanted]
        if not self.waiting:
            self.read.clear()
        elif not self.wanting[wanted]:
            del self.read[wanted], self.wanting[wanted]
        return prompt

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)
