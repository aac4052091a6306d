"""Turns in contexts: how a context grows, and how an observation becomes a prompt. Tokens are only appended; text is never retokenised."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradus.types import Context, Frozen, Message, Request, UserError
from gradus.types.media import changed, parts_of, readable, shown
from gradus.types.parts import Turn

Observation = str | tuple[Message, ...]


def state_hash(turn: Turn) -> int:
    """int64 hash of the state before the player's next action: of the environment's state key, or of the observation if it gives none."""
    text = f"state:{turn.state}" if turn.state is not None else f"observation:{plain(turn.observation)}"
    if turn.state is None and isinstance(turn.observation, tuple | list):
        text += "".join(f"\0{media.digest}" for media in shown(turn.observation))
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True)


def plain(observation: Observation) -> str:
    """An observation as people read it; messages lose their roles, and media become "[image 48x48 ab12cd34]"."""
    return observation if isinstance(observation, str) else "\n".join(map(readable, observation))


def instruction(request: Request, system: str | None) -> tuple[Message, ...]:
    """The messages before the first observation: the task's system message, then the request's own messages or the problem's.

    Raises UserError if the request continues from a context, because an environment cannot start in the middle of an episode.
    """
    prompt = request.prompt if request.prompt is not None else request.problem.messages or request.problem.text or ()
    if not isinstance(prompt, (str, tuple)):
        raise UserError(f"problem {request.problem.id}: an episode starts from messages or text, not in the middle of a context")
    messages = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else prompt
    if system is None or (messages and messages[0]["role"] == "system"):
        return messages
    return ({"role": "system", "content": system}, *messages)


def opening(messages: tuple[Message, ...], observation: Observation) -> tuple[Message, ...]:
    """The instruction followed by an observation, in one user message if both are from the user. An empty observation adds nothing.

    An observation of messages is appended as it is, except one user message with media, which joins the user message before it.
    """
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


def recalled(turns: Sequence[Turn], actions: Sequence[str], history: int) -> Observation:
    """The last `history` turns (observation, then '> action') and the current observation, one per line; empty ones are left out.

    Text, or one user message if an observation shows media.
    """
    first = max(0, len(actions) - history)
    if any(not isinstance(turn.observation, str) and shown(turn.observation) for turn in turns[first:]):
        return _recalled_with_media(turns[first:], actions[first:])
    past = [
        line
        for turn, action in zip(turns[first:-1], actions[first:], strict=True)
        for line in (plain(turn.observation), f"> {action.strip()}")
    ]
    return "\n".join(line for line in (*past, plain(turns[-1].observation)) if line)


def _recalled_with_media(turns: Sequence[Turn], actions: Sequence[str]) -> tuple[Message, ...]:
    parts: list[Any] = []

    def line(added: Sequence[Any]) -> None:
        if any(part.get("text", "") or "media" in part for part in added):
            parts.extend([*([{"type": "text", "text": "\n"}] if parts else []), *added])

    for i, turn in enumerate(turns):
        for message in ({"content": turn.observation},) if isinstance(turn.observation, str) else turn.observation:
            line(parts_of(message))
        if i < len(actions):
            line(({"type": "text", "text": f"> {actions[i].strip()}"},))
    return ({"role": "user", "content": tuple(parts)},)


def begun(prompt: Context) -> Context:
    """A context that continues from all of `prompt` and has no token of its own yet."""
    none = np.zeros(0, np.int32)
    streams: Frozen[np.ndarray] = Frozen(turn=none, state=np.zeros(0, np.int64), valid=np.zeros(0, bool))
    parent = (prompt, len(prompt.sequence))
    return Context(none, np.zeros(0, bool), np.zeros(0, np.float32), none, streams=streams, parent=parent)


def acted(context: Context, sampled: Context, index: int, before: Turn, after: Turn) -> Context:
    """The context extended by the action sampled from it in turn `index`, with the environment's reward and verdict for it."""
    tokens = sampled.sequence[len(context.sequence) :]
    count = len(tokens)
    if count == 0:
        raise ValueError("an action has no token: the world must sample at least one, including the end token")
    rows = {"turn": np.int32(index), "state": np.int64(state_hash(before)), "valid": np.bool_(after.valid)}
    streams = {name: np.concatenate([context.streams[name], np.full(count, row)]) for name, row in rows.items()}
    reward = ((context.actions + count - 1, "environment", float(after.reward)),) if after.reward else ()
    return replace(
        context,
        tokens=np.concatenate([context.tokens, tokens]),
        chosen=np.concatenate([context.chosen, np.ones(count, bool)]),
        logprobs=_joined(context.logprobs, sampled.logprobs, count),
        versions=_joined(context.versions, sampled.versions, count),
        temperature=sampled.temperature,
        rewards=context.rewards + reward,
        streams=Frozen(streams),
        ended=sampled.ended,
    )


def _joined(old: np.ndarray | None, new: np.ndarray | None, count: int) -> np.ndarray | None:
    """Rows of all actions so far; None if the policy gives none."""
    return None if old is None or new is None else np.concatenate([old, new[-count:]])


def closed(context: Context, follow: np.ndarray) -> np.ndarray:
    """The tokens of `follow` to append after the action; without the first one if the action already ended with it (the sampled end token)."""
    return follow[1:] if len(follow) and len(context.tokens) and context.tokens[-1] == follow[0] else follow


def observed(context: Context, tokens: np.ndarray) -> Context:
    """The context extended by tokens that no player chose."""
    tokens = np.asarray(tokens, np.int32)
    chosen = np.concatenate([context.chosen, np.zeros(len(tokens), bool)])
    return replace(context, tokens=np.concatenate([context.tokens, tokens]), chosen=chosen)
