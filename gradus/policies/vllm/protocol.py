"""The interface between a language model and vLLM, in this process or on a server. The model sends weights and jobs, and vLLM returns answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gradus.policies.engine import Job

PAUSE = 0.5  # seconds before the first retry; the pause doubles with each retry
LEAST_TEMPERATURE = 0.01  # vLLM replaces temperatures between 0 and this number by this number


class Lost(Exception):
    """The error for a connection to the server that is lost during a request. Later answers may then come from other weights."""


@dataclass(frozen=True, eq=False)
class Answer:
    """vLLM's answer to one request: the new tokens, their log-probabilities (None: vLLM gave none), and the reason why the answer ended."""

    tokens: Sequence[int]
    logprobs: Sequence[float] | None
    reason: str | None


class Sampler(Protocol):
    """The interface to vLLM, in this process or on a server."""

    where: str  # the name of this place in messages
    longest: int | None  # largest number of tokens of a sequence; None: the model's own limit
    retries: int

    def load(self, folder: Path, label: str) -> None:
        """Loads the weights in a model folder under the name `label`.

        Raises UserError if vLLM cannot load the weights, and Lost if the server does not answer.
        """
        ...

    def holds(self, label: str) -> bool:
        """Whether the weights with this name are still loaded. If vLLM does not report its weights, the result is True."""
        ...

    def sample(self, jobs: Sequence[Job], rooms: Sequence[int], ends: Sequence[int], label: str | None) -> list[Answer | None]:
        """Returns one answer per job, of at most `rooms` new tokens; None if vLLM aborted the request. Raises Lost."""
        ...

    def mode(self, token: int) -> Literal["raw", "processed"]:
        """Returns "raw" if vLLM computes log-probabilities before temperature and truncation, and "processed" if it computes them afterwards.

        `token`: any token that may begin a prompt.
        """
        ...


def seed_of(key: int) -> int:
    """Returns the lower 63 bits of a job's key, which vLLM uses as seed."""
    return key & (2**63 - 1)
