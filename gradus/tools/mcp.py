"""Tools of MCP servers (Model Context Protocol), through the protocol's official client library. Needs: pip install "gradus[mcp]"."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

from gradus.tools.tool import Result
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class MCPServer:
    """A server of tools. Either `command` starts a process that serves over its standard input and output, or `url` names a server that already runs.

    All episodes of a process share one connection. So a server must not store anything between calls; otherwise its results would depend on other episodes.
    The server runs with your rights, and outside the sandbox; the model chooses the arguments of the calls.
    """

    command: tuple[str, ...] = ()  # program and arguments
    url: str = ""  # address of a server with streamable HTTP
    seconds: float = 30.0  # time limit for the start of the connection

    def __post_init__(self) -> None:
        check_ranges(self, seconds="(0, inf)")
        if bool(self.command) == bool(self.url):
            raise UserError(
                "MCPServer needs either `command` (the program and its arguments) or `url` (of a server that runs), and not both"
            )
        if isinstance(self.command, str):
            raise UserError(f"`MCPServer.command` is a text; give a list: {self.command.split()}")
        object.__setattr__(self, "command", tuple(self.command))

    @property
    def shown(self) -> str:
        """The server in messages."""
        return self.url or " ".join(self.command)

    def tools(self, only: Sequence[str] = ()) -> list[MCPTool]:
        """Asks the server for its tools. Returns the tools with the names `only`, in this order; without names, all tools in the order of the server.

        Raises UserError if the server does not start in time, or has no tool of a given name.
        """
        found = {tool.name: tool for tool in _connection(self).tools()}
        if missing := next((name for name in only if name not in found), None):
            raise UserError(f'the MCP server {self.shown} has no tool "{missing}"; its tools are {", ".join(found)}')
        return [found[name] for name in only] if only else list(found.values())


@dataclass(frozen=True)
class MCPTool:
    """A tool of an MCP server. `MCPServer.tools` makes it."""

    server: MCPServer
    name: str
    about: str
    parameters: Mapping[str, Any]
    recorded: ClassVar[bool] = True
    forks: ClassVar[bool] = True

    def open(self, problem: Problem, key: Key, world: World | None) -> MCPTool:
        """Opens a session. Raises UserError if the server does not start."""
        _connection(self.server)
        return self

    def fork(self, key: Key) -> MCPTool:
        """Returns the tool itself, because a server stores nothing between calls."""
        return self

    async def call(self, **arguments: Any) -> Result:
        """Calls the tool. If the connection is lost, a new connection is made, and the call is sent once more."""
        try:
            return await self._sent(arguments)
        except _Lost:
            return await self._sent(arguments)

    async def _sent(self, arguments: Mapping[str, Any]) -> Result:
        connection = await asyncio.to_thread(_connection, self.server)
        return await asyncio.wrap_future(connection.start(connection.call(self.name, dict(arguments))))


class _Lost(RuntimeError):
    """The connection to a server ended."""


class _Connection:
    """A connection with its own thread and event loop, because episodes of several event loops share it."""

    def __init__(self, server: MCPServer) -> None:
        self.server = server
        self.client: Any = None
        self.listed: list[Any] | None = None
        self.failure: str | None = None
        self.loop, self.ready, self.closing = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
        self.thread = threading.Thread(target=self._run, name=f"mcp {server.shown}", daemon=True)
        self.thread.start()
        if not self.ready.wait(server.seconds):
            self.close()
            raise UserError(f"the MCP server {server.shown} did not answer within {server.seconds:g} seconds; start it by hand to see why")
        if self.failure is not None:
            raise UserError(f"the MCP server {server.shown} cannot be used: {self.failure}")

    def start(self, work: Any) -> Any:
        """Starts a coroutine in the connection's thread. Returns its future."""
        if not self.alive:
            work.close()
            raise _Lost(f"the MCP server {self.server.shown} has ended")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def tools(self) -> list[MCPTool]:
        """Returns the tools that the server had when the connection was made."""
        assert self.listed is not None
        return [MCPTool(self.server, tool.name, (tool.description or tool.name).strip(), Frozen(tool.input_schema)) for tool in self.listed]

    @property
    def alive(self) -> bool:
        return self.client is not None and not self.closing.is_set()

    def close(self) -> None:
        """Ends the connection. If `command` has started a process, ends this process, too."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.closing.set)
        self.thread.join(5.0)

    async def call(self, name: str, arguments: dict[str, Any]) -> Result:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        assert self.client is not None
        try:
            found = await self.client.call_tool(name, arguments)
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                return Result(f"error: {error.message}", ok=False)
            self.closing.set()
            raise _Lost(f"the MCP server {self.server.shown} has ended") from None
        return Result("\n".join(map(_text, found.content)) or "(no output)", ok=not found.is_error)

    def _run(self) -> None:
        try:
            self.loop.run_until_complete(self._serve())
        except BaseException as error:  # the thread ends here; the caller raises the reason
            self.failure = _reason(error)
        finally:
            self.client = None
            self.ready.set()
            self.loop.close()

    async def _serve(self) -> None:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client

        first, *rest = self.server.command or ("",)
        with open(os.devnull, "w", encoding="utf-8") as log:
            where = self.server.url or stdio_client(StdioServerParameters(command=first, args=rest), errlog=log)
            async with Client(where) as client:
                self.client, self.listed = client, await _all_tools(client)
                self.ready.set()
                await self.closing.wait()


_OPEN: dict[tuple[int, MCPServer], _Connection] = {}
_LOCK = threading.Lock()


def _connection(server: MCPServer) -> _Connection:
    """Returns this process's connection to a server. If there is no connection, or if the last one has ended, makes a new one."""
    if find_spec("mcp") is None:
        raise UserError('tools of MCP servers need the package mcp; install it with: pip install "gradus[mcp]"')
    with _LOCK:
        place = os.getpid(), server  # a forked process does not have the threads of its parent
        if place not in _OPEN or not _OPEN[place].alive:
            _OPEN[place] = _Connection(server)
        return _OPEN[place]


@atexit.register
def close() -> None:
    """Ends all connections of this process."""
    with _LOCK:
        for (process, _), connection in list(_OPEN.items()):
            if process == os.getpid():
                connection.close()
        _OPEN.clear()


async def _all_tools(client: Any) -> list[Any]:
    """Returns the tools of a server from all pages of its list."""
    page = await client.list_tools()
    found = list(page.tools)
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        found += page.tools
    return found


def _text(block: Any) -> str:
    """Returns a part of a result as text. A text is unchanged; a picture, sound or file becomes its kind and size."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource" and hasattr(block.resource, "text"):
        return str(block.resource.text)
    data = getattr(block, "data", None) or getattr(getattr(block, "resource", None), "blob", None)
    if data is None:
        return f"({block.type}: {getattr(block, 'uri', '')})"
    return f"({block.type}, {len(data) * 3 // 4} bytes of {getattr(block, 'mime_type', None) or 'binary data'})"


def _reason(error: BaseException) -> str:
    """Returns the innermost reason of a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
