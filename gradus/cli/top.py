"""`gradus top`: shows a run that another process trains."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any


def run(options: argparse.Namespace) -> int:
    """Prints the state of the run once, or shows it until the run or the user ends it."""
    from gradus.lab.folder import RunFolder
    from gradus.lab.live import title_of
    from gradus.lab.top import plain, view
    from gradus.runtime.terminal import columns, console, is_terminal
    from gradus.types import UserError

    if options.every <= 0:
        raise UserError(f"--every is {options.every:g}; give a number of seconds above 0")
    folder = RunFolder.open(options.folder)
    recipe = folder.recipe()
    heading = title_of(str(recipe.get("recipe", {}).get("key") or ""), str(recipe.get("task") or "")) or folder.path.name
    state = state_of(folder.path)
    if options.json:
        print(json.dumps(state, indent=1))
        return 0
    if options.once or not is_terminal(sys.stdout):
        print(plain(state, heading, time.time(), width=columns(), alive=alive(state)))
        return 0
    from rich.live import Live

    with Live(console=console(sys.stdout), auto_refresh=False, vertical_overflow="crop") as live:
        try:
            while True:
                live.update(view(state, heading, time.time(), alive=alive(state)), refresh=True)
                if state["state"] != "running" or alive(state) is False:
                    return 0
                time.sleep(options.every)
                state = state_of(folder.path)
        except KeyboardInterrupt:
            return 0


def state_of(folder: Path) -> dict[str, Any]:
    """Returns the state that the run wrote last. Raises UserError if there is none."""
    from gradus.lab.status import STATUS, read_status
    from gradus.types import UserError, command

    found = read_status(folder)
    if found is None:
        raise UserError(
            f"{folder} has no {STATUS} that this version can read: the run has not begun to train, or another version wrote it; wait until the first "
            f"step, or see the results with {command('report', folder)}"
        )
    return found


def alive(state: dict[str, Any]) -> bool | None:
    """Whether the process of the run exists; None if the process is on another machine."""
    if state["machine"] != socket.gethostname():
        return None
    try:
        os.kill(state["process"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists, and belongs to another user
        return True
    return True
