"""What a command says when its run has ended, and the exit code that says why."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def carry_out(training: Callable[[], Any], folder: str) -> int:
    """Trains, writes the report, and says what came of it and what to type next. Returns the exit code."""
    from gradus.lab.folder import is_run

    try:
        run = training()
    except (KeyboardInterrupt, SystemExit) as stopped:
        code = 130 if isinstance(stopped, KeyboardInterrupt) else int(stopped.code or 0)
        if not is_run(Path(folder)):
            print(f"\nstopped before there was a run: nothing was written to {folder}, so start it again with the same words", file=sys.stderr)
            return code
        print(f"\nstopped; {kept(folder)}", file=sys.stderr)
        report_of(folder)
        return code
    except BrokenPipeError:  # who read the lines has gone, and the run is not done
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"nobody reads what is printed any more, so the run stopped; {kept(folder)}", file=sys.stderr)
        return 128 + signal.SIGPIPE
    if run.stop.asked == "time":
        for line in without_reward(run.metrics, folder):
            print(line, file=sys.stderr)
        little = "" if run.stop.boundaries > 1 else "not one step could be done in it, so give more: "
        print(f"the time is up; {little}{kept(folder)}\nreport: {report_of(folder)}", file=sys.stderr)
        return int(run.stop.code)
    print("\n".join([came_of_it(run.metrics), *without_reward(run.metrics, folder), f"report: {report_of(folder)}", *next_words(folder)]))
    return 0


def stopped_early(words: Sequence[str]) -> str:
    """What is said where a command was stopped that had not begun its work, or has no run."""
    if words[:1] == ["train"]:
        return "stopped while it was being loaded: there is no run yet, so start it again with the same words"
    if words[:1] == ["resume"]:
        return "stopped while it was being loaded: the run is as it was; go on with the same words"
    return "stopped"


def report_of(folder: str) -> str:
    """Writes the report; where it is, or why there is none: a run that is done is not undone by that."""
    from gradus.lab.report import write_report
    from gradus.types import UserError

    try:
        return str(write_report(folder))
    except (UserError, OSError) as error:
        return f"none, since {error}"


def kept(folder: str) -> str:
    """What of a stopped run is kept."""
    from gradus.lab.checkpoints import latest

    found, _ = latest(Path(folder))
    where = f"saved up to step {found.step}" if found is not None else "nothing was saved yet, so it starts again"
    return f"{where}; go on with: gradus resume {folder}"


def came_of_it(metrics: Sequence[dict[str, Any]]) -> str:
    """First and last value of what was measured on held-out problems, or of the reward where nothing was."""
    names = {
        "held_out/accuracy": "held-out accuracy",
        "held_out/greedy": "greedy",
        "held_out/reward": "held-out reward",
        "reward": "reward",
    }
    found: list[str] = []
    for name, label in names.items():
        values = [row[name] for row in metrics if row.get(name) is not None]
        if values and not (found and name == "reward"):
            found.append(f"{label} {values[0]:.3f} -> {values[-1]:.3f}")
    nothing = "no answer was given a reward" if metrics else "no step was taken"
    return f"done: {'; '.join(found) or nothing}"


def without_reward(metrics: Sequence[dict[str, Any]], folder: str) -> list[str]:
    """A sentence where answers have no reward: how many, and where each stands with its reason."""
    from gradus.lab.folder import QUARANTINE

    counts = {kind: sum(int(row.get(name) or 0) for row in metrics) for name, kind in (("failed", "sampled"), ("held_out/failed", "held-out"))}
    said = " and ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    one = sum(counts.values()) == 1
    return [f"{said} answer{' has' if one else 's have'} no reward; why: {Path(folder) / QUARANTINE}"] if said else []


def next_words(folder: str) -> list[str]:
    return [f"run: {folder}", f"next: gradus eval {folder} --pass-at 1,4,16", f"      gradus export {folder} {folder.rstrip('/')}-model"]
