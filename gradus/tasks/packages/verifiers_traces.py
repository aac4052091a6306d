"""Converts between chat messages and the messages and traces of the package verifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradus.tasks.packages import imported
from gradus.types import Message, UserError


def messages_of(data: Any) -> tuple[Message, ...]:
    """Returns the prompt of a task: its system prompt, then its messages. Raises UserError for content other than text."""
    system = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
    if data.prompt is None or isinstance(data.prompt, str):
        given = [] if data.prompt is None else [{"role": "user", "content": data.prompt}]
    else:
        given = [{"role": m.role, "content": text_of(m)} for m in data.prompt]
    return (*system, *given) or ({"role": "system", "content": data.description or data.name or f"task {data.idx}"},)


def text_of(message: Any) -> str:
    """Returns the content of a message of verifiers. Raises UserError for images and calls of tools."""
    if not isinstance(message.content, str) or getattr(message, "tool_calls", None):
        raise UserError(f"a message of the role {message.role} contains images or tool calls, which are not supported; take an environment whose messages are text")
    return message.content


def trace_of(task: Any, messages: Sequence[Message], *, role: str = "agent", cut: bool = False) -> Any:
    """Returns a trace of verifiers with these messages. The last message counts as sampled if the assistant wrote it. `cut`: the length limit ended the
    sampled message.
    """
    vf = imported("verifiers.v1", "verifiers")
    data = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    trace = vf.Trace(task=data, agent=vf.AgentInfo(config=vf.AgentConfig(), name=role), state=state_of(task))
    for number, message in enumerate(messages, 1):
        sampled = number == len(messages) and message["role"] == "assistant"
        add(trace, message, sampled=sampled, cut=cut and sampled)
    trace.is_completed = True
    return trace


def state_of(task: Any) -> Any:
    from verifiers.v1.state import state_cls

    return state_cls(type(task))()


def add(trace: Any, message: Message, *, sampled: bool = False, cut: bool = False) -> None:
    """Adds a message to the end of a trace."""
    vf = imported("verifiers.v1", "verifiers")
    kinds = {"system": vf.SystemMessage, "user": vf.UserMessage, "assistant": vf.AssistantMessage}
    if message["role"] not in kinds:
        raise UserError(
            f"a message of the package verifiers has the role {message['role']}, which is not supported; the supported roles are "
            "system, user and assistant"
        )
    parent = len(trace.nodes) - 1 if trace.nodes else None
    trace.nodes.append(vf.MessageNode(parent=parent, message=kinds[message["role"]](content=message["content"]), sampled=sampled))
    if sampled:
        trace.calls.append(vf.ModelCall(node=len(trace.nodes) - 1, finish_reason="length" if cut else "stop"))
