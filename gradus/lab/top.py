"""The present state of a run as text: workers, queue, ages of groups, tokens per second, waits, memory and progress (`gradus top`).

All functions read the state that `gradus.lab.status` describes.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradus.lab.live import duration
from gradus.lab.panel import cell, title
from gradus.runtime.activity import ACTIVITIES, FOR_GROUPS, FOR_REQUESTS, OTHER, SAMPLING, TRAINER, UPDATING
from gradus.runtime.terminal import STYLES, console, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

State = Mapping[str, Any]
SILENT = 10.0  # after this many seconds without a new state, the run counts as silent
_LEAST = 0.005  # smallest share that is shown
_BAR = 30  # characters of the longest bar


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Returns the share of each activity in the time of a worker, in the order of `ACTIVITIES`; empty without any time.

    >>> shares({"updating": 1.0, "sampling": 3.0})
    {'sampling': 0.75, 'updating': 0.25}
    """
    whole = sum(seconds.values())
    names = [*(name for name in ACTIVITIES if name in seconds), *sorted(seconds.keys() - set(ACTIVITIES))]
    return {name: seconds[name] / whole for name in names} if whole > 0 else {}


def together(workers: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Adds up the seconds of several workers by activity."""
    found: dict[str, float] = {}
    for seconds in workers:
        for name, value in seconds.items():
            found[name] = found.get(name, 0.0) + value
    return found


def seconds_left(state: State) -> float | None:
    """Estimates the seconds to the end from the progress since the start; None before the first finished step, and for a run that has ended."""
    began, spent = state["began"], state["at"] - state["began"]["at"]
    if state["state"] != "running":
        return None
    if state.get("progress") is not None and began.get("progress") is not None:
        done, left = state["progress"] - began["progress"], max(1 - state["progress"], 0.0)
    else:
        done, left = state["step"] - began["step"], max(state["steps"] - state["step"], 0)
    return spent * left / done if done > 0 else None


def tokens_per_second(state: State) -> list[tuple[str, int, float, float]]:
    """Returns (activity, tokens, tokens per second, tokens per busy second) for each activity that had tokens in the recent time.

    A busy second is a second of one worker in this activity. Two workers that sample for one second have two busy seconds.
    """
    recent = state["recent"]
    over, spent = recent["over"], together(recent["workers"].values())
    found = []
    for name in ACTIVITIES:
        tokens, own = recent["tokens"].get(name, 0), spent.get(name, 0.0)
        if tokens and over > 0:
            found.append((name, int(tokens), tokens / over, tokens / own if own > 0 else 0.0))
    return found


def bottleneck(workers: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a sentence about the waits: which side waits for the other, or, without a system, which work takes the largest share.

    `workers`: the seconds by worker and activity.
    """
    trainer = shares(workers.get(TRAINER, {}))
    others = shares(together(seconds for name, seconds in workers.items() if name != TRAINER))
    if not trainer:
        return ""
    if others:
        groups, requests = trainer.get(FOR_GROUPS, 0.0), others.get(FOR_REQUESTS, 0.0)
        told = f"The trainer waits for groups {groups:.0%} of the time, and the workers wait for requests {requests:.0%} of the time. "
        if max(groups, requests) < 0.1:
            return told + "Neither side waits long."
        return told + ("Sampling is the slower side." if groups > requests else "The update is the slower side.")
    name, share = max(((name, share) for name, share in trainer.items() if name != OTHER), key=lambda pair: pair[1], default=("", 0.0))
    if not name:
        return ""
    hidden = min(trainer.get(SAMPLING, 0.0), trainer.get(UPDATING, 0.0))
    more = f" With --system Ahead, sampling and updating run at the same time, which hides up to {hidden:.0%} of the time." if hidden >= 0.2 else ""
    return f"One worker does all work, so everything else waits for it. The largest share is {name}, {share:.0%}.{more}"


def silence(state: State, now: float, *, alive: bool | None) -> str:
    """Returns a warning if a run that should be active has written no state for `SILENT` seconds, else ''.

    `alive`: whether the process of the run exists; None if the run is on another machine.
    """
    quiet = now - state["at"]
    if state["state"] != "running" or (quiet <= SILENT and alive is not False):
        return ""
    where = f"process {state['process']} on {state['machine']}"
    if alive is False:
        return f"The run has ended without a last state: {where} does not exist any more. Continue the run with gradus resume."
    return f"The run has written no state for {duration(quiet)}: {where} is blocked, or has been stopped."


def bytes_told(size: float) -> str:
    """Returns a size with its unit.

    >>> bytes_told(804_835_328), bytes_told(12_300_000_000)
    ('805 MB', '12.3 GB')
    """
    return f"{size / 1e6:,.0f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"


def view(state: State, heading: str, now: float, *, alive: bool | None = True) -> RenderableType:
    """Returns the whole view for a terminal or a file. `heading`: such as "grpo on arithmetic". `now`: the present time, as in the state."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_head(state, heading)]
    if told := silence(state, now, alive=alive):
        parts.append(Text(told, style=STYLES["bad"]))
    parts += [Text(), _workers(state)]
    if told := bottleneck(state["recent"]["workers"]):
        parts.append(Text(told, style=STYLES["quiet"]))
    if rows := tokens_per_second(state):
        parts += [Text(), _tokens(rows)]
    parts += [Text(), _facts(state)]
    if state["ages"]:
        parts += [Text(), _ages(state["ages"])]
    return Group(*parts)


def plain(state: State, heading: str, now: float, *, width: int, alive: bool | None = True) -> str:
    """Returns the view as text without colours, for a file or a pipe."""
    screen = console(io.StringIO(), width=width)
    with screen.capture() as found:
        screen.print(view(state, heading, now, alive=alive))
    return "\n".join(line.rstrip() for line in found.get().rstrip().split("\n"))


def _head(state: State, heading: str) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    left = seconds_left(state)
    stage = f", stage {printable(str(state['stage']))}" if state.get("stage") else ""
    done = state["progress"] if state.get("progress") is not None else state["step"] / max(state["steps"], 1)
    facts = [f"step {state['step']:,} of {state['steps']:,}{stage}", f"{done:.0%}", f"running for {duration(state['at'] - state['began']['at'])}"]
    facts = facts if state["state"] == "running" else [facts[0], facts[1], state["state"]]
    facts += [f"{duration(left)} left"] if left is not None else []
    line = Text(printable(heading), style=STYLES["title"]).append(f"  {' · '.join(facts)}", style="")
    return Group(line, ProgressBar(total=1.0, completed=min(done, 1.0), width=60))


def _table(*columns: str, wrapped: bool = False) -> Any:
    """Returns a table without rows. The first column is on the left. `wrapped`: the last column is on the left, too, and its text may have several lines."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), header_style=STYLES["title"], pad_edge=False, show_header=any(columns))
    for place, name in enumerate(columns):
        left = place == 0 or name == "does now" or (wrapped and place == len(columns) - 1)
        made.add_column(name, justify="left" if left else "right", no_wrap=not (wrapped and place == len(columns) - 1))
    return made


def _workers(state: State) -> RenderableType:
    table = _table("worker", "does now", "for", f"shares of the last {duration(state['recent']['over'])}", wrapped=True)
    for name, worker in sorted(state["workers"].items(), key=lambda pair: (pair[0] != TRAINER, len(pair[0]), pair[0])):
        spent = shares(state["recent"]["workers"].get(name, {}))
        told = ", ".join(f"{what} {share:.0%}" for what, share in spent.items() if share >= _LEAST)
        ended = state["state"] != "running"
        table.add_row(printable(name), "-" if ended else worker["now"], "-" if ended else duration(worker["for"]), told or "-")
    return table


def _tokens(rows: Sequence[tuple[str, int, float, float]]) -> RenderableType:
    table = _table("tokens", "number", "per second", "per busy second")
    for name, tokens, rate, own in rows:
        table.add_row(name, f"{tokens:,}", f"{rate:,.0f}", f"{own:,.0f}")
    return table


def _facts(state: State) -> RenderableType:
    table = _table("", "", wrapped=True)
    for name, told in _rows(state):
        table.add_row(name, told)
    return table


def _rows(state: State) -> Iterator[tuple[str, str]]:
    if state["queue"] is not None:
        yield "queue", ", ".join(f"{count:,} {name}" for name, count in state["queue"].items())
    names = {"process": "this process", "peak": "its peak", "gpu": "GPU"}
    yield "memory", ", ".join(f"{names.get(name, name)} {bytes_told(size)}" for name, size in state["memory"].items()) or "-"
    if state["waits"]:
        yield "long waits", "; ".join(f"{printable(wait['what'])}, for {duration(wait['seconds'])}" for wait in state["waits"])
    if state["last"]:
        yield "last step", ", ".join(f"{title(name)} {cell(name, value)}" for name, value in state["last"].items())


def _ages(ages: Mapping[str, int]) -> RenderableType:
    table = _table("age of groups in steps", "groups", "share", "", wrapped=True)
    whole, most = sum(ages.values()), max(ages.values())
    for age, count in sorted(ages.items(), key=lambda pair: int(pair[0])):
        table.add_row(age, f"{count:,}", f"{count / whole:.0%}", "#" * round(_BAR * count / most))
    return table
