"""Tells the answer of a problem to a reader of its trajectories, such as a critic. The player that acts does not see the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.spans import check_text, streamed
from gradus.types import Context, Group, Key, Problem, Request, UserError, prompt_context
from gradus.types.parts import Rollout, Task, World

STREAM = "privileged"  # int32 [A, n]: every row has the tokens of the text that tells the answer


@dataclass(frozen=True)
class PrivilegedPrompt:
    """A view that puts the text with the answer before the prompt. The tokens come from the stream `privileged`; a context without this stream does not change."""

    def of(self, context: Context, key: Key) -> Context:
        """Returns the context with the answer before the prompt. Actions, streams and log-probabilities stay the same."""
        rows = context.streams.get(STREAM)
        return context if rows is None or not len(rows) or not rows.shape[1] else told_first(context, rows[0])


@dataclass(frozen=True)
class WithAnswers:
    """Adds the stream `privileged` to the trajectories of `rollout`: the tokens of `tell` with the problem's answer.

    If `tell` is empty, the stream has no tokens.
    """

    rollout: Rollout = Auto()
    tell: str = "The answer is {answer}.\n"

    def __post_init__(self) -> None:
        check_tell(self.tell)

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Whether the trajectories of `rollout` need judging."""
        return bool(getattr(self.rollout, "judges", lambda _: True)(task))

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text."""
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout`. Every context that has actions gets the stream `privileged`."""
        groups = await rolled(self.rollout, requests, world)
        return [streamed(g, STREAM, {t.id: [told_rows(c, t.problem, self.tell, world) for c in t.contexts] for t in g.trajectories}) for g in groups]


def told_first(context: Context, tokens: np.ndarray) -> Context:
    """Returns the context with `tokens` before the whole prompt."""
    first = int(context.action_positions[0])
    start, rest = context.until(first), context.sequence[first:]
    shown = tuple(s.moved(len(tokens)) for s in start.shown)
    prompt = prompt_context(np.concatenate([np.asarray(tokens, np.int32), start.sequence]), shown)
    chosen = np.zeros(len(rest), bool)
    chosen[context.action_positions - first] = True
    seen = tuple(piece for s in context.shown if (piece := s.since(first)) is not None)
    return replace(context, tokens=rest.copy(), chosen=chosen, parent=(prompt, len(prompt.tokens)), seen=seen)


def check_tell(tell: str) -> None:
    """Raises UserError unless the text is empty, or has the placeholder {answer} and no other placeholder."""
    try:
        told = tell.format(answer="7")
    except (KeyError, IndexError, ValueError):
        told = tell
    if tell and told == tell:
        raise UserError(f"`tell` is {tell!r}; write {{answer}} at the place of the answer, or set `tell` to an empty text, so that nothing is added")


def told_rows(context: Context, problem: Problem, tell: str, world: World) -> np.ndarray:
    """Returns int32 [A, n]: every row has the tokens of the text with the answer."""
    return np.repeat(told_tokens(problem, tell, world)[None], context.actions, axis=0)


def told_tokens(problem: Problem, tell: str, world: World) -> np.ndarray:
    """Returns the tokens [n] of the text that tells the answer, int32. Raises UserError if the problem has no answer."""
    if not tell:
        return np.zeros(0, np.int32)
    if problem.reference is None:
        raise UserError(f"problem {problem.id} has no answer for `tell`; add the column `answer` to the row of the problem, or set `tell` to an empty text")
    tokens = world.told(tell.format(answer=problem.reference)).tokens
    return tokens[:-1] if not world.text(tokens[-1:]) else tokens  # without the end token
