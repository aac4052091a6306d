"""The inputs and outputs of the engine: jobs, sampled sequences, and the interface of networks that decode one sequence at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from torch import Tensor

from gradus.policies.inputs import Inputs, identity
from gradus.types import Context, Ended, Frozen, Sampling, Seen, UserError

DecodeText: TypeAlias = Callable[[np.ndarray], str]


@dataclass(frozen=True, eq=False)
class Job:
    """One sequence to continue after `prefix` (int32 tokens). The uniform number uniforms(key, p) draws the token at absolute position p."""

    prefix: np.ndarray
    sampling: Sampling
    key: int  # 64 bits
    likely: int = 0  # number of most likely tokens to report in addition to every drawn token
    inputs: Inputs | None = None  # vectors in place of the embeddings of some tokens of the prefix
    shown: tuple[Seen, ...] = ()  # the pictures and other media of the prefix; `at` is counted from the start of the prefix

    @cached_property
    def beginning(self) -> bytes:
        """Returns bytes that identify the prefix, its media and its vectors. Jobs with equal bytes share a prefix, which is read only once."""
        own = np.zeros(len(self.prefix), bool)
        text = Context(self.prefix, own, seen=self.shown).beginning(len(self.prefix)) if self.shown else self.prefix.tobytes()
        return text + identity(self.inputs)


@dataclass(frozen=True, eq=False)
class Sampled:
    """The new tokens of a sequence int32 [n], their log-probabilities float32 [n], and the reason why the sequence ended.

    The tokens include the end token or the stop string.
    """

    tokens: np.ndarray
    logprobs: np.ndarray
    ended: Ended
    inputs: np.ndarray | None = None  # float32 [n, hidden]: the latent part of every token's input; NaN if there is no latent part


Likely: TypeAlias = tuple[list[int], list[float]]
"""The most likely tokens of a position, the first the most likely, and their log-probabilities."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """One new token for each of several sequences of a batch. `numbers` are the numbers of these sequences."""

    numbers: np.ndarray  # int64 [n]
    tokens: np.ndarray  # int64 [n]
    logprobs: np.ndarray  # float32 [n]
    over: np.ndarray  # bool [n]: whether the sequence ends with this token
    likely: Mapping[int, Likely] = field(default_factory=dict)  # the most likely tokens by number of the sequence, for jobs that request them


class Stepwise(Protocol):
    """A network that decodes one sequence token by token. Through this interface, the engine can sample from any other architecture."""

    def begin(self, tokens: np.ndarray) -> tuple[Tensor, Any]:
        """Returns the logits [vocab] of the token after `tokens`, and a state for the next call of `advance`."""
        ...

    def advance(self, state: Any, token: int) -> tuple[Tensor, Any]:
        """Returns the logits [vocab] after one more token, and the next state."""
        ...


@runtime_checkable
class StepwiseShown(Protocol):
    """A `Stepwise` network to which pictures can be shown."""

    def begin_shown(self, tokens: np.ndarray, shown: Sequence[Seen]) -> tuple[Tensor, Any]:
        """Does the same as `begin`, for a prompt that shows the pictures `shown`."""
        ...


class Batch(Protocol):
    """Sequences that advance together. Sequences join and leave between steps.

    The result of a sequence does not depend in any byte on the other sequences.
    """

    @property
    def busy(self) -> bool:
        """Whether a sequence runs or waits."""
        ...

    @property
    def running(self) -> int:
        """Returns the number of sequences that have a slot."""
        ...

    def add(self, jobs: Sequence[Job], order: Sequence[int] | None = None) -> list[int]:
        """Adds a sequence per job and returns their numbers, in order of the jobs. The sequences start as slots become free.

        `order`: the numbers of the jobs in the order in which they start; None: the order of the batch.
        """
        ...

    def step(self) -> Drawn:
        """Draws one token for some or all sequences: the first token of a new sequence, or the next token of a running sequence."""
        ...

    def take(self, number: int) -> Sampled:
        """Returns the sequence with this number and removes it from the batch. The number may be used again.

        If the sequence has not ended, it is returned with its tokens so far.
        """
        ...


def job_after(parent: Context, at: int, sampling: Sampling, key: int) -> Job:
    """Returns the job that continues the first `at` tokens of a context, with their media."""
    return Job(parent.sequence[:at], sampling, key, shown=parent.shown_in(at))


def sampled_context(asked: Any, sampled: Sampled) -> Context:
    """Returns the sampled tokens as a context that continues the requested context."""
    return Context(
        tokens=sampled.tokens,
        chosen=np.ones(len(sampled.tokens), dtype=bool),
        logprobs=sampled.logprobs,
        versions=np.full(len(sampled.tokens), asked.version, dtype=np.int32),
        temperature=asked.sampling.temperature or 1.0,  # greedy tokens have their log-probability at temperature 1
        parent=(asked.parent, asked.at),
        ended=sampled.ended,
        streams=Frozen() if sampled.inputs is None else Frozen(inputs=sampled.inputs),
    )


def check_job(job: Job, max_context: int) -> None:
    """Raises UserError for an empty prefix, and for a prefix without room for a new token."""
    if len(job.prefix) == 0:
        raise UserError("a prompt has no tokens; give at least one, such as the beginning-of-text token")
    if len(job.prefix) >= max_context:
        raise UserError(
            f"a prompt of {len(job.prefix)} tokens leaves no room for an answer in the model's context of {max_context} tokens; shorten the "
            "prompt, or take a model with a longer context"
        )


def room(job: Job, max_context: int) -> int:
    """Returns the largest number of new tokens of the job."""
    return min(job.sampling.limit, max_context - len(job.prefix))


def reason(job: Job, count: int, stopped: bool, room: int) -> Ended:
    """Returns why a sequence ended after `count` new tokens; `room` is the largest possible number of new tokens. If no stop ended the sequence, a limit cut
    it."""
    full = Ended.CONTEXT if count == room < job.sampling.limit else Ended.LENGTH
    return Ended.STOP if stopped else full


def stop_reached(tokens: np.ndarray, stops: Sequence[str], decode_text: DecodeText) -> bool:
    """Whether the text of the tokens contains a stop string. The text before the last token must contain no stop string.

    So a stop string is at the end of the text, and at first the function searches only the text of the last tokens. This text is longer than the longest stop
    string, because its first character may be incomplete. If the function finds a stop string, it also searches the whole text.
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
