"""A policy that gives scripted answers in the `World` of a real run, for tests of rollouts, searches and environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from gradus.rewards.environment import EnvironmentReturn
from gradus.training.world import Ask, RunWorld
from gradus.types import Context, Ended, Key, Sampling, following, prompt_context, told_context
from gradus.types.media import words
from gradus.types.parts import Task
from gradus.types.spaces import Choice, Space, Text, text_inserted

END = 0
ROLES = {"system": 1, "user": 2, "assistant": 3}
OTHER_A = 4  # a second token with the text "a", so the text alone does not show which of the two tokens was sampled
FIRST = 5  # the token of character c is FIRST + ord(c)
MARKS = {END: "|", 1: "<s>", 2: "<u>", 3: "<a>"}


def character_tokens(text: str) -> list[int]:
    """Returns one token per character."""
    return [FIRST + ord(c) for c in text]


def readable(tokens: Sequence[int] | np.ndarray) -> str:
    """Returns tokens as text that shows special tokens: <s>, <u> and <a> open a turn, | closes it, @ is the second token for "a".

    >>> readable([2, *character_tokens("hi"), 0, 3, 4])
    '<u>hi|<a>@'
    """
    return "".join(MARKS.get(int(t), "@" if t == OTHER_A else chr(max(int(t) - FIRST, 0))) for t in tokens)


@dataclass
class ScriptedPolicy:
    """A policy that answers an ask with the text `speak(ask)`. The character "@" in this text becomes the second token for "a".

    The end token follows the text; if the text contains a stop string, the answer ends with this string. An answer is cut off at max_tokens and at the
    end of the context. The log-probabilities are -1/8, -2/8,
    -3/8, ..., which float32 stores exactly.
    """

    speak: Callable[[Ask], str]
    context_length: int = 100_000
    batches: list[int] = field(default_factory=list)  # for each call of `act`, the number of requested samples

    can = frozenset({"logprobs", "fork", "text"})
    reads = frozenset({"text"})

    def acts(self, space: Space) -> bool:
        return isinstance(space, (Text, Choice))

    def opening(self, prompt: Any) -> Context:
        if isinstance(prompt, str):
            return prompt_context(character_tokens(prompt))
        body = [t for m in prompt for t in (ROLES[m["role"]], *character_tokens(words(m)), END)]
        return prompt_context([*body, ROLES["assistant"]])

    def follow(self, observation: Any, after: Context) -> Context:
        if (text := text_inserted(observation)) is not None:
            return prompt_context(character_tokens(text))
        messages = ({"role": "user", "content": observation},) if isinstance(observation, str) else observation
        return following([END, *self.opening(messages).tokens], after)

    def told(self, action: Any) -> Context:
        return told_context([*character_tokens(action), END])

    def said(self, context: Context, since: int) -> str:
        return self.text(context.sequence[since:])

    def text(self, tokens: np.ndarray) -> str:
        return "".join("a" if t == OTHER_A else chr(t - FIRST) for t in tokens.tolist() if t >= OTHER_A)

    def act(self, asks: Sequence[Ask]) -> list[Context]:
        self.batches.append(len(asks))
        return [self._one(ask) for ask in asks]

    def _one(self, ask: Ask) -> Context:
        text = self.speak(ask)
        cut = min((text.find(stop) + len(stop) for stop in ask.sampling.stops if stop in text), default=None)
        said = [OTHER_A if c == "@" else FIRST + ord(c) for c in text[:cut]] + [END] * (cut is None)
        room = self.context_length - ask.at
        limit = min(ask.sampling.limit, room)
        ended = Ended.STOP if len(said) <= limit else Ended.LENGTH if ask.sampling.limit <= room else Ended.CONTEXT
        tokens = np.array(said[:limit], np.int32)
        return Context(
            tokens=tokens,
            chosen=np.ones(len(tokens), bool),
            logprobs=-np.arange(1, len(tokens) + 1, dtype=np.float32) / 8,
            versions=np.full(len(tokens), ask.version, np.int32),
            parent=(ask.parent, ask.at),
            ended=ended,
        )


def scripted_world(
    task: Task, speak: Callable[[Ask], str], *, step: int = 3, reward: Any = None, max_tokens: int = 1000, context_length: int = 100_000
) -> tuple[RunWorld, ScriptedPolicy]:
    """Makes the `World` of a training step with 2 samples per problem. The policy is scripted, and has the version of 7 updates.

    `reward`: the reward of the run (None: `EnvironmentReturn()`).

    >>> import asyncio
    >>> from gradus.rewards.verified import Verified
    >>> from gradus.rollouts.single_turn import SingleTurn
    >>> from gradus.testing.methods import TOY
    >>> from gradus.types import Key, Request
    >>> world, policy = scripted_world(TOY, lambda ask: "b", reward=Verified())
    >>> problems = TOY.source.draw([0, 1], None, Key(0))
    >>> groups = asyncio.run(SingleTurn().run([Request(p, count=2) for p in problems], world))
    >>> [g.rewards.tolist() for g in groups]
    [[1.0, 1.0], [0.0, 0.0]]
    """
    policy = ScriptedPolicy(speak, context_length)
    players = {"policy": SimpleNamespace(policy=policy, name="policy", updates=7, micro_tokens=1000, most_asks=None)}
    world = RunWorld(
        step=step,
        purpose="train",
        seed=Key(1),
        task=task,
        players=players,
        reward=EnvironmentReturn() if reward is None else reward,
        sampling=Sampling(max_tokens=max_tokens),
        group=2,
    )
    return world, policy


def turn_of(ask: Ask) -> int:
    """Returns the number of the turn for which a request (`Ask`) needs an action. The first turn of an episode has the number 0."""
    return int(ask.request.tags[-1])


def follow_demonstration(ask: Ask) -> str:
    """Returns the action of this turn from the problem's demonstration. For a sub-agent, the action is from the demonstration of the errand."""
    meta, tags = ask.request.problem.meta, ask.request.tags
    if "errand" in tags:
        at = tags.index("errand")
        meta = next(errand for errand in meta["errands"] if (errand["role"], errand["turn"]) == tags[at + 1 : at + 3])
    return str(meta["demonstration"][turn_of(ask)][1])


def scripted_context(text: str, logprobs: Sequence[float] = ()) -> Context:
    """Makes a context after a prompt of one token. Every character is an action. The default of every log-probability is 0."""
    own = np.array(character_tokens(text), np.int32)
    rows = np.array(logprobs or np.zeros(len(own)), np.float32)
    return Context(own, np.ones(len(own), bool), rows, np.zeros(len(own), np.int32), parent=(prompt_context([ROLES["user"]]), 1))
