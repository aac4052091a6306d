"""A tool that runs Python programs. Each program runs in a new process in its own sandbox, and shares nothing with other programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from gradus.sandbox import End, Limits, Ran, Sandbox, isolation_named
from gradus.tools.tool import Result
from gradus.types import Frozen, Key, Problem
from gradus.types.parts import World
from gradus.types.ranges import check_ranges

LIMITS = Limits(wall=5.0, memory=256 << 20, output=64 << 10)
ENDS = {
    End.TIMEOUT: "stopped: it took too long",
    End.MEMORY: "stopped: it took too much memory",
    End.OUTPUT: "stopped: it printed too much",
    End.DISK: "stopped: its files are too large",
    End.SIGNAL: "it crashed",
}
_FENCE = re.compile(r"\A\s*```(?:python3?|py)?[ \t]*\n(.*?)\n?(?:```)?\s*\Z", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Python:
    """Runs a program and gives its output. If the last statement is an expression, its value is printed, unless it is None.

    If the program fails, the result is its output and the last line of the error. A code fence around the program is left out. With `isolation` "rlimits",
    only resources are limited, so a program can read and write every file that you can.
    """

    isolation: str = "bubblewrap"  # "bubblewrap" or "rlimits"
    seconds: float = 5.0  # limit of wall time for a program
    memory: int = 256  # limit of memory for a program, in MB
    name: str = "python"
    about: ClassVar[str] = "Runs a Python program and returns its output and the value of its last line."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object", properties={"code": {"type": "string", "description": "the program"}}, required=["code"]
    )
    recorded: ClassVar[bool] = True
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, seconds="(0, inf)", memory="[16, inf)")
        isolation_named(self.isolation)

    @property
    def sandbox(self) -> Sandbox:
        return Sandbox(isolation_named(self.isolation), replace(LIMITS, wall=self.seconds, memory=self.memory << 20))

    def open(self, problem: Problem, key: Key, world: World | None) -> Python:
        """Opens a session. Raises UserError if this machine cannot isolate programs."""
        self.sandbox.check()
        return self

    def fork(self, key: Key) -> Python:
        """Returns the tool itself, because programs share nothing."""
        return self

    async def call(self, code: str) -> Result:
        ran = await run_tool(self.sandbox, unfenced(code))
        return Result(output(ran), ran.ended not in ENDS and ran.ok)


def unfenced(code: str) -> str:
    """Leaves out the code fence around a program."""
    found = _FENCE.match(code)
    return found[1] if found else code


async def run_tool(sandbox: Sandbox, code: str) -> Ran:
    """Runs a program in the sandbox. If the last statement of the program is an expression, its value is printed."""
    return await sandbox.running(_inside(), files={"tool.py": code})


def output(ran: Ran) -> str:
    """Returns the output of a program. If the program failed, the last line of the error follows."""
    lines = [ran.stdout.strip("\n")]
    if ran.ended in ENDS:
        lines.append(ENDS[ran.ended])
    elif not ran.ok:
        lines.append(ran.stderr.strip().rpartition("\n")[2] or f"exit code {ran.exit}")
    return "\n".join(line for line in lines if line) or "(no output)"


@cache
def _inside() -> str:
    return Path(__file__).with_name("_python_inside.py").read_text(encoding="utf-8")
