"""Adds text before or after a prompt, and fills forms. Chat messages stay chat messages, and raw text stays raw text."""

from __future__ import annotations

import re

from gradus.types import Context, Message, Request, UserError
from gradus.types.media import changed

Prompt = str | tuple[Message, ...]


def prompt_of(request: Request, system: str | None) -> Prompt:
    """Returns the request's own prompt. If the request has no prompt, returns the task's system message, followed by the problem's prompt.

    Raises UserError if the request continues from tokens, because no text can be added to them.
    """
    if isinstance(request.prompt, Context):
        raise UserError(
            f"problem {request.problem.id} continues from a context, but text can be added only to a prompt of messages or raw text; take a "
            "task with such prompts"
        )
    if request.prompt is not None:
        return request.prompt
    if request.problem.text is not None:
        return request.problem.text
    messages = request.problem.messages
    return ({"role": "system", "content": system}, *messages) if system else messages


def before(prompt: Prompt, text: str) -> Prompt:
    """Adds the lines of `text` at the beginning of the first user message, or at the beginning of a raw prompt. Messages without a user message get one at
    their end."""
    return _changed(prompt, first=True, before=f"{text}\n")


def after(prompt: Prompt, text: str) -> Prompt:
    """Adds the lines of `text` at the end of the last user message, or at the end of a raw prompt. Messages without a user message get one at their end."""
    return _changed(prompt, first=False, after=f"\n{text}")


def _changed(prompt: Prompt, *, first: bool, before: str = "", after: str = "") -> Prompt:
    if isinstance(prompt, str):
        return f"{before}{prompt}{after}"
    users = [i for i, message in enumerate(prompt) if message["role"] == "user"]
    if not users:
        return (*prompt, {"role": "user", "content": f"{before}{after}".strip("\n")})
    at = users[0 if first else -1]
    return tuple(changed(m, before, after) if i == at else m for i, m in enumerate(prompt))


def filled(template: str, **values: str) -> str:
    """Fills the fields of the template. Braces inside a value stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)
