"""The last lines and the exit code of a command that trains."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def carry_out(training: Callable[[], Any], folder: str) -> int:
    """Trains, writes the report, prints the result and the next commands. Returns the exit code."""
    try:
        return _carried_out(training, folder)
    except KeyboardInterrupt:  # a second one, while the result or the report is written
        print(f"\nstopped at once; {state_of(folder)}", file=sys.stderr)
        return 130


def _carried_out(training: Callable[[], Any], folder: str) -> int:
    from gradus.lab.folder import is_run
    from gradus.study.stuck import stuck

    try:
        run = training()
    except (KeyboardInterrupt, SystemExit) as stopped:
        print(f"\nstopped; {state_of(folder)}", file=sys.stderr)
        if is_run(Path(folder)):
            report_of(folder)
        return 130 if isinstance(stopped, KeyboardInterrupt) else int(stopped.code or 0)
    except BrokenPipeError:  # the reader of the output has closed the pipe before the end of the run
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"the reader of the output closed the pipe, so the run stopped; {kept(folder)}", file=sys.stderr)
        return 128 + signal.SIGPIPE
    if run.stop.asked == "time":
        for line in without_reward(run.metrics, folder):
            print(line, file=sys.stderr)
        little = "" if run.stop.boundaries > 1 else "this time was too short for one step, so give more: "
        print(f"the time is up; {little}{kept(folder)}\nreport: {report_of(folder)}", file=sys.stderr)
        return int(run.stop.code)
    result = came_of_it(run.metrics, stuck(run.metrics, run.recipe))
    answers = not getattr(run.recipe.study, "of_judge", False)
    after = next_words(folder, judged=has_judge(run), answers=answers)
    print("\n".join([result, *without_reward(run.metrics, folder), f"report: {report_of(folder)}", *after]))
    return 0


def stopped_early(words: Sequence[str]) -> str:
    """The message of a stopped command, if the command has no run or has not begun its work."""
    if words[:1] == ["train"]:
        return "stopped while loading: there is no run yet; start it again with the same command"
    if words[:1] == ["resume"]:
        return "stopped while loading: the run is unchanged; resume it with the same command"
    return "stopped"


def report_of(folder: str) -> str:
    """Writes the report. Returns its path, or the reason why it cannot be written: a finished run must not fail because of its report."""
    from gradus.lab.report import write_report
    from gradus.types import UserError

    try:
        return str(write_report(folder))
    except (UserError, OSError) as error:
        return f"none, because {error}"


def state_of(folder: str) -> str:
    """Returns a sentence about a stopped run. The sentence names the last saved step (or says that no run exists yet) and the next command."""
    from gradus.lab.folder import is_run

    if not is_run(Path(folder)):
        return f"there is no run yet, and nothing was written to {folder}; start it again with the same command"
    return kept(folder)


def kept(folder: str) -> str:
    """Returns a sentence about the saved steps of a stopped run, with the command that resumes the run."""
    from gradus.lab.folder import RunFolder
    from gradus.types import command

    found, _ = RunFolder.open(folder).latest()
    where = f"saved up to step {found.step}" if found is not None else "nothing is saved yet, so it starts again from step 0"
    return f"{where}; go on with: {command('resume', folder)}"


def came_of_it(metrics: Sequence[dict[str, Any]], fault: str | None = None) -> str:
    """Returns a text with the first and the last value of each held-out metric. If there was no evaluation, the text has these values of the reward.

    `fault`: the reason why the run has learned nothing. The text names this reason in place of "done".
    """
    from gradus.lab.live import of_problems
    from gradus.lab.panel import Curves

    curves = Curves()
    for row in metrics:
        curves.add(int(row.get("step", 0)), row)
    equal = curves.equal().get("held_out/accuracy", [])
    names = {
        "held_out/accuracy": "held-out accuracy" + " = reward" * bool(equal),
        "held_out/greedy": "greedy",
        **({} if equal else {"held_out/reward": "held-out reward"}),
        "held_out/loss": "held-out loss",
        "held_out/preferred": "held-out preferred",
        "reward": "reward",
    }
    found: list[str] = []
    last: dict[str, Any] = next((row for row in reversed(metrics) if row.get("held_out/accuracy") is not None), {})
    for name, label in names.items():
        values = [row[name] for row in metrics if row.get(name) is not None]
        if values and not (found and name == "reward"):
            found.append(f"{label} {values[0]:.3f} -> {values[-1]:.3f}{of_problems(name, last)}")
    nothing = "no answer was given a reward" if metrics else "no step was taken"
    measured = "; ".join(found) or nothing
    return f"done: {measured}" if fault is None else f"{fault}\nmeasured: {measured}"


def without_reward(metrics: Sequence[dict[str, Any]], folder: str) -> list[str]:
    """If some answers have no reward, returns one line with their number and the file with the reasons. If all answers have a reward, returns no line."""
    from gradus.lab.folder import QUARANTINE

    counts = {kind: sum(int(row.get(name) or 0) for row in metrics) for name, kind in (("failed", "sampled"), ("held_out/failed", "held-out"))}
    said = " and ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    one = sum(counts.values()) == 1
    return [f"{said} answer{' has' if one else 's have'} no reward; why: {Path(folder) / QUARANTINE}"] if said else []


def has_judge(run: Any) -> bool:
    """Whether the run itself has a verifier or reward for its answers, so that an evaluation works without --reward."""
    from gradus.rewards.combine import check_reward
    from gradus.study.evaluate import verdict_of
    from gradus.types import UserError

    judge = verdict_of(run, own=True)
    try:
        check_reward(judge, run.task)
    except UserError:
        return False
    return judge is not None


def next_words(folder: str, *, judged: bool, answers: bool = True) -> list[str]:
    """The lines that name the run and the next commands. `judged`: whether `gradus eval` can judge the answers of the run.

    `answers`: whether the trained model writes answers; a trained judge writes none.
    """
    from gradus.types import command

    measured = command("eval", folder, *(() if judged and not answers else ("--pass-at", "1,4,16") if judged else ("--reward", "FILE.py:FUNCTION")))
    exported = command("export", folder, f"{folder.rstrip('/')}-model")
    first, second = (measured, exported) if judged else (exported, measured)
    return [f"run: {folder}", f"next: {first}", f"      {second}"]
