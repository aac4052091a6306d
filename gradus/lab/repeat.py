"""The command that repeats a run, from its provenance."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradus.types import command

_OURS = ("gradus", "__main__.py", "main.py")  # the first words of a process that runs the command line


def commands(provenance: Mapping[str, Any]) -> list[str]:
    """Returns shell commands: the first command of the run, and every later command that changed the run (`gradus resume` with further words).

    The result is empty if the provenance has no command. If Python code began the run, the first command is the command of the script.
    """
    found = [typed(provenance.get("command") or ())]
    for entry in provenance.get("resumed") or ():
        words = list(map(str, entry.get("command") or ()))
        if _own(words) and len(words) > 3:
            found.append(typed(words))
    return [one for one in dict.fromkeys(found) if one]


def typed(words: Sequence[Any]) -> str:
    """Returns the words of a process as a user types them.

    >>> typed(["/home/me/.venv/bin/gradus", "train", "grpo", "--run", "runs/my run"])
    "gradus train grpo --run 'runs/my run'"
    >>> typed(["train.py", "3"])
    'python train.py 3'
    """
    words = list(map(str, words))
    if not words:
        return ""
    return command(*words[1:]) if _own(words) else shlex.join(["python", *words])


def _own(words: Sequence[str]) -> bool:
    return bool(words) and Path(words[0]).name in _OURS
