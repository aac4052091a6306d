"""The speeds of a simulated training run: decoding, reading prompts, updates, and the transfer of weights."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gradus.types.errors import UserError
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Rates:
    """The durations, in seconds, for the prediction of a run.

    A replica is one copy of the model that samples. The sequences of a replica decode together, one token each in a step.
    """

    decode: Callable[[int], float]  # seconds of a decoding step, by the number of sequences of the replica
    prefill: float = 0.0  # seconds per prompt token
    update: float = 0.0  # seconds per sampled token, for all updates of a step
    update_start: float = 0.0  # seconds of an update that do not depend on the number of tokens
    publish: float = 0.0  # seconds that a replica needs to load new weights
    most: int = 1 << 30  # largest number of sequences in the memory of a replica

    def __post_init__(self) -> None:
        check_ranges(self, prefill="[0, inf)", update="[0, inf)", update_start="[0, inf)", publish="[0, inf)", most="[1, inf)")


@dataclass(frozen=True)
class Affine:
    """Seconds of a decoding step of b sequences: start + each * b."""

    start: float
    each: float = 0.0

    def __call__(self, sequences: int) -> float:
        return self.start + self.each * sequences


@dataclass(frozen=True)
class Measured:
    """Seconds of a decoding step from measured tokens per second of a replica, by its number of sequences.

    Between two measured numbers, the seconds of a step are interpolated linearly. Below the smallest number, the seconds stay the same as at this
    number. Above the largest number, the tokens per second stay the same, so the seconds are proportional to the number of sequences.
    """

    tokens: Mapping[int, float]

    def __post_init__(self) -> None:
        if not self.tokens:
            raise UserError("Measured.tokens is empty; give at least one number of sequences with its tokens per second")
        for sequences, rate in self.tokens.items():
            if sequences < 1 or not rate > 0:
                raise UserError(f"Measured: {rate:g} tokens per second at {sequences} sequences; give two numbers above 0")

    def __call__(self, sequences: int) -> float:
        known = sorted(self.tokens)
        seconds = [n / self.tokens[n] for n in known]
        if sequences <= known[0]:
            return seconds[0]
        if sequences >= known[-1]:
            return seconds[-1] * sequences / known[-1]
        right = bisect.bisect_left(known, sequences)
        low, high = known[right - 1], known[right]
        return seconds[right - 1] + (seconds[right] - seconds[right - 1]) * (sequences - low) / (high - low)
