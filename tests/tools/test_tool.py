from __future__ import annotations

import asyncio
import time

import pytest

from gradus.tools import Result, tool
from gradus.tools.calls import called, cut, text_of
from gradus.tools.tool import first_parameter, signature, wrong_arguments
from gradus.types import Key, Problem, UserError


def add(a: int, b: int = 2) -> int:
    """Adds two numbers.

    Args:
        a: the first number
        b: the second number
    """
    return a + b


def call(function, *, seconds=5.0, shown=100, **arguments) -> Result:
    class Opened:
        call = staticmethod(function)

    return asyncio.run(called(Opened(), arguments, seconds=seconds, shown=shown))


def test_a_function_with_types_and_docstring_is_a_tool():
    assert signature(tool(add)) == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds two numbers.",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "description": "the first number"},
                    "b": {"type": "integer", "description": "the second number"},
                },
                "required": ["a"],
            },
        },
    }
    assert first_parameter(tool(add)) == "a"
    assert tool(add).open(Problem("p", "t"), Key(0), None).call(a=1) == 3


def test_arguments_are_checked_before_the_call():
    assert wrong_arguments(tool(add), {"a": 1}) is None
    assert wrong_arguments(tool(add), {"a": "x"}) == "a: 'x' is not of type 'integer'"
    assert wrong_arguments(tool(add), {}) == "'a' is a required property"
    assert "unexpected" in (wrong_arguments(tool(add), {"a": 1, "c": 2}) or "")


def test_a_function_without_description_is_refused_with_its_place():
    def bare(x):
        return x

    with pytest.raises(UserError, match=r'the function "bare" \(.*test_tool\.py, line \d+\) cannot be a tool: .*docstring'):
        tool(bare)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        (None, "(no output)"),
        (b"\x00\xff", "(2 bytes of binary data)"),
        ({"a": [1, 2]}, '{"a": [1, 2]}'),
        (7, "7"),
        (Result("no", ok=False), "no"),
        ("\x00bell\x07", "?bell?"),
        ("\ud800", "?"),
    ],
)
def test_whatever_a_tool_returns_is_a_text(value, shown):
    assert call(lambda: value).text == shown


def test_ten_megabytes_are_cut():
    result = call(lambda: "x" * 10_000_000, shown=100)
    assert result.ok
    assert len(result.text) == 99
    assert cut("abcdefghij", 9) == "ab\n...\nij"
    assert len(text_of(object(), 100)) <= 200


def test_a_tool_that_raises_hangs_or_exits_is_a_failed_call():
    def fails():
        raise KeyError("x")

    def leaves():
        raise SystemExit(3)

    async def waits():
        await asyncio.sleep(60)

    assert call(fails) == Result("error: KeyError: 'x'", ok=False)
    assert call(leaves) == Result("error: SystemExit: 3", ok=False)
    assert call(lambda: time.sleep(60), seconds=0.05) == Result("error: no result within 0.05 seconds", ok=False)
    assert call(waits, seconds=0.05) == Result("error: no result within 0.05 seconds", ok=False)


def test_a_message_to_the_user_is_not_swallowed():
    def needs():
        raise UserError("install it")

    with pytest.raises(UserError, match="install it"):
        call(needs)
