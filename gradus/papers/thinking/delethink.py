"""Delethink: the model thinks in chunks of fixed size. The context of a chunk is the question and a few tokens of the earlier thought, so memory stays constant.

    y_1 ~ pi(y | q), quad y_l ~ pi(y | q, c_(l-1))
    A_g = (R_g - mean(R)) / (std(R))
    loss = 1/G sum_g 1/n_g sum_l sum_t -w min(rho A_g, clip(rho, 1 - 0.2, 1 + 0.26) A_g)
    w = min((pi_old) / (pi_behaviour), 2)

Chunk $y_1$ of an answer to question q has up to C tokens. At the end of a chunk, the context is reset: it then has q and m carried tokens $c_(l-1)$.
Each later chunk $y_l$ has up to C - m tokens. The trace ends when a chunk ends by itself, or after I chunks, so it has at most C + (I - 1)(C - m)
tokens. The m carried tokens are the first h tokens of the trace, which contain the plan, and the last m - h tokens of the trace. The policy learns to
put the needed information into these tokens. The whole trace is verified. A trace without an end has reward 0. All chunks of trace g share $A_g$.
$n_g$ counts the tokens that were sampled in the trace; carried tokens are part of the prompt and have no loss. The symbol rho is the ratio of a token
to $pi_old$, the policy at the start of the update, and w corrects for sampling by another engine, $pi_behaviour$. G counts the traces. There is no KL
term.

A trace that ends within its first chunk is an ordinary answer. With I = 1, no weight w, the plain verifier, one update and equal bounds, the method
is GRPO without KL. The carried tail is the tail of the trace. So if C is not 2 m, the tail can begin before the last chunk. `--rollout.at_test
16` allows more chunks in evaluation.

Use if: answers need more thinking than fits into the context or the memory, and a short summary is enough to continue the thought.
Avoid if: answers fit in one context (see grpo, dapo), or each step of thought needs the exact text of all earlier steps.
Reference: Aghajohari et al., The Markovian Thinker: Architecture-Agnostic Linear Scaling of Reasoning, arXiv:2510.06557. The paper has the trace and
the objective of Delethink, and the cap of 2 on the correction between engine and trainer. The paper's values C = 8192, m = C / 2, h = 100 and I = 5
are the defaults of `Chunked`. The bounds 0.2 and 0.26 and two updates per batch are as in the released configuration (with one update rho is 1 and
the clip never acts).
Departures: C = 48, m = 24, h = 0 and I = 8 fit the built-in model and the task running_sum; `--rollout Chunked` sets the paper's values. The deviation is as
in grpo. A mini-batch has whole traces (the release mixes chunks). A trace without an end gets the reward 0 explicitly. The
release verifies the last chunk together with its carried tokens, even if the chunk did not end. The release keeps the loss constant above ratio 3 if
A < 0, and samples at temperature 0.6 (`--temperature 0.6`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.objectives.terms import TruncatedImportance
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.finished import Finished
from gradus.rewards.verified import Verified
from gradus.rollouts.asked import sampling_of
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.types import Context, Ended, Group, Request, Trajectory, UserError, prompt_context
from gradus.types.parts import World


@dataclass(frozen=True)
class Chunked:
    """Samples each answer in up to `limit` chunks.

    Every chunk is a context of the trajectory. Only the tokens that are sampled in the chunk are its actions; the carried tokens are never retokenised. The token
    limit of the sampling is not used.
    """

    size: int = 8192  # tokens of a chunk after the prompt, including carried tokens
    carry: int = 4096  # tokens that a reset keeps, less than size
    head: int = 100  # carried tokens from the start of the trace, which may contain a plan
    limit: int = 5  # largest number of chunks of a trace
    at_test: int | None = None  # largest number of chunks in evaluation; None: limit
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        if not 0 < self.carry < self.size:
            raise UserError(f"chunks: `carry` is {self.carry} and `size` is {self.size}; `carry` must be at least 1 and less than `size`")
        if not 0 <= self.head < self.carry:
            raise UserError(f"chunks: `head` is {self.head} and `carry` is {self.carry}; `head` must be at least 0 and less than `carry`")
        if min(self.limit, self.limit if self.at_test is None else self.at_test) < 1:
            raise UserError(f"chunks: `limit` is {self.limit} and `at_test` is {self.at_test}; each must be 1 chunk or more")

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
        prompt, room = len(world.prompt(request).sequence) if request.at is None else request.at, world.context_length(request.player)
        if prompt + self.size > room:
            raise UserError(
                f"the prompt of problem {request.problem.id} has {prompt} tokens, and with a chunk of {self.size} tokens it does not fit into the "
                f"model's context of {room} tokens; make `size` and `carry` smaller (--rollout.size, --rollout.carry, --rollout.head)"
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


delethink = grpo.derive(
    "delethink",
    "Thinking in chunks: at the end of a chunk the context is reset to the question and the last tokens, so memory stays constant.",
    family="thinking",
    rollout=Chunked(size=48, carry=24, head=0, limit=8),
    reward=Verified() * Finished(),
    objective__policy__trust=Clip(low=0.2, high=0.26),
    objective__policy__weight=TruncatedImportance(cap=2.0),
    objective__kl=None,
    players__reference=None,
    update__count=2,
)

claims = (
    same_weights(
        says=(
            "With one chunk, no correction, the plain verifier, one update and equal bounds it is GRPO without its KL term: the final weights are "
            "equal."
        ),
        source="arXiv:2510.06557, the objective at a single chunk",
        against="grpo --objective.kl none --players.reference none",
        within=1e-06,
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4", "max_tokens": "48"},
        own={
            "rollout.limit": "1",
            "objective.policy.weight": "none",
            "objective.policy.trust.high": "0.2",
            "reward": "Verified",
            "update.count": "1",
        },
    ),
    Claim(
        says=(
            "With at most 31 tokens in memory, thinking in chunks of 31 with the last 16 tokens carried solves at least 20 points more problems than "
            "GRPO, whose answers end after 31 tokens."
        ),
        source="arXiv:2510.06557, accuracy beyond the training budget of one context; the size of the effect, the task and the sizes are ours",
        against="grpo",
        measure="accuracy",
        better_by=0.2,
        ground="window",
        own={"rollout.size": "31", "rollout.carry": "16", "rollout.limit": "4"},
        seeds=5,
    ),
)
