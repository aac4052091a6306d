"""A tool: a name, a description, a schema of its arguments, and a session for each episode. A typed Python function with a docstring is a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol, runtime_checkable

from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import World


@dataclass(frozen=True)
class Result:
    """The result of a call, as the player sees it. If the call failed, `ok` is False and `text` is the reason."""

    text: str
    ok: bool = True


class Opened(Protocol):
    """A tool's session in one episode.

    A session may also have `fork(key)`, which copies it, and `async close()`, which releases its resources.
    """

    def call(self, *values: Any, **arguments: Any) -> Any:
        """Returns the result: a Result, or any other value, which is shown as text. The method may be a coroutine. If it raises an exception, the call has
        failed.
        """
        ...


@runtime_checkable
class Tool(Protocol):
    """A tool of a player."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str:
        """One sentence for the player."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON schema of the arguments: an object with properties. If a form has no names of arguments, its text is the value of the first property."""
        ...

    @property
    def recorded(self) -> bool:
        """Whether a result may depend on the clock or the machine. If so, the result is stored with the step, and a repeated step does not call the tool
        again.
        """
        ...

    @property
    def forks(self) -> bool:
        """Whether a session can be copied."""
        ...

    def open(self, problem: Problem, key: Key, world: World | None) -> Opened:
        """Opens the session of one episode."""
        ...


@runtime_checkable
class Sharing(Tool, Protocol):
    """A tool that works in the session of another tool of the episode."""

    @property
    def shares(self) -> str:
        """The name of the other tool."""
        ...

    def on(self, session: Any) -> Opened:
        """Returns this tool's own session, which works in the session of the other tool."""
        ...


def signature(tool: Tool) -> dict[str, Any]:
    """Returns a tool in the form that chat templates and model providers use: {"type": "function", "function": {name, description, parameters}}."""
    return {"type": "function", "function": {"name": tool.name, "description": tool.about, "parameters": dict(tool.parameters)}}


def first_parameter(tool: Tool) -> str:
    """Returns the name of the first parameter, which gets a text without a name. Raises UserError if the tool has no parameter."""
    properties = tool.parameters.get("properties", {})
    if not properties:
        raise UserError(f'the tool "{tool.name}" has no parameter, but this form of calls writes one text per call; take a form of JSON calls')
    return str(next(iter(properties)))


@dataclass(frozen=True)
class FunctionTool:
    """A Python function as a tool. The name, the description and the schema come from its signature and its docstring.

    The function gets only the arguments of a call. It may be a coroutine function. If a tool waits, it should be a coroutine function, so that other episodes
    continue.
    """

    function: Callable[..., Any]
    recorded: bool = True
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        schema_of(self.function)  # raises an error at once if a type or a description is missing

    @property
    def name(self) -> str:
        return str(schema_of(self.function)["name"])

    @property
    def about(self) -> str:
        return str(schema_of(self.function)["description"])

    @property
    def parameters(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = schema_of(self.function)["parameters"]
        return found

    def open(self, problem: Problem, key: Key, world: World | None) -> FunctionTool:
        return self

    def call(self, **arguments: Any) -> Any:
        return self.function(**arguments)

    def fork(self, key: Key) -> FunctionTool:
        """Returns the tool itself, because a function has no state."""
        return self


def tool(function: Callable[..., Any], *, recorded: bool = True) -> FunctionTool:
    """Makes a tool of a function with type hints and a docstring in Google's form (a sentence, then `Args:` with one line per parameter).

    `recorded`: whether a result may depend on the clock or the machine (see `Tool.recorded`). Raises UserError if a hint or a description is missing.
    """
    return FunctionTool(function, recorded)


@cache
def schema_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Returns name, description and parameters of a function, as `transformers` derives them for chat templates."""
    from transformers.utils import get_json_schema
    from transformers.utils.chat_template_utils import DocstringParsingException, TypeHintParsingException

    name = getattr(function, "__name__", repr(function))
    try:
        found = get_json_schema(function)["function"]
    except (DocstringParsingException, TypeHintParsingException) as error:
        place = f" ({inspect.getsourcefile(function)}, line {inspect.getsourcelines(function)[1]})" if inspect.isfunction(function) else ""
        raise UserError(
            f'the function "{name}"{place} cannot be a tool: {error}; give every parameter a type hint, and a line "name: meaning" under '
            '"Args:" in the docstring'
        ) from None
    return Frozen(found)


def wrong_arguments(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    """Returns the first mistake in the arguments of a call; None if they fit the tool's schema. An unknown argument is a mistake."""
    import jsonschema

    schema = {**tool.parameters, "additionalProperties": False}
    errors = sorted(jsonschema.Draft202012Validator(schema).iter_errors(dict(arguments)), key=lambda error: list(map(str, error.path)))
    if not errors:
        return None
    first = errors[0]
    where = ".".join(map(str, first.path))
    return f"{where}: {first.message}" if where else first.message
