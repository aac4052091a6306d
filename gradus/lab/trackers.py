"""Sends the metrics of a run to trackers after every step: TensorBoard, trackio, Weights & Biases, Prometheus, OpenTelemetry.

Only the requested packages are imported.

Every number of metrics.jsonl goes to each tracker. If a tracker raises an error during the run, a message reports it once, and the run
continues without this tracker.

If a run returns to a checkpoint, it repeats steps with other data. TensorBoard drops the earlier values of these steps. trackio and Weights & Biases accept
only rising steps, so they cannot drop values. trackio and Weights & Biases keep the earlier values, and a message tells the user.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from gradus.lab.exporters import Exporter, OpenTelemetry, Prometheus, port_of
from gradus.types import UserError, unknown

PROJECT = "gradus"


@dataclass(frozen=True)
class Curve:
    """The run whose metrics are shown. `first`: the next step, above 0 if the run continues from a checkpoint."""

    name: str
    folder: Path | None = None
    id: str | None = None  # identifies the run; it stays the same when the run is resumed
    config: Mapping[str, Any] = field(default_factory=dict)
    first: int = 0
    resumed: bool = False


class Sink(Protocol):
    rewinds: bool  # whether the tracker can drop its values of a given step and of all later steps

    def rewind(self, step: int) -> None: ...

    def log(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Writes event files in `<run>/tensorboard`. The command `tensorboard --logdir runs` shows every run."""

    rewinds = True

    def __init__(self, package: ModuleType, curve: Curve) -> None:
        if curve.folder is None:
            raise UserError("TensorBoard writes its files into the folder of the run, but this run has no folder; name a folder with --run (run= in Python)")
        self._events: Any = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self._summary: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        files = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        self._writer = files.EventFileWriter(str(curve.folder / "tensorboard"))
        if curve.resumed:
            self.rewind(curve.first)

    def rewind(self, step: int) -> None:
        """Marks the written events of this step and later steps as invalid, so that readers drop them."""
        session = self._events.SessionLog(status=self._events.SessionLog.START)
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, session_log=session))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        shown = [self._summary.Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, summary=self._summary.Summary(value=shown)))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class Trackio:
    """Writes to trackio's database on this machine, unless TRACKIO_SPACE_ID or TRACKIO_SERVER_URL names another address."""

    rewinds = False

    def __init__(self, package: ModuleType, curve: Curve) -> None:
        init: Any = package.init
        name = curve.name if curve.id is None else f"{curve.name}-{curve.id}"
        quiet = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
        quiet = {option: value for option, value in quiet.items() if option in inspect.signature(init).parameters}
        with _offline(os.environ.get("TRACKIO_SPACE_ID") or os.environ.get("TRACKIO_SERVER_URL")):
            self._run = init(project=PROJECT, name=name, config=dict(curve.config), resume="allow" if curve.resumed else "never", **quiet)

    def rewind(self, step: int) -> None:
        """Does nothing, because this tracker cannot drop logged values."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class Wandb:
    """Writes to Weights & Biases, which is configured by `wandb login` and its environment variables (WANDB_MODE=offline, WANDB_ENTITY)."""

    rewinds = False

    def __init__(self, package: ModuleType, curve: Curve) -> None:
        init: Any = package.init
        where = {} if curve.folder is None else {"dir": str(curve.folder)}
        self._run = init(project=PROJECT, name=curve.name, id=curve.id, config=dict(curve.config), resume="allow", **where)

    def rewind(self, step: int) -> None:
        """Does nothing, because this tracker cannot drop logged values."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


KINDS: Mapping[str, Callable[..., Sink]] = {
    "tensorboard": TensorBoard,
    "trackio": Trackio,
    "wandb": Wandb,
    "prometheus": Prometheus,
    "opentelemetry": OpenTelemetry,
}
"""The class of each tracker by name. A name may end in an option of the tracker, as in prometheus:9464."""
PACKAGES: Mapping[str, tuple[str, str]] = {
    "prometheus": ("prometheus_client", "prometheus-client"),
    "opentelemetry": ("opentelemetry.exporter.otlp.proto.http.metric_exporter", "opentelemetry-exporter-otlp-proto-http"),
}
"""The package of a tracker, and its name for pip, if they are not the name of the tracker."""


def names_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Returns the names in a text such as 'tensorboard,wandb'; empty for None and 'none'.

    Raises UserError for an unknown name, for a text without a name, and for a missing package.
    """
    words = given.split(",") if isinstance(given, str) else given or ()
    if words and not any(word.strip() for word in words):
        raise UserError(f'--log is "{given}", which names no tracker; give one or more of {", ".join(KINDS)}, or "none"')
    names = tuple(dict.fromkeys(word.strip() for word in words if word.strip() not in ("", "none")))
    for name in names:
        kind, colon, option = name.partition(":")
        if kind not in KINDS:
            raise unknown("tracker", kind, KINDS, "Give --log a list of them, as in --log tensorboard,wandb")
        if colon:
            if kind != "prometheus":
                raise UserError(f'--log has "{name}", but {kind} takes no option; write {kind}')
            port_of(option)
        _package(kind)
    return names


def _package(kind: str) -> ModuleType:
    module, known = PACKAGES.get(kind, (kind, None))
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = known or getattr(error, "name", None) or module
        raise UserError(f"--log {kind} needs the package {missing}, which is not installed; install it with: pip install {missing}") from None


class Sinks:
    """Several sinks as one. `told`: metric name -> the last step with a value for the sinks without `rewind`."""

    def __init__(self, sinks: Mapping[str, Sink], told: Mapping[str, int], say: Callable[[str], None]) -> None:
        self._sinks, self._told, self._say = dict(sinks), dict(told), say

    def row(self, row: Mapping[str, Any]) -> None:
        """Sends the finite numbers of a row of the metrics to every open sink."""
        step = int(row["step"])
        values = {name: float(v) for name, v in row.items() if name != "step" and isinstance(v, (int, float)) and math.isfinite(v)}
        new = {name: value for name, value in values.items() if step > self._told.get(name, -1)}
        for name, sink in list(self._sinks.items()):
            shown = values if sink.rewinds else new
            if shown:
                self._kept(name, lambda sink=sink, shown=shown: sink.log(step, shown))  # type: ignore[misc]
        self._told.update(dict.fromkeys(new, step))

    def follow(self, live: Callable[[], Mapping[str, Any]]) -> None:
        """Gives `live` to each sink that shows the state of the run. A call of `live` returns the present state (see `gradus.lab.status`)."""
        for name, sink in list(self._sinks.items()):
            if isinstance(sink, Exporter):
                self._kept(name, lambda sink=sink: sink.follow(live))  # type: ignore[misc]

    def back(self, step: int) -> None:
        """Rewinds the sinks to `step`, because the run repeats `step` and the later steps with other data."""
        for name, sink in list(self._sinks.items()):
            if sink.rewinds:
                self._kept(name, lambda sink=sink: sink.rewind(step))  # type: ignore[misc]
            elif step <= (last := max(self._told.values(), default=-1)):
                self._say(f"{name} keeps the values of the abandoned steps {step} to {last}; metrics.jsonl has the valid values")

    def close(self) -> None:
        for name, sink in list(self._sinks.items()):
            self._kept(name, sink.close)
        self._sinks.clear()

    def _kept(self, name: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # code of another package, perhaps over a network
            del self._sinks[name]
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            self._say(f"{name} gets no more metrics ({reason}); the run continues, and metrics.jsonl has all metrics")


def open_sinks(names: Sequence[str], curve: Curve, say: Callable[[str], None], before: Sequence[Mapping[str, Any]] = ()) -> Sinks:
    """Opens every sink. Raises UserError if a sink does not open.

    Args: say: shows a sentence to the user; before: the rows that the sinks got before the resume, including rows of repeated steps.
    """
    told: dict[str, int] = {}
    for row in before:
        told.update({name: max(int(row["step"]), told.get(name, -1)) for name, value in row.items() if value is not None})
    opened: dict[str, Sink] = {}
    for name in names_of(names):
        try:
            kind, colon, option = name.partition(":")
            sink = opened[name] = KINDS[kind](_package(kind), curve, *([port_of(option)] if colon else []))
            if isinstance(sink, Exporter):
                say(sink.told)
        except UserError:
            Sinks(opened, {}, say).close()
            raise
        except Exception as error:  # code of another package: no login, no network, a locked database
            Sinks(opened, {}, say).close()
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise UserError(f"--log {name}: the tracker does not start ({reason}); fix this fault, or leave {name} out") from error
    return Sinks(opened, told, say)


def plain(config: Any) -> dict[str, Any]:
    """Returns a stored plan as a flat mapping from dotted names to values, for tables of runs."""
    flat: dict[str, Any] = {}

    def walk(node: Any, path: str) -> None:
        node = node.get("map", node) if isinstance(node, Mapping) else node
        if isinstance(node, Mapping):
            for name, value in node.items():
                walk(value, f"{path}.{name}".lstrip("."))
        else:
            flat[path] = node if isinstance(node, (bool, int, float, str)) or node is None else json.dumps(node)

    walk(config, "")
    return flat


@contextmanager
def _offline(unless: str | None) -> Iterator[None]:
    """Makes the client of the Hugging Face hub work offline, unless the environment names a server.

    Otherwise trackio would ask the hub for the logged-in user.
    """
    constants: Any = importlib.import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not unless
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
