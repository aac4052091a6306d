"""Sampling: many sequences at once, each with the same tokens and log-probabilities as alone.

A prompt is read once for all jobs that share it; sequences then advance together, one token per step. Finished ones leave and waiting ones
take their slots. Draws, rounding and block sizes do not depend on the other sequences, so the results do not either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from gradus.policies.blocks import cover
from gradus.policies.compiled import CompiledCache, Shared, fits
from gradus.policies.decoder import Decoder
from gradus.policies.decoding import Fused, PlainCache, Prompt, padded
from gradus.policies.token_sampling import Settings, choose
from gradus.runtime.memory import free_memory
from gradus.types import Ended, Sampling, UserError, uniforms

CACHE_SHARE = 0.5  # largest share of free memory for a cache; it takes fewer slots if need be
CACHE_BYTES = 4 << 30  # the limit if the system does not report free memory
_AHEAD = 32  # positions whose uniform numbers are drawn at once
_READ_TOKENS = 2048  # prefixes are read ahead together, up to about this many padded tokens

DecodeText: TypeAlias = Callable[[np.ndarray], str]


@dataclass(frozen=True, eq=False)
class Job:
    """One sequence to continue: after `prefix` (int32 tokens), the token at absolute position p is drawn with uniforms(key, p)."""

    prefix: np.ndarray
    sampling: Sampling
    key: int  # 64 bits


@dataclass(frozen=True, eq=False)
class Sampled:
    """New tokens int32 [n], including the end token or stop string; their log-probabilities float32 [n]; the reason of the end."""

    tokens: np.ndarray
    logprobs: np.ndarray
    ended: Ended


class Stepwise(Protocol):
    """A network that decodes one sequence token by token: the interface to sample from any other architecture."""

    def begin(self, tokens: np.ndarray) -> tuple[Tensor, Any]:
        """Logits [vocab] of the token after these, and a state to continue from."""
        ...

    def advance(self, state: Any, token: int) -> tuple[Tensor, Any]:
        """Logits [vocab] after one more token, and the next state."""
        ...


P = TypeVar("P", Prompt, Shared)


class Cache(Protocol[P]):
    """Slots that hold one sequence each: a prefix that was read, and the tokens after it."""

    def __len__(self) -> int: ...
    def read(self, prefixes: Sequence[np.ndarray]) -> list[P]: ...
    def fill(self, slot: int, prompt: P) -> None: ...
    def clear(self, slot: int) -> None: ...
    def move(self, source: int, target: int, length: int) -> None: ...
    def step(self, tokens: np.ndarray, positions: np.ndarray, used: int) -> Tensor: ...


def generate(
    network: Decoder | Stepwise,
    jobs: Sequence[Job],
    *,
    end_tokens: Collection[int],
    decode_text: DecodeText,
    max_context: int,
    rows: int = 256,
    graphs: bool = False,
) -> list[Sampled]:
    """Samples of all jobs, in order, at most `rows` at a time. A job's result does not depend on the other jobs, byte for byte.

    `graphs`: decoding steps are captured as CUDA graphs and replayed.
    A sequence ends after an end token, after the first token that completes a stop string in its new text, after max_tokens new tokens,
    or when prefix and new tokens fill `max_context`. Log-probabilities are those of the full tempered distribution (`draws.choose`).
    Raises: UserError for an empty prefix, or one that leaves no room for a token.
    """
    for job in jobs:
        _check(job, max_context)
    ends = frozenset(int(t) for t in end_tokens)
    with torch.inference_mode():
        if isinstance(network, Decoder):
            return _Run(network, jobs, ends, decode_text, max_context, rows, graphs).results() if jobs else []
        return [_alone(network, job, ends, decode_text, max_context) for job in jobs]


def stop_reached(tokens: np.ndarray, stops: Sequence[str], decode_text: DecodeText) -> bool:
    """Whether the text of the tokens contains a stop string, if it did not before the last token.

    Such a stop is at the end of the text, so the last tokens are checked first: enough for a few characters more than the longest stop
    (a split character decodes to a replacement character, hence the margin). A hit there is confirmed in the whole text.
    """
    if not stops:
        return False
    needed, count = max(map(len, stops)) + 4, 8
    while True:
        tail = decode_text(tokens[-count:])
        if count >= len(tokens) or len(tail) >= 2 * needed:
            break
        count *= 2
    if not any(stop in tail for stop in stops):
        return False
    text = tail if count >= len(tokens) else decode_text(tokens)
    return any(stop in text for stop in stops)


def _check(job: Job, max_context: int) -> None:
    if len(job.prefix) == 0:
        raise UserError("a prompt has no tokens; give at least one, such as the beginning-of-text token")
    if len(job.prefix) >= max_context:
        raise UserError(
            f"a prompt of {len(job.prefix)} tokens does not fit the model's context of {max_context} tokens with room for an answer; "
            "shorten the prompt or take a model with a longer context"
        )


def _room(job: Job, max_context: int) -> int:
    return min(job.sampling.limit, max_context - len(job.prefix))


def _alone(network: Stepwise, job: Job, ends: frozenset[int], decode_text: DecodeText, max_context: int) -> Sampled:
    """Samples one job, token by token."""
    room, settings = _room(job, max_context), Settings.of([job.sampling])
    tokens, logprobs = np.zeros(room, np.int32), np.zeros(room, np.float32)
    logits, state = network.begin(job.prefix)
    for n in range(room):
        u = torch.from_numpy(uniforms(np.array([job.key], np.uint64), np.array([len(job.prefix) + n])))
        token, logprob = choose(logits.cpu().unsqueeze(0), settings, u)
        tokens[n], logprobs[n] = int(token), float(logprob)
        if int(token) in ends or stop_reached(tokens[: n + 1], job.sampling.stops, decode_text):
            return Sampled(tokens[: n + 1].copy(), logprobs[: n + 1].copy(), Ended.STOP)
        if n + 1 < room:
            logits, state = network.advance(state, int(token))
    return Sampled(tokens, logprobs, Ended.LENGTH if room == job.sampling.limit else Ended.CONTEXT)


class _Run:
    """One call of `generate`: the waiting jobs, the slots, the results."""

    def __init__(
        self,
        decoder: Decoder,
        jobs: Sequence[Job],
        ends: frozenset[int],
        decode_text: DecodeText,
        max_context: int,
        rows: int,
        graphs: bool = False,
    ) -> None:
        self.jobs, self.decode_text, self.device = jobs, decode_text, decoder.device
        rooms = np.array([_room(job, max_context) for job in jobs])
        longest = max(len(job.prefix) + int(room) for job, room in zip(jobs, rooms, strict=True))
        self.fused = Fused(decoder, max(longest, padded(longest)))
        self.rooms = rooms
        self.tokens = np.zeros((len(jobs), int(rooms.max())), np.int32)
        self.logprobs = np.zeros((len(jobs), int(rooms.max())), np.float32)
        self.counts = np.zeros(len(jobs), np.int64)  # new tokens of every job
        self.stopped = np.zeros(len(jobs), bool)
        self.settings = Settings.of([job.sampling for job in jobs], self.device)
        self.keys = np.array([job.key for job in jobs], dtype=np.uint64)
        self.starts = np.array([len(job.prefix) for job in jobs])
        self.numbers = np.zeros((len(jobs), _AHEAD))  # uniform numbers for a job's next tokens, drawn _AHEAD at a time
        self.with_stops = np.array([bool(job.sampling.stops) for job in jobs])
        self.some_stops = bool(self.with_stops.any())
        self.is_end = np.zeros(self.fused.vocab, bool)
        self.is_end[[t for t in ends if 0 <= t < self.fused.vocab]] = True
        # Long prefixes first, so that neighbouring slots hold sequences of similar length; jobs of one prefix stay together.
        self.prefixes = [job.prefix.tobytes() for job in jobs]
        first = {p: i for i, p in reversed(list(enumerate(self.prefixes)))}
        self.waiting = sorted(range(len(jobs)), key=lambda i: (-len(jobs[i].prefix), first[self.prefixes[i]], i), reverse=True)
        self.read: dict[bytes, Any] = {}
        self.cache = self._cache(longest, max_context, rows, graphs)
        self.holds = np.zeros(len(self.cache), np.int64)  # the job of every slot; valid for the first `used` slots
        self.used = 0

    def _cache(self, longest: int, max_context: int, rows: int, graphs: bool) -> Cache[Any]:
        """A cache with enough slots for the jobs, or the largest agreed block size within `rows` and the memory."""
        fused, prefix, own = self.fused, int(self.starts.max()), int(self.rooms.max())
        compiled = fits(fused)
        one = CompiledCache.slot_bytes(fused, own) if compiled else PlainCache.slot_bytes(fused, longest, max_context)
        free = free_memory(self.device)
        budget = CACHE_BYTES if free is None else int(CACHE_SHARE * free)
        allowed = [size for size in fused.sizes if size <= rows and size * one <= budget] or [fused.sizes[0]]
        count = cover(len(self.jobs), allowed)
        if compiled:
            return CompiledCache(fused, count, prefix=prefix, own=own)
        return PlainCache(fused, count, sequence=longest, context=max_context, graphs=graphs)

    def results(self) -> list[Sampled]:
        self._admit([])
        while self.used:
            self._admit(self._step())
        out = []
        for i, job in enumerate(self.jobs):
            n = self.counts[i]
            full = Ended.LENGTH if n == job.sampling.limit else Ended.CONTEXT
            out.append(Sampled(self.tokens[i, :n].copy(), self.logprobs[i, :n].copy(), Ended.STOP if self.stopped[i] else full))
        return out

    def _step(self) -> list[int]:
        """Adds one token to every slot in use. Returns the slots whose sequences end with it."""
        held, rows = self.holds[: self.used], cover(self.used, self.fused.sizes)
        tokens, positions = np.zeros(rows, np.int64), np.zeros(rows, np.int64)  # empty slots read token 0 at place 0, without effect
        tokens[: self.used] = self.tokens[held, self.counts[held] - 1]
        positions[: self.used] = self.starts[held] + self.counts[held] - 1
        logits = self.cache.step(tokens, positions, self.used)
        return np.flatnonzero(self._draw(held, logits[: self.used])).tolist()

    def _draw(self, held: np.ndarray, logits: Tensor) -> np.ndarray:
        """Draws and stores the next token of these jobs from their logits [n, vocab]. Returns whether each has ended, bool [n]."""
        counts = self.counts[held]
        place = counts % _AHEAD
        fresh = held[place == 0]
        if len(fresh):
            ahead = (self.starts[fresh] + self.counts[fresh])[:, None] + np.arange(_AHEAD)
            self.numbers[fresh] = uniforms(self.keys[fresh, None], ahead)
        chosen, logprobs = choose(logits, self.settings.rows(self._tensor(held)), torch.from_numpy(self.numbers[held, place]))
        tokens = chosen.cpu().numpy()
        self.tokens[held, counts] = tokens
        self.logprobs[held, counts] = logprobs.cpu().numpy()
        self.counts[held] = counts + 1
        stopped = self.is_end[tokens]
        if self.some_stops:
            for i in np.flatnonzero(self.with_stops[held] & ~stopped):
                job = held[i]
                stopped[i] = stop_reached(self.tokens[job, : self.counts[job]], self.jobs[job].sampling.stops, self.decode_text)
        self.stopped[held] = stopped
        return stopped | (counts + 1 == self.rooms[held])

    def _admit(self, free: list[int]) -> None:
        """Gives free slots to waiting jobs. If none waits, moves the last sequences there, so that the slots in use are always the first.

        A job's first token comes from the logits of its prefix; it may also be its last.
        """
        free = [*free, *range(self.used, len(self.holds))]
        while self.waiting and free:
            prompts: dict[int, Any] = {}
            while self.waiting and len(prompts) < len(free):
                job = self.waiting.pop()
                prompts[job] = self._prompt(job)
            ended = self._draw(np.array(list(prompts)), torch.stack([p.logits for p in prompts.values()]))
            going = [(job, prompt) for (job, prompt), over in zip(prompts.items(), ended, strict=True) if not over]
            for slot, (job, prompt) in zip(free, going, strict=False):
                self.cache.fill(slot, prompt)
                self.holds[slot] = job
                self.used = max(self.used, slot + 1)
            free = free[len(going) :]
        for hole in sorted((slot for slot in free if slot < self.used), reverse=True):
            self.used -= 1
            if hole < self.used:
                job = self.holds[hole] = self.holds[self.used]
                self.cache.move(self.used, hole, int(self.starts[job] + self.counts[job]))
            self.cache.clear(self.used)

    def _prompt(self, job: int) -> Any:
        """The job's prefix, read. If it is not read yet, the next waiting ones of the same padded length are read with it."""
        wanted = self.prefixes[job]
        if wanted not in self.read:
            length = padded(len(self.jobs[job].prefix))
            batch = {wanted: self.jobs[job].prefix}
            for other in reversed(self.waiting):
                if padded(len(self.jobs[other].prefix)) != length or len(batch) * length >= _READ_TOKENS:
                    break
                batch.setdefault(self.prefixes[other], self.jobs[other].prefix)
            self.read |= dict(zip(batch, self.cache.read(list(batch.values())), strict=True))
        prompt = self.read[wanted]
        if not self.waiting or self.prefixes[self.waiting[-1]] != wanted:
            del self.read[wanted]
        return prompt

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)
