"""A tool that runs shell commands. An episode has one folder of files until its end. Each command runs in a new sandbox with these files."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from gradus.sandbox import End, Limits, Ran, Sandbox, isolation_named
from gradus.tools.python import ENDS
from gradus.tools.tool import Result
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import World
from gradus.types.ranges import check_ranges

SHOWN = 20_000  # largest number of bytes of output that leave the sandbox
_PATH = 200  # characters of a path


@dataclass(frozen=True)
class Shell:
    """Runs a command by `sh` in the episode's folder. Gives its output, and its exit code if this code is not 0.

    The folder begins with the files of the problem (`meta["files"]`, a mapping of paths to texts). Files and their permission to be executed are kept until
    the end of the episode. Links, empty folders and processes are not kept. If a command takes longer than `seconds`, or makes more than `disk` MB, the
    folder does not change.
    """

    isolation: str = "bubblewrap"  # "bubblewrap" or "rlimits"
    seconds: float = 5.0  # limit of wall time for a command
    memory: int = 256  # limit of memory for a command, in MB
    disk: int = 4  # limit of the size of all files together, in MB
    name: str = "shell"
    about: ClassVar[str] = "Runs a shell command in a folder of files, and returns its output."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object", properties={"command": {"type": "string", "description": "the command"}}, required=["command"]
    )
    recorded: ClassVar[bool] = True
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, seconds="(0, inf)", memory="[64, inf)", disk="[1, 64]")
        isolation_named(self.isolation)

    @property
    def sandbox(self) -> Sandbox:
        room = self.disk << 20
        limits = Limits(wall=self.seconds + 2.0, memory=self.memory << 20, output=2 * room + 8 * SHOWN, disk=3 * room)
        return Sandbox(isolation_named(self.isolation), limits)

    def open(self, problem: Problem, key: Key, world: World | None) -> Folder:
        """Opens the folder of an episode. Raises UserError if this machine cannot isolate programs, or if a path leads out of the folder."""
        self.sandbox.check()
        folder = Folder(self)
        for path, text in problem.meta.get("files", {}).items():
            try:
                folder.write(path, str(text))
            except ValueError as error:
                raise UserError(f'problem {problem.id}: meta["files"] has {path!r}, but {error}') from None
        return folder


@dataclass
class Folder:
    """The files of an episode by relative path. `runs`: the paths that can be executed."""

    settings: Shell
    files: dict[str, bytes] = field(default_factory=dict)
    runs: frozenset[str] = frozenset()
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # commands of one action run one after another

    def fork(self, key: Key) -> Folder:
        """Returns a folder with the same files."""
        return Folder(self.settings, dict(self.files), self.runs)

    def read(self, path: str) -> str:
        """Returns the text of a file. Raises ValueError if there is none."""
        known = self.files.get(inner(path))
        if known is None:
            raise ValueError(f"there is no file {path[:_PATH]}")
        return known.decode("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        """Writes a file. Raises ValueError if the path leads out of the folder, or if the files become too large."""
        made = {**self.files, inner(path): text.encode("utf-8", "surrogatepass")}
        if sum(map(len, made.values())) > self.settings.disk << 20:
            raise ValueError(f"the files would have more than {self.settings.disk} MB")
        self.files = made

    async def call(self, command: str) -> Result:
        """Runs a command and keeps the files that it leaves."""
        async with self.turn:
            packed = {path: (base64.b64encode(content).decode(), path in self.runs) for path, content in self.files.items()}
            state = {"files": packed, "command": command, "seconds": self.settings.seconds, "output": SHOWN}
            ran = await self.settings.sandbox.running(_inside(), files={"state.json": json.dumps(state)})
            return self._after(ran)

    def _after(self, ran: Ran) -> Result:
        """Reads the files from the text of the sandbox. The command may have forged this text, so every part of it is checked."""
        try:
            told = json.loads(ran.stdout if ran.ended is End.OK else "{}")
            files = {inner(path): base64.b64decode(content) for path, (content, _) in told["files"].items()}
            runs = frozenset(inner(path) for path, (_, runs) in told["files"].items() if runs is True)
            output, exit, late = str(told["output"]), int(told["exit"]), bool(told["late"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return Result(f"error: {ENDS.get(ran.ended, 'the command broke its sandbox')}; the files are as before", ok=False)
        if late or sum(map(len, files.values())) > self.settings.disk << 20:
            reason = f"it took longer than {self.settings.seconds:g} seconds" if late else f"its files have more than {self.settings.disk} MB"
            return Result("\n".join(part for part in (output.strip("\n"), f"error: stopped: {reason}; the files are as before") if part), ok=False)
        self.files, self.runs = files, runs
        lines = [output.strip("\n"), *([f"exit code {exit}"] if exit else [])]
        return Result("\n".join(line for line in lines if line) or "(no output)", exit == 0)


def inner(path: str) -> str:
    """Returns a path within the folder in its plain form. Raises ValueError for a path that leads out of it.

    >>> inner("./a//b.txt")
    'a/b.txt'
    """
    plain = PurePosixPath(path)
    if not path or len(path) > _PATH or "\0" in path or plain.is_absolute() or ".." in plain.parts or str(plain) == ".":
        raise ValueError(f"{path[:_PATH]!r} is no path in the folder; give a relative path without ..")
    return str(plain)


@cache
def _inside() -> str:
    return Path(__file__).with_name("_shell_inside.py").read_text(encoding="utf-8")
