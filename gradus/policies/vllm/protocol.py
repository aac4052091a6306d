"""The interface between a language model and vLLM, in process or on a server: weights in, jobs in, answers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gradus.policies.engine import Job

PAUSE = 0.5  # seconds before the first repetition; doubled at each
LEAST_TEMPERATURE = 0.01  # vLLM raises what lies between 0 and this


class Lost(Exception):
    """The server went away while it was asked: whatever it says next may come from other weights."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What vLLM says to one request: new tokens, their log-probabilities (None: it gave none), and why it ended, in its own words."""

    tokens: Sequence[int]
    logprobs: Sequence[float] | None
    reason: str | None


class Sampler(Protocol):
    """vLLM, wherever it runs."""

    where: str  # in words, for messages
    longest: int | None  # tokens a sequence; None: the model's own limit
    retries: int

    def load(self, folder: Path, label: str) -> None:
        """Puts the weights of a model folder in place, under a name. Raises UserError where it does not, Lost where nobody answers."""
        ...

    def holds(self, label: str) -> bool:
        """Whether the weights of this name are still in place, as far as can be known."""
        ...

    def sample(self, jobs: Sequence[Job], rooms: Sequence[int], ends: Sequence[int], label: str | None) -> list[Answer | None]:
        """An answer to each job of at most `rooms` new tokens; None where the request was aborted. Raises Lost."""
        ...

    def mode(self, token: int) -> Literal["raw", "processed"]:
        """Whether log-probabilities are those before temperature and truncation, or after. `token`: any that can begin a prompt."""
        ...


def seed_of(key: int) -> int:
    """The 63 bits of a job's key that vLLM takes as a seed."""
    return key & (2**63 - 1)
