"""Answers in chunks: after each chunk, the context is reset to the prompt and some tokens of the trace (all tokens sampled so far)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.types import Context, Ended, Group, Request, Trajectory, UserError, prompt_context
from gradus.types.parts import World


@dataclass(frozen=True)
class Chunked:
    """Samples each answer in up to `limit` chunks.

    Chunk 1 answers the prompt q with up to `size` tokens. Every later chunk continues from q and `carry` tokens of the trace, with up to size - carry
    new tokens. The carried tokens are the first `head` tokens of the trace and its last carry - head tokens. The carried tokens are never
    retokenised. Every chunk is a context of the trajectory. Only the tokens that are sampled in the chunk are its actions. The token limit of the sampling is
    not used.
    """

    size: int = 8192  # tokens of a chunk after the prompt, including carried tokens
    carry: int = 4096  # tokens that a reset keeps, less than size
    head: int = 100  # carried tokens from the start of the trace, which may contain a plan
    limit: int = 5  # largest number of chunks of a trace
    at_test: int | None = None  # largest number of chunks in evaluation; None: limit
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        if not 0 < self.carry < self.size:
            raise UserError(f"chunks: carry is {self.carry} and size is {self.size}; carry must be at least 1 and less than size")
        if not 0 <= self.head < self.carry:
            raise UserError(f"chunks: head is {self.head} and carry is {self.carry}; head must be at least 0 and less than carry")
        if min(self.limit, self.limit if self.at_test is None else self.at_test) < 1:
            raise UserError(f"chunks: limit is {self.limit} and at_test is {self.at_test}; each must be 1 chunk or more")

    @property
    def budget(self) -> int:
        """The largest number of tokens in a trace: size + (limit - 1) (size - carry)."""
        return self.size + (self.limit - 1) * (self.size - self.carry)

    @property
    def test(self) -> Chunked:
        return replace(self, limit=self.limit if self.at_test is None else self.at_test, at_test=None)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order.

        Raises UserError if the task has an environment, or if a chunk exceeds the model's context.
        """
        if world.task.environment is not None:
            raise UserError(f'task "{world.task.name}" has an environment, but this rollout answers in chunks; take a task without an environment')
        for request in requests:
            self._check_room(request, world)
        first = await world.sample([limited(request, self.size, world) for request in requests])
        jobs = [(r, i, chunk) for r, row in zip(requests, first, strict=True) for i, chunk in enumerate(row)]
        traces = iter(await asyncio.gather(*(self._trace(*job, world) for job in jobs)))
        groups = [
            Group(group_name(r), tuple(traced(r, i, next(traces), world) for i in range(len(row))))
            for r, row in zip(requests, first, strict=True)
        ]
        return await world.judge(groups)

    def _check_room(self, request: Request, world: World) -> None:
        prompt = len(world.prompt(request).sequence) if request.at is None else request.at
        room = world.context_length(request.player)
        if prompt + self.size > room:
            raise UserError(
                f"chunks of {self.size} tokens after the {prompt} tokens of the prompt of problem {request.problem.id} do not fit into the "
                f"model's context of {room} tokens; make size and carry smaller (--rollout.size, --rollout.carry, --rollout.head)"
            )

    async def _trace(self, request: Request, index: int, first: Context, world: World) -> tuple[Context, ...]:
        """Returns `first` and the chunks after it. The last chunk ends by itself, or it is chunk number `limit`."""
        assert first.parent is not None
        contexts, said = [first], sampled(first)
        while contexts[-1].ended is Ended.LENGTH and len(contexts) < self.limit:
            prompt = replace(prompt_context(carried(said, self.carry, self.head)), parent=first.parent)
            tags, sample = (*request.tags, "chunk", len(contexts)), request.sample + index
            asked = replace(request, count=1, prompt=prompt, at=None, tags=tags, sample=sample)
            ((chunk,),) = await world.sample([limited(asked, self.size - self.carry, world)])
            contexts.append(chunk)
            said = np.concatenate([said, sampled(chunk)])
        return tuple(contexts)


def carried(said: np.ndarray, carry: int, head: int) -> np.ndarray:
    """Returns the first `head` and the last carry - head tokens of the trace; the whole trace if it has at most `carry` tokens."""
    return said if len(said) <= carry else np.concatenate([said[:head], said[len(said) - (carry - head) :]])


def sampled(context: Context) -> np.ndarray:
    """Returns the sampled tokens of a context."""
    return context.tokens[context.chosen]


def limited(request: Request, tokens: int, world: World) -> Request:
    """Returns the request with a limit of `tokens` new tokens."""
    return replace(request, sampling=replace(sampling_of(request, world), max_tokens=tokens))


def traced(request: Request, index: int, contexts: tuple[Context, ...], world: World) -> Trajectory:
    """Returns the trajectory of a trace. The completion of the trajectory is the text of all chunks, because an answer may span several chunks."""
    return Trajectory(
        id=trajectory_name(world.step, request, index),
        problem=request.problem,
        contexts=contexts,
        player=request.player,
        completion=world.text(np.concatenate([sampled(c) for c in contexts]), request.player),
        ended=contexts[-1].ended,
        trained=request.trained,
    )
