"""A save of a run that has one checkpoint already, done over and over with something going wrong in it. Runs in a process of its own:

python -m tests.faults.saving FOLDER kill|full|readonly|broken POINTS
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from gradus.lab import checkpoints
from gradus.lab.atomic_files import PARTIAL
from gradus.lab.folder import RunFolder
from gradus.types import UserError
from tests.faults.traced import Fault, possible, traced

FAULTS: dict[str, Callable[[int], Fault]] = {
    "kill": Fault,
    "full": lambda at: Fault(at, errno.ENOSPC),
    "readonly": lambda at: Fault(at, errno.EROFS, all_calls=True),
    "broken": lambda at: Fault(at, errno.EIO, all_calls=True),
}
REFUSED = 7  # the exit code of a save that was refused with a sentence that names the folder and what to do


def begun(home: Path) -> RunFolder:
    """A run with a checkpoint of step 1, and what it appended since."""
    folder = RunFolder.create(home / "run", {"key": "grpo"}, {})
    save(folder, home, 1)
    for step in (1, 2):
        folder.append_metrics(step, {"reward": 0.5})
    folder.append_timings(1, {"rollout": 0.5})
    return folder


def save(folder: RunFolder, home: Path, step: int) -> None:
    import torch

    model = home / "model"
    if not model.exists():
        (model / "inner").mkdir(parents=True)
        for name in ("config.json", "inner/template", *(f"part-{n}" for n in range(9))):
            (model / name).write_text(name * 100)
    tensors = {f"player-{n}.safetensors": {"w": torch.full((64, 64), float(step)), "b": torch.zeros(3)} for n in ("policy", "critic")}
    folder.save(step, {**tensors, "state.safetensors": {"x": torch.ones(5)}}, {"state.json": {"step": step}}, {"model": model}, keep=1)


def attempt(folder: RunFolder, home: Path) -> int:
    try:
        save(folder, home, 2)
    except UserError as error:
        told = str(error)
        return REFUSED if str(folder.path) in told and "gradus resume" in told else 8
    return 0


def strike(home: Path, kind: str, points: int) -> dict[str, object]:
    """Calls to the disk within a save, from the first to the last, `points` of them if there are more, struck in turn.

    Returns the calls, how each struck save ended, and what was found wrong by the number of the call.
    """
    folder = begun(home)
    shutil.copytree(folder.path, home / "before", symlinks=True)
    calls, code = traced(lambda: attempt(folder, home))
    wrong: dict[str, str] = {} if code == 0 else {"none": f"a save that nothing strikes ended with {code}"}
    ended = []
    struck = sorted({n * (len(calls) - 1) // (points - 1) for n in range(points)})
    for at in struck:
        shutil.rmtree(folder.path)
        shutil.copytree(home / "before", folder.path, symlinks=True)
        _, code = traced(lambda: attempt(folder, home), FAULTS[kind](at))
        ended.append(code)
        if fault := judged(folder, code, kind) or went_on(folder, home):
            wrong[f"{at} ({calls[at]})"] = fault
    return {"calls": calls, "struck": struck, "ended": ended, "wrong": wrong}


def judged(folder: RunFolder, code: int, kind: str) -> str:
    """What is wrong with what a struck save left; '' where nothing is."""
    if code not in ((-signal.SIGKILL,) if kind == "kill" else (0, REFUSED)):
        return f"it ended with {code}"
    found, sentence = folder.latest()
    if found is None or found.step not in (1, 2) or sentence:
        return f"there is {found}: {sentence}"
    if found.document("state.json") != {"step": found.step} or found.tensors("player-critic.safetensors")["w"][0, 0] != found.step:
        return f"step {found.step} holds another state"
    return "it returned, but the new checkpoint is not there" if code == 0 and found.step != 2 else ""


def went_on(folder: RunFolder, home: Path) -> str:
    """What is wrong after the run was gone on with; '' where nothing is."""
    found, _ = folder.latest()
    assert found is not None
    folder.cut_back(found.step)
    save(folder, home, 2)
    left = [str(p) for p in folder.path.rglob(PARTIAL + "*")]
    return f"left behind: {left}" if left or list(checkpoints.steps(folder.path)) != [2] else ""


if __name__ == "__main__":
    home = Path(sys.argv[1])
    os.makedirs(home)
    reason = possible()
    print(json.dumps({"skip": reason} if reason else strike(home, sys.argv[2], int(sys.argv[3]))))
