"""Renders chat templates by jinja2 in a sandbox, as `transformers` does.

The module does not import `transformers`, because this import takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gradus.types import Message, UserError

if TYPE_CHECKING:
    from jinja2 import Template

DEFAULT_TEMPLATE = (
    "{% for message in messages %}{{ message.role + ':\n' + message.content }}"
    "{{ (eos_token | default('') if message.role == 'assistant' else '') + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:\n' }}{% endif %}"
)
"""The template for models without a chat template. For each message it writes the role with a colon, a line break, the content and a line break. After the
content of the assistant, it writes the end token. The line break before an answer prevents byte-pair tokenizers from joining the answer's first word with
earlier text."""

_SENTINEL = "Qx7Sentinel7xQ"  # only letters and digits, so that no template strips or escapes a part of it
_DATE = "01 Jan 2025"


def render(template: str, messages: Sequence[Message], specials: Mapping[str, str], *, opening: bool = True) -> str:
    """Returns the text of the messages. If `opening` is true, this text ends with the start of the assistant's turn.

    A template that asks for today's date gets 1 January 2025, because a prompt must not change if the run is resumed on another day.

    Raises: UserError if a message lacks role or content, or (with the template's error) if the template does not accept the messages.
    """
    from jinja2 import TemplateError

    plain = [_plain(message) for message in messages]
    try:
        return _compiled(template).render(messages=plain, tools=None, documents=None, add_generation_prompt=opening, **specials)
    except (TemplateError, TypeError) as error:
        roles = ", ".join(str(m.get("role")) for m in plain)
        raise UserError(
            f"the model's chat template does not accept messages with the roles {roles}: {error}; "
            "use other roles, or change `chat_template` in the model folder"
        ) from None


def render_follow(template: str, observation: Sequence[Message], specials: Mapping[str, str]) -> str:
    """Returns the template's text after an assistant's content: the end of this turn, the observation, the start of the next turn.

    Raises: UserError if the template omits the assistant's content, because the end of the content cannot be found then.
    """
    before = ({"role": "user", "content": "-"}, {"role": "assistant", "content": _SENTINEL})
    _, found, after = render(template, (*before, *observation), specials).rpartition(_SENTINEL)
    if not found:
        raise UserError(
            "the model's chat template leaves out the assistant's earlier turns, so a conversation of several turns is not possible; "
            "fix `chat_template` in the model folder, or take a task of one turn"
        )
    return after


def _plain(message: Message) -> dict[str, Any]:
    if "role" not in message or "content" not in message:
        raise UserError(f"a chat message needs the fields role and content, but this message has {', '.join(message) or 'no fields'}; add the missing fields")
    return dict(message)


@lru_cache(maxsize=16)
def _compiled(template: str) -> Template:
    import jinja2
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Accepts the tag {% generation %}. A template may mark the assistant's text with this tag. The tag has no effect on the rendered text."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    def tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: _DATE
    try:
        return environment.from_string(template)
    except jinja2.TemplateSyntaxError as error:
        raise UserError(
            f"the model's chat template, line {error.lineno}: {error.message}; fix `chat_template` in the model folder"
        ) from None
