"""Adds turns to contexts, and makes prompts from observations. Tokens are only appended; text is never retokenised."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradus.types import Context, Frozen, Message, Request, UserError
from gradus.types.media import Part, changed, digest_of, parts_of, readable, shown
from gradus.types.parts import Turn
from gradus.types.spaces import Action, Observation, in_words

STEP = "step"
"""The stream with the index of a token's step within a chunk of actions; -1 if the environment did not execute the step."""


def state_hash(turn: Turn) -> int:
    """Returns an int64 hash of the state before the player's next action: the hash of `turn.state`. If `turn.state` is None, returns the hash of the
    observation.
    """
    text = f"state:{turn.state}" if turn.state is not None else f"observation:{identity(turn.observation)}"
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True)


def plain(observation: Observation) -> str:
    """Returns an observation as text for people: messages have no roles, media become texts such as "[image 48x48 ab12cd34]", and arrays become names and shapes."""
    if isinstance(observation, str):
        return observation
    if isinstance(observation, Mapping):
        return ", ".join(f"{name} {list(np.shape(array))}" for name, array in observation.items())
    return "\n".join(map(readable, observation))


def identity(observation: Observation) -> str:
    """Returns a text that is equal for equal observations: the words, and the digests of media and arrays."""
    if isinstance(observation, Mapping):
        return "\n".join(f"{name} {digest_of('array', np.asarray(array))}" for name, array in sorted(observation.items()))
    media = () if isinstance(observation, str) else shown(observation)
    return "\n".join([plain(observation), *(one.digest for one in media)])


def instruction(request: Request, system: str | None) -> tuple[Message, ...]:
    """Returns the messages before the first observation: the task's system message, then the messages of the request or the problem.

    Raises UserError if the request continues from a context, because an environment cannot start in the middle of an episode.
    """
    prompt = request.prompt if request.prompt is not None else request.problem.messages or request.problem.text or ()
    if not isinstance(prompt, (str, tuple)):
        raise UserError(f"problem {request.problem.id}: an episode cannot start in the middle of a context; give the request a prompt of messages or text")
    messages = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else prompt
    if system is None or (messages and messages[0]["role"] == "system"):
        return messages
    return ({"role": "system", "content": system}, *messages)


def opening(messages: tuple[Message, ...], observation: Observation) -> Sequence[Message] | Mapping[str, np.ndarray]:
    """Returns the instruction followed by an observation, in one user message if both are messages of the user. An empty observation adds nothing.

    Arrays are returned without the instruction, because a controller reads no text. An observation that is one user message with media is
    joined to the user message before it.
    """
    if isinstance(observation, Mapping):
        return observation
    if not isinstance(observation, str):
        if len(observation) == 1 and messages and messages[-1]["role"] == observation[0]["role"] == "user" and shown(observation):
            both = (*parts_of(changed(messages[-1], after="\n")), *parts_of(observation[0]))
            return (*messages[:-1], {**messages[-1], "content": both})
        return (*messages, *observation)
    if messages and not observation:
        return messages
    if not messages or messages[-1]["role"] != "user":
        return (*messages, {"role": "user", "content": observation})
    return (*messages[:-1], changed(messages[-1], after=f"\n{observation}"))


def recalled(turns: Sequence[Turn], actions: Sequence[Action], history: int) -> str | tuple[Message, ...]:
    """Lists the last `history` turns (observation, then '> action') and the current observation, one per line, without empty observations.

    If an observation has media, the result is one message with the same parts in order.
    """
    first = max(0, len(actions) - history)
    lines: list[Part] = []
    for turn, action in zip(turns[first:-1], actions[first:], strict=True):
        lines += [*_lines(turn.observation), _line(f"> {in_words(action).strip()}")]
    lines += _lines(turns[-1].observation)
    if all(part["type"] == "text" for part in lines):
        return "\n".join(part["text"] for part in lines)
    *past, now = lines
    parts = (*(_line(f"{part['text']}\n") if part["type"] == "text" else part for part in past), now)
    return ({"role": "user", "content": parts},)


def _line(text: str) -> Part:
    return {"type": "text", "text": text}


def _lines(observation: Observation) -> list[Part]:
    """Returns the texts and media of an observation in order, without empty text."""
    if isinstance(observation, str) or not shown(tuple(observation)):  # type: ignore[arg-type]
        return [_line(text)] if (text := plain(observation)) else []
    return [part for message in observation for part in parts_of(message) if part["type"] != "text" or part["text"]]  # type: ignore[arg-type]


def begun(prompt: Context) -> Context:
    """Returns a context that continues from the whole `prompt` and has no token after it yet."""
    none = np.zeros(0, np.int32)
    streams: Frozen[np.ndarray] = Frozen(turn=none, state=np.zeros(0, np.int64), valid=np.zeros(0, bool))
    parent = (prompt, len(prompt.sequence))
    return Context(none, np.zeros(0, bool), np.zeros(0, np.float32), none, streams=streams, parent=parent)


def acted(context: Context, sampled: Context, index: int, before: Turn, after: Turn) -> Context:
    """Adds to a context the action that was sampled from it in turn `index`, and the environment's reward and verdict for this action.

    If the tokens of a chunk have the stream `step`, each step's reward is at the last token of the step. Steps that were not executed get the number -1.
    """
    piece = beyond(sampled, len(context.sequence))
    if piece.actions == 0:
        raise ValueError("an action has no token; the world must sample at least one token per action (the end token counts)")
    rows = {"turn": np.int32(index), "state": np.int64(state_hash(before)), "valid": np.bool_(after.valid)}
    streams = {**piece.streams, **{name: np.full(piece.actions, row) for name, row in rows.items()}}
    earned = {piece.actions - 1: float(after.reward)}
    if after.steps and STEP in piece.streams:
        earned = {int(np.flatnonzero(piece.streams[STEP] == k)[-1]): float(reward) for k, reward in enumerate(after.steps)}
        streams[STEP] = np.where(piece.streams[STEP] < len(after.steps), piece.streams[STEP], np.int32(-1))
    rewards = tuple((at, "environment", reward) for at, reward in earned.items() if reward)
    return context.then(replace(piece, rewards=(*piece.rewards, *rewards), streams=Frozen(streams)))


def beyond(sampled: Context, count: int) -> Context:
    """Returns the part of a sampled context after the first `count` tokens of its sequence."""
    cut = count - len(sampled.prefix)
    if cut < 0:
        raise ValueError(f"there is a gap of {-cut} tokens between the context and the sampled tokens; give the context that directly precedes the sample")
    if cut == 0:
        return sampled
    gone = int(sampled.chosen[:cut].sum())
    logprobs, versions = (None if rows is None else rows[gone:] for rows in (sampled.logprobs, sampled.versions))
    return replace(
        sampled,
        tokens=sampled.tokens[cut:],
        chosen=sampled.chosen[cut:],
        logprobs=logprobs,
        versions=versions,
        rewards=tuple((at - gone, name, value) for at, name, value in sampled.rewards if at >= gone),
        streams=Frozen({name: rows[gone:] for name, rows in sampled.streams.items()}),
        seen=tuple(left for seen in sampled.seen if (left := seen.since(cut)) is not None),
    )
