"""How a context grows turn by turn, and how a turn is put to a player. Tokens are only ever appended; text is never tokenised again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradus.types import Context, Frozen, Message, Request, UserError
from gradus.types.parts import Turn

Observation = str | tuple[Message, ...]


def state_hash(turn: Turn) -> int:
    """int64 of the state in which the player acts next: of its key, or of the observation where the environment names no state."""
    text = f"state:{turn.state}" if turn.state is not None else f"observation:{plain(turn.observation)}"
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True)


def plain(observation: Observation) -> str:
    """An observation as text; messages lose their roles."""
    return observation if isinstance(observation, str) else "\n".join(str(message["content"]) for message in observation)


def instruction(request: Request, system: str | None) -> tuple[Message, ...]:
    """What stands before the first observation: the task's system message, then the request's own messages or the problem's.

    Raises UserError where the request goes on from a context: an environment cannot be started in the middle.
    """
    prompt = request.prompt if request.prompt is not None else request.problem.messages or request.problem.text or ()
    if not isinstance(prompt, (str, tuple)):
        raise UserError(f"problem {request.problem.id}: an episode starts from messages or text, not in the middle of a context")
    messages = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else prompt
    if system is None or (messages and messages[0]["role"] == "system"):
        return messages
    return ({"role": "system", "content": system}, *messages)


def opening(messages: tuple[Message, ...], observation: Observation) -> tuple[Message, ...]:
    """The instruction with an observation under it, in one user message where both are the user's; an empty one adds nothing."""
    if not isinstance(observation, str):
        return (*messages, *observation)
    if messages and not observation:
        return messages
    if not messages or messages[-1]["role"] != "user":
        return (*messages, {"role": "user", "content": observation})
    return (*messages[:-1], {**messages[-1], "content": f"{messages[-1]['content']}\n{observation}"})


def recalled(turns: Sequence[Turn], actions: Sequence[str], history: int) -> str:
    """The last `history` turns (observation, then '> action') and the current observation, one under another; empty ones take no line."""
    first = max(0, len(actions) - history)
    past = [
        line
        for turn, action in zip(turns[first:-1], actions[first:], strict=True)
        for line in (plain(turn.observation), f"> {action.strip()}")
    ]
    return "\n".join(line for line in (*past, plain(turns[-1].observation)) if line)


def begun(prompt: Context) -> Context:
    """A context that goes on from all of `prompt` and has no token of its own yet."""
    none = np.zeros(0, np.int32)
    streams: Frozen[np.ndarray] = Frozen(turn=none, state=np.zeros(0, np.int64), valid=np.zeros(0, bool))
    parent = (prompt, len(prompt.sequence))
    return Context(none, np.zeros(0, bool), np.zeros(0, np.float32), none, streams=streams, parent=parent)


def acted(context: Context, sampled: Context, index: int, before: Turn, after: Turn) -> Context:
    """The context with the action appended that was sampled from it in turn `index`, and what the environment gave for it."""
    tokens = sampled.sequence[len(context.sequence) :]
    count = len(tokens)
    if count == 0:
        raise ValueError("an action has no token: the world must sample at least one, the end token included")
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
    """Rows of all actions so far; None where the policy gives none."""
    return None if old is None or new is None else np.concatenate([old, new[-count:]])


def closed(context: Context, follow: np.ndarray) -> np.ndarray:
    """What `follow` adds after the action: without its first token where the action already ended with it (the sampled end token)."""
    return follow[1:] if len(follow) and len(context.tokens) and context.tokens[-1] == follow[0] else follow


def observed(context: Context, tokens: np.ndarray) -> Context:
    """The context with tokens appended that no player chose."""
    tokens = np.asarray(tokens, np.int32)
    chosen = np.concatenate([context.chosen, np.zeros(len(tokens), bool)])
    return replace(context, tokens=np.concatenate([context.tokens, tokens]), chosen=chosen)
