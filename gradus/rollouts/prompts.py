"""Text added before or after a prompt: chat messages stay chat messages, raw text stays raw text."""

from __future__ import annotations

from collections.abc import Callable

from gradus.types import Context, Message, Request, UserError

Prompt = str | tuple[Message, ...]


def prompt_of(request: Request, system: str | None) -> Prompt:
    """The request's own prompt, else the problem's under the task's system message.

    Raises UserError if the request continues from tokens, because no text can be added to them.
    """
    if isinstance(request.prompt, Context):
        raise UserError(f"problem {request.problem.id} continues from a context; text can only be added to a prompt of messages or raw text")
    if request.prompt is not None:
        return request.prompt
    if request.problem.text is not None:
        return request.problem.text
    messages = request.problem.messages
    return ({"role": "system", "content": system}, *messages) if system else messages


def before(prompt: Prompt, text: str) -> Prompt:
    """The prompt with the text's lines before the first user message; raw text begins with them."""
    return _changed(prompt, lambda content: f"{text}\n{content}", first=True)


def after(prompt: Prompt, text: str) -> Prompt:
    """The prompt with the text's lines after the last user message; raw text ends with them."""
    return _changed(prompt, lambda content: f"{content}\n{text}", first=False)


def _changed(prompt: Prompt, change: Callable[[str], str], *, first: bool) -> Prompt:
    if isinstance(prompt, str):
        return change(prompt)
    users = [i for i, message in enumerate(prompt) if message["role"] == "user"]
    if not users:
        return (*prompt, {"role": "user", "content": change("").strip("\n")})
    at = users[0 if first else -1]
    return tuple({**m, "content": change(str(m["content"]))} if i == at else m for i, m in enumerate(prompt))
