"""The settings of a run's checks for non-finite numbers, and for differences between the log-probabilities of rollout and update."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gradus.types.errors import UserError
from gradus.types.ranges import check_ranges

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def bytes_of(text: str) -> int:
    """Converts a size such as '6GB' to bytes.

    The units are B (also the unit of a bare number), kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024).

    Raises UserError if the text does not have this form.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-zA-Z]*)\s*", text)
    unit = UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None or not float(found[1]) > 0:
        raise UserError(f'`memory` is "{text}"; write a size such as 6GB, 512MB or 4GiB')
    return int(float(found[1]) * unit)


@dataclass(frozen=True)
class Guard:
    """How a run reacts to non-finite numbers. If the loss, a gradient, an advantage or a log-probability is not finite, no weight changes.

    After `in_a_row` consecutive steps with a skipped update, the run returns to its last good checkpoint and draws other data. If the run has already
    returned `returns` times, it stops instead.
    """

    in_a_row: int = 3  # the run returns to a checkpoint after this number of consecutive steps with a skipped update
    returns: int = 2  # largest number of returns to a checkpoint in the whole run; 0: the run stops instead of returning
    spike: float | None = None  # skips an update if its gradient norm is above spike * median of the last norms; None: never
    window: int = 64  # number of last norms from which the median is computed
    least: int = 16  # number of norms that must exist before `spike` has an effect

    def __post_init__(self) -> None:
        check_ranges(self, in_a_row="[1, inf)", returns="[0, inf)", spike="(1, inf)", window="[1, inf)", least="[1, inf)")
        if self.least > self.window:
            raise UserError(f"Guard.least is {self.least}, but Guard.window keeps only {self.window} norms; raise `window`, or lower `least`")


@dataclass(frozen=True)
class Agreement:
    """How a run checks that rollout and update compute the same log-probabilities of new samples.

    The run compares the log-probabilities at the start and every `every` steps. The difference of a token is its log-probability in the update minus its
    log-probability in the rollout. `metric` "mean" is the mean of |difference|, and "max" is the largest |difference|. "kl" is the mean of r - 1 - log r, where
    r = probability in the update / probability in the rollout. All three are in nats per token.
    """

    every: int = 50  # steps between comparisons; 0: never
    metric: Literal["mean", "max", "kl"] = "mean"
    limit: float = 0.05  # nats per token
    above: Literal["warn", "truncate", "mask", "stop"] = "warn"
    """The reaction above the limit. "truncate" and "mask" multiply the policy's loss by a weight until a comparison is below the limit again.
    Let r be the probability of a token at the start of the update, divided by its probability when it was sampled. The weight is min(r, cap) for "truncate".
    For "mask" it is r if r is within [1 / cap, cap], else 0."""
    cap: float = 2.0  # largest weight
    sequences: int = 64  # largest number of sequences that are compared, in the order of sampling

    def __post_init__(self) -> None:
        check_ranges(self, every="[0, inf)", limit="[0, inf)", cap="(1, inf)", sequences="[1, inf)")
