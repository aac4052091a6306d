"""Tools of MCP servers: a server in a process of its own, bad tools, a server that dies, and episodes of several event loops."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gradus.environments.tools import Tools
from gradus.tools import mcp
from gradus.tools.calls import called
from gradus.tools.forms import Call, JsonCalls
from gradus.types import Key, Problem, UserError

SERVER = """
import asyncio
import os
import sys

from mcp.server.mcpserver import Image, MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    "Adds two numbers."
    return a + b


@server.tool()
def fails() -> str:
    "Raises."
    raise ValueError("no such row")


@server.tool()
async def sleeps(seconds: float) -> str:
    "Waits."
    await asyncio.sleep(seconds)
    return "done"


HERE = []


@server.tool()
async def meets(count: int) -> str:
    "Waits for other calls."
    HERE.append(1)
    while len(HERE) < count:
        await asyncio.sleep(0.01)
    return "done"


@server.tool()
def picture() -> Image:
    "Draws."
    return Image(data=bytes(3000), format="png")


@server.tool()
def big() -> str:
    "Returns 10 MB."
    return "x" * 10_000_000


@server.tool()
def number() -> int:
    "Returns the number of the process."
    return os.getpid()


@server.tool()
def dies() -> str:
    "Ends the server."
    os._exit(3)


if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    file = tmp_path_factory.mktemp("mcp") / "server.py"
    file.write_text(SERVER)
    yield mcp.MCPServer((sys.executable, str(file)))
    mcp.close()


def tool(server: mcp.MCPServer, name: str) -> mcp.MCPTool:
    return server.tools([name])[0]


def call(one: mcp.MCPTool, seconds: float = 30.0, shown: int = 400, **arguments: object):
    return asyncio.run(called(one.open(Problem("p", "t"), Key(0), None), arguments, seconds=seconds, shown=shown))


def running(process: int) -> bool:
    return Path(f"/proc/{process}/stat").exists() and " Z " not in Path(f"/proc/{process}/stat").read_text()


def test_the_server_describes_its_tools(server):
    assert [t.name for t in server.tools()] == ["add", "fails", "sleeps", "meets", "picture", "big", "number", "dies"]
    add = tool(server, "add")
    assert add.about == "Adds two numbers."
    assert {name: part["type"] for name, part in add.parameters["properties"].items()} == {"a": "integer", "b": "integer"}
    assert len({add, tool(server, "add")}) == 1


def test_calls_and_failed_calls(server):
    assert (call(tool(server, "add"), a=2, b=40).text, call(tool(server, "add"), a=2, b=40).ok) == ("42", True)
    failed = call(tool(server, "fails"))
    assert not failed.ok
    assert "no such row" in failed.text
    assert call(tool(server, "picture")).text == "(image, 3000 bytes of image/png)"
    assert len(call(tool(server, "big")).text) <= 400
    late = asyncio.run(called(tool(server, "sleeps"), {"seconds": 30.0}, seconds=0.3, shown=400))
    assert (late.ok, late.text) == (False, "error: no result within 0.3 seconds")
    assert call(tool(server, "add"), a=1, b=1).text == "2"  # the connection is still good


def test_calls_of_several_episodes_wait_at_the_same_time(server):
    async def together():
        meet = tool(server, "meets")  # returns only if all calls of it run at the same time
        return await asyncio.gather(*(called(meet, {"count": 8}, seconds=60, shown=99) for _ in range(8)))

    assert [r.text for r in asyncio.run(together())] == ["done"] * 8


def test_a_server_that_dies_is_started_again(server):
    first = int(call(tool(server, "number")).text)
    died = call(tool(server, "dies"))
    assert not died.ok
    assert "has ended" in died.text
    second = int(call(tool(server, "number")).text)
    assert second != first
    assert not running(first)


def test_an_episode_calls_a_tool(server):
    form = JsonCalls()
    episode = Tools([tool(server, "add")], form=form).start(Problem("p", "2 + 40", answer="42"), Key(0), None)
    wrong = form.write(Call("add", {"a": "two", "b": 40}), [tool(server, "add")])
    right = form.write(Call("add", {"a": 2, "b": 40}), [tool(server, "add")])

    async def play():
        return [await episode.step(action) for action in (wrong, right, form.answer("42"))]

    first, second, end = asyncio.run(play())
    assert "is not of type 'integer'" in str(first.observation)
    assert "42" in str(second.observation)
    assert (first.calls, second.calls) == ((("add", False),), (("add", True),))
    assert (end.terminated, end.reward) == (True, 1.0)


def test_nothing_is_left_behind(server):
    process = int(call(tool(server, "number")).text)
    assert running(process)
    mcp.close()
    assert not running(process)


def test_mistakes_are_named(server, tmp_path):
    with pytest.raises(UserError, match='has no tool "ad"; its tools are add, fails'):
        server.tools(["ad"])
    with pytest.raises(UserError, match="either `command`"):
        mcp.MCPServer()
    with pytest.raises(UserError, match="give a list"):
        mcp.MCPServer("python server.py")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="cannot be used: FileNotFoundError"):
        mcp.MCPServer((str(tmp_path / "none"),)).tools()
    with pytest.raises(UserError, match=r"cannot be used|did not answer"):
        mcp.MCPServer((sys.executable, "-c", "print('hello')"), seconds=20.0).tools()


def test_a_server_that_runs_is_named_by_its_address(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "server.py").write_text(SERVER)
    with subprocess.Popen([sys.executable, str(tmp_path / "server.py"), str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            named = mcp.MCPServer(url=f"http://127.0.0.1:{port}/mcp")
            for _ in range(200):
                with contextlib.suppress(UserError):
                    named.tools()
                    break
            assert call(tool(named, "add"), a=2, b=3).text == "5"
            assert call(tool(named, "number")).text == str(process.pid)
        finally:
            mcp.close()
            process.kill()
