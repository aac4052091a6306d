"""A tool that shows and changes the files of an episode. It works in the folder of the tool `Shell`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.tools.shell import Folder, Shell
from gradus.tools.tool import Opened, Result
from gradus.types import Frozen, Key, Problem
from gradus.types.parts import World

ACTIONS = ("view", "create", "replace")


@dataclass(frozen=True)
class Editor:
    """Shows a file with the numbers of its lines (`view`), writes a file (`create`), or replaces a text that occurs exactly once (`replace`).

    The files are those of the tool that `shares` names. If this tool has no session, the folder has the files of the problem.
    """

    shares: str = "shell"  # the name of the tool Shell
    name: str = "edit"
    about: ClassVar[str] = "Shows a file, writes a file, or replaces a text in a file."
    parameters: ClassVar[Mapping[str, Any]] = Frozen(
        type="object",
        properties={
            "action": {"type": "string", "enum": list(ACTIONS), "description": "view, create or replace"},
            "path": {"type": "string", "description": "the path of the file in the folder"},
            "text": {"type": "string", "description": "the content of a new file, or the text that replaces the old one"},
            "old": {"type": "string", "description": "the text to replace, which must occur exactly once"},
        },
        required=["action", "path"],
    )
    recorded: ClassVar[bool] = False
    forks: ClassVar[bool] = True

    def open(self, problem: Problem, key: Key, world: World | None) -> Opened:
        return self.on(Shell().open(problem, key, world))

    def on(self, session: Folder) -> Editing:
        return Editing(session)


@dataclass(frozen=True)
class Editing:
    """The session of the editor in a folder."""

    folder: Folder

    async def call(self, action: str, path: str, text: str = "", old: str = "") -> Result:
        """Returns the file or a confirmation. If the call has a mistake, returns the reason."""
        async with self.folder.turn:
            try:
                return Result(self._done(action, path, text, old))
            except ValueError as error:
                return Result(f"error: {error}", ok=False)

    def _done(self, action: str, path: str, text: str, old: str) -> str:
        if action == "create":
            self.folder.write(path, text)
            return f"{path} is written"
        known = self.folder.read(path)
        if action == "view":
            return "\n".join(f"{n}: {line}" for n, line in enumerate(known.splitlines(), 1)) or "(an empty file)"
        if not old or (count := known.count(old)) != 1:
            raise ValueError("`old` is empty; give the text to replace" if not old else f"`old` occurs {count} times in {path}; give a text that occurs once")
        self.folder.write(path, known.replace(old, text))
        return f"{path} is changed"

    def fork(self, key: Key) -> Editing:
        return Editing(self.folder.fork(key))
