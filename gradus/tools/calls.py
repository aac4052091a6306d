"""Calls a tool under limits. The player always gets a text of limited length, even if the tool fails."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping
from typing import Any

from gradus.runtime.time_limit import Interruptible, Late, interrupted
from gradus.tools.tool import Opened, Result
from gradus.types import UserError


async def called(opened: Opened, arguments: Mapping[str, Any], *, seconds: float, shown: int) -> Result:
    """Calls a tool. Returns its result, cut to `shown` characters.

    A call that raises, or that takes longer than `seconds`, is a failed call. Raises UserError if the tool raises one, because the user has to act.
    """
    limit: asyncio.Timeout | None = None
    try:
        with interrupted(seconds):
            value = opened.call(**arguments)
        if inspect.isawaitable(value):
            async with asyncio.timeout(seconds) as limit:
                value = await Interruptible(value, seconds)
    except (UserError, GeneratorExit):
        raise
    except BaseException as error:  # includes sys.exit, and cancellation of the tool's own awaits
        task = asyncio.current_task()
        if not isinstance(error, Late) and (isinstance(error, KeyboardInterrupt) or (task is not None and task.cancelling())):
            raise
        if isinstance(error, Late) or (limit is not None and limit.expired()):
            return Result(f"error: no result within {seconds:g} seconds", ok=False)
        return Result(printable(cut(f"error: {type(error).__name__}: {error}", shown)), ok=False)
    result = value if isinstance(value, Result) else Result(text_of(value, shown))
    return Result(printable(cut(result.text, shown)), result.ok)


def text_of(value: Any, most: int) -> str:
    """Returns a value as text. A text is unchanged, bytes give their number, and None gives "(no output)". Any other value is written as JSON, or as Python
    prints it.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(value)} bytes of binary data)"
    if value is None:
        return "(no output)"
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)[: 2 * most]


def printable(text: str) -> str:
    """Replaces every character that cannot be printed, except line breaks and tabs, by a question mark."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def cut(text: str, most: int) -> str:
    """Leaves out the middle of a text of more than `most` characters.

    >>> cut("abcdefghij", 9)
    'ab\\n...\\nij'
    """
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[:half]}\n...\n{text[-half:]}"
