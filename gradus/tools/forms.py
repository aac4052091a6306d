"""The forms in which a player writes calls and answers, and in which the player sees results.

Every form reads the text of the sampled tokens. In an inline form, results are inserted into the player's own turn. In any other form, a result is a new
turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

from gradus.tools.tool import Result, Tool, first_parameter, signature
from gradus.types import UserError
from gradus.types.spaces import Observation, inserted

TAIL = 20_000  # only this number of characters of an action is read, counted from its end


@dataclass(frozen=True)
class Call:
    """A call that a player wrote."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Malformed:
    """A call that cannot be read. The player sees `why`."""

    why: str


@dataclass(frozen=True)
class Answer:
    """The final answer of a player."""

    text: str


Said: TypeAlias = tuple[Call | Malformed, ...] | Answer | None
"""The content of an action: calls, an answer, or neither."""


class Form(Protocol):
    """The way in which a player writes calls and answers, and sees results."""

    def stops(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Returns the strings that end an action. Without such strings, the player's end token ends the action."""
        ...

    def read(self, action: str, tools: Sequence[Tool]) -> Said:
        """Reads an action. An answer counts only if there is no call after it."""
        ...

    def write(self, call: Call, tools: Sequence[Tool]) -> str:
        """Returns a call in the form in which a player writes it. `read` returns the same call from this text."""
        ...

    def answer(self, text: str) -> str:
        """Returns a final answer in the form in which a player writes it. `read` returns the same text, without outer spaces."""
        ...

    def told(self, results: Sequence[Result]) -> Observation:
        """Returns the observation after calls. If there are no results, returns an observation after which the player can continue."""
        ...

    def hint(self, text: str) -> Observation:
        """Returns the observation after an action without a call and without an answer."""
        ...

    def describe(self, tools: Sequence[Tool]) -> str:
        """Returns the instruction that names the tools and the form."""
        ...


def named(name: str, tools: Sequence[Tool]) -> Tool | None:
    """Returns the tool of this name; None if there is no such tool."""
    return next((tool for tool in tools if tool.name == name), None)


def text_call(tool: Tool, text: str) -> Call:
    """Returns the call of a tool with one text."""
    return Call(tool.name, {first_parameter(tool): text})


def only_text(call: Call, tools: Sequence[Tool]) -> str:
    """Returns the text of a call with one argument. Raises UserError if the call has further arguments, or if its tool is unknown."""
    tool = named(call.name, tools)
    if tool is None or len(call.arguments) != 1 or first_parameter(tool) not in call.arguments:
        raise UserError(
            f'a call of "{call.name}" with the arguments {sorted(call.arguments)} cannot be written as one text; take a form of JSON calls, or '
            "give the tool one argument"
        )
    return str(next(iter(call.arguments.values())))


@dataclass(frozen=True)
class TaggedCalls:
    """Calls as tags, such as <search>words</search>: the tag is the tool's name, or the tag that `names` gives to it. <answer>...</answer> is the answer,
    unless `names` gives another tag to "answer".

    A result is inserted into the player's turn, between `before` and `after`. Search-R1 and similar methods have this form.
    """

    before: str = "<result>"
    after: str = "</result>"
    names: tuple[tuple[str, str], ...] = ()  # (tag, tool), or (tag, "answer")

    @property
    def end(self) -> str:
        """The tag of the answer."""
        return self.tag("answer")

    def stops(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return tuple(f"</{tag}>" for tag in (*(self.tag(tool.name) for tool in tools), self.end))

    def tag(self, tool: str) -> str:
        """Returns the tag of a tool, or of the answer."""
        return next((tag for tag, name in self.names if name == tool), tool)

    def read(self, action: str, tools: Sequence[Tool]) -> Said:
        tags = {self.tag(tool.name): tool for tool in tools}
        found = re.findall(rf"<({'|'.join(map(re.escape, (*tags, self.end)))})>(.*?)</\1>", action[-TAIL:], re.DOTALL)
        if not found:
            return None
        tag, inside = found[-1]
        return Answer(inside.strip()) if tag == self.end else (text_call(tags[tag], inside.strip()),)

    def write(self, call: Call, tools: Sequence[Tool]) -> str:
        tag = self.tag(call.name)
        return f"<{tag}>{only_text(call, tools)}</{tag}>"

    def answer(self, text: str) -> str:
        return f"<{self.end}>{text}</{self.end}>"

    def told(self, results: Sequence[Result]) -> Observation:
        return inserted("".join(f"{self.before}{result.text}{self.after}" for result in results))

    def hint(self, text: str) -> Observation:
        return inserted(text)

    def describe(self, tools: Sequence[Tool]) -> str:
        calls = ", ".join(f"<{tag}>{first_parameter(tool)}</{tag}>" for tool in tools for tag in (self.tag(tool.name),))
        return f"Tools: {calls}. Answer: <{self.end}>...</{self.end}>"


@dataclass(frozen=True)
class FencedCalls:
    """Calls of one tool as fenced blocks. The player writes the block and then opens a block of output, ```output; the result is inserted there.

    An action without a call is the answer. ToRL uses this form.
    """

    language: str = "python"
    output: str = "```output"

    def stops(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return (self.output,)

    def read(self, action: str, tools: Sequence[Tool]) -> Said:
        text = action[-TAIL:]
        if not text.rstrip().endswith(self.output):
            return Answer(text.strip()) if text.strip() else None
        block = re.compile(rf"```{re.escape(self.language)}[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
        found = block.findall(text.rstrip().removesuffix(self.output))
        return (text_call(tools[0], found[-1].strip("\n")),) if found else (Malformed(f"no block ```{self.language} stands before {self.output}"),)

    def write(self, call: Call, tools: Sequence[Tool]) -> str:
        return f"```{self.language}\n{only_text(call, tools)}\n```\n{self.output}"

    def answer(self, text: str) -> str:
        return text

    def told(self, results: Sequence[Result]) -> Observation:
        return inserted("".join(f"\n{result.text}\n```\n" for result in results))

    def hint(self, text: str) -> Observation:
        return inserted(text)

    def describe(self, tools: Sequence[Tool]) -> str:
        return f"Write ```{self.language} code ```, then {self.output}"


@dataclass(frozen=True)
class LineCalls:
    """Calls as lines, such as `search: words`; `answer: ...` is the answer. A result is a new turn. The last call or answer of an action counts."""

    end: str = "answer"

    def stops(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return ()

    def read(self, action: str, tools: Sequence[Tool]) -> Said:
        names = {tool.name.lower(): tool for tool in tools}
        verbs = "|".join(map(re.escape, (*names, self.end)))
        found = re.findall(rf"^[ \t]*({verbs}):(.*)$", action[-TAIL:], re.MULTILINE | re.IGNORECASE)
        if not found:
            return None
        verb, rest = found[-1]
        return Answer(rest.strip()) if verb.lower() == self.end.lower() else (text_call(names[verb.lower()], rest.strip()),)

    def write(self, call: Call, tools: Sequence[Tool]) -> str:
        return f"{call.name}: {only_text(call, tools)}"

    def answer(self, text: str) -> str:
        return f"{self.end}: {text}"

    def told(self, results: Sequence[Result]) -> Observation:
        return "\n".join(result.text for result in results)

    def hint(self, text: str) -> Observation:
        return text

    def describe(self, tools: Sequence[Tool]) -> str:
        calls = ", or ".join(f"{tool.name}: {first_parameter(tool)}" for tool in tools)
        return f"Write {calls}, or {self.end}: ..."


@dataclass(frozen=True)
class JsonCalls:
    """Calls as JSON objects between `<tool_call>` and `</tool_call>`, several per action, as Hermes and Qwen write them. An action without a call is the answer.

    A result is a new turn: a user message with `<tool_response>` tags, as Qwen's template writes the role `tool`. `arguments`: the key
    of the arguments.
    """

    arguments: str = "arguments"
    begin: ClassVar[str] = "<tool_call>"
    finish: ClassVar[str] = "</tool_call>"

    def stops(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return ()

    def read(self, action: str, tools: Sequence[Tool]) -> Said:
        text = action[-TAIL:]
        blocks = re.findall(rf"{self.begin}(.*?)(?:{self.finish}|\Z)", text, re.DOTALL)
        if blocks:
            return tuple(json_call(block, self.arguments) for block in blocks)
        return Answer(text.strip()) if text.strip() else None

    def write(self, call: Call, tools: Sequence[Tool]) -> str:
        return f"{self.begin}\n{json.dumps({'name': call.name, self.arguments: dict(call.arguments)}, ensure_ascii=False)}\n{self.finish}"

    def answer(self, text: str) -> str:
        return text

    def told(self, results: Sequence[Result]) -> Observation:
        return "\n".join(f"<tool_response>\n{result.text}\n</tool_response>" for result in results)

    def hint(self, text: str) -> Observation:
        return text

    def describe(self, tools: Sequence[Tool]) -> str:
        listed = "\n".join(json.dumps(signature(tool), ensure_ascii=False) for tool in tools)
        example = f'{self.begin}\n{{"name": <function-name>, "{self.arguments}": <args-json-object>}}\n{self.finish}'
        return f"# Tools\n\nFunctions, as JSON:\n<tools>\n{listed}\n</tools>\n\nWrite a call as a JSON object between tags:\n{example}"


@dataclass(frozen=True)
class MessageCalls:
    """A call as an action that is one JSON object, {"name": ..., "parameters": {...}}, as Llama 3 writes it. Any other action is the answer.

    A result is a new turn: a message of the role `role` ("ipython" in Llama's own template; "user" suits every template).
    """

    arguments: str = "parameters"
    role: str = "user"

    def stops(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return ()

    def read(self, action: str, tools: Sequence[Tool]) -> Said:
        text = action[-TAIL:].strip().removeprefix("<|python_tag|>").strip()
        if text.startswith("{") and '"name"' in text:
            return (json_call(text, self.arguments),)
        return Answer(text) if text else None

    def write(self, call: Call, tools: Sequence[Tool]) -> str:
        return json.dumps({"name": call.name, self.arguments: dict(call.arguments)}, ensure_ascii=False)

    def answer(self, text: str) -> str:
        return text

    def told(self, results: Sequence[Result]) -> Observation:
        return ({"role": self.role, "content": "\n".join(result.text for result in results)},)

    def hint(self, text: str) -> Observation:
        return ({"role": self.role, "content": text},)

    def describe(self, tools: Sequence[Tool]) -> str:
        listed = "\n".join(json.dumps(signature(tool), ensure_ascii=False) for tool in tools)
        return f'To call a function, answer with {{"name": function name, "{self.arguments}": its arguments by name}}.\n{listed}'


def json_call(text: str, key: str) -> Call | Malformed:
    """Reads a call from a JSON object with `name` and the arguments under `key`.

    >>> json_call('{"name": "add", "arguments": {"a": 1}}', "arguments")
    Call(name='add', arguments={'a': 1})
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Malformed(f"error: the call is not JSON ({error})")
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        return Malformed('error: the call is no JSON object with "name"')
    arguments = found.get(key, {})
    return Call(found["name"], arguments) if isinstance(arguments, dict) else Malformed(f'error: "{key}" of the call is no JSON object')
