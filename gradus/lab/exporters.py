"""Trackers for the monitoring of machines: Prometheus reads the numbers of a run over HTTP, and OpenTelemetry sends them to a collector.

Both trackers give the numbers of the last step and the present state of the run: `POINTS` lists their names. Only this machine can reach the HTTP
server for Prometheus. A Prometheus on another machine needs a tunnel, such as `ssh -L`. OpenTelemetry sends to http://localhost:4318. Environment variables
of the SDK change the address (OTEL_EXPORTER_OTLP_ENDPOINT), the headers (OTEL_EXPORTER_OTLP_HEADERS) and the interval (OTEL_METRIC_EXPORT_INTERVAL).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from gradus.types import UserError

HOST = "127.0.0.1"
PORT = 9464  # the port that OpenTelemetry's Prometheus exporter uses, too
State = Mapping[str, Any]


@dataclass(frozen=True)
class Point:
    """A number of a run with labels. `total`: whether the number only grows. If so, Prometheus can compute a rate."""

    name: str
    about: str
    total: bool
    values: Callable[[State], Iterable[tuple[dict[str, str], float]]]


def _seconds(state: State) -> Iterator[tuple[dict[str, str], float]]:
    for worker, found in state["workers"].items():
        yield from (({"worker": worker, "activity": name}, value) for name, value in found["seconds"].items())


POINTS = (
    Point("step", "The present step.", False, lambda state: [({}, state["step"])]),
    Point("steps", "The planned number of steps.", False, lambda state: [({}, state["steps"])]),
    Point("worker_seconds", "Seconds of each worker by activity.", True, _seconds),
    Point("tokens", "Tokens by activity.", True, lambda state: [({"activity": name}, count) for name, count in state["tokens"].items()]),
    Point("groups", "Trained groups by the age of their weights in steps.", True, lambda state: [({"age": age}, n) for age, n in state["ages"].items()]),
    Point("queue", "Groups in the queue of the system.", False, lambda state: [({"state": name}, n) for name, n in (state["queue"] or {}).items()]),
    Point("memory_bytes", "Memory of the process.", False, lambda state: [({"kind": kind}, size) for kind, size in state["memory"].items()]),
)
"""The numbers of a run's state. A metric of the last step is the point `metric` with the label `metric`."""
METRIC = ("metric", "The last value of each metric, by its name in metrics.jsonl.")


def port_of(text: str) -> int:
    """Reads the number of a port. Raises UserError for another text."""
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise UserError(f'the port of prometheus is "{text}"; give a number from 0 to 65535 (0: any free port), as in --log prometheus:{PORT}')
    return int(text)


class Exporter:
    """A sink that also shows the present state of the run."""

    rewinds = True  # only the last value of a metric is shown, so no earlier value can be wrong
    told = ""  # a sentence for the user: the place of the numbers

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.live: Callable[[], State] | None = None

    def follow(self, live: Callable[[], State]) -> None:
        """From now on, the state comes from `live`."""
        self.live = live

    def rewind(self, step: int) -> None:
        """Does nothing, because no earlier value is kept."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.metrics = {**self.metrics, **values}

    def close(self) -> None:
        """Ends the export."""


class Prometheus(Exporter):
    """Shows the numbers at http://127.0.0.1:PORT/metrics in the format of Prometheus. Every number has the label `run`. `port` 0: any free port."""

    def __init__(self, package: ModuleType, curve: Any, port: int = PORT) -> None:
        super().__init__()
        self._run, self._families = curve.name, importlib.import_module("prometheus_client.core")
        registry: Any = package.CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = package.start_http_server(port, addr=HOST, registry=registry)
        except OSError as error:
            raise UserError(f"--log prometheus:{port}: the port cannot be used ({error.strerror}); give another port, or 0 for any free port") from error
        self.told = f"metrics for Prometheus: http://{HOST}:{self._server.server_port}/metrics"

    def collect(self) -> Iterator[Any]:
        """Yields the families of numbers. The server calls this method at each request."""
        name, about = METRIC
        metrics = self._families.GaugeMetricFamily(f"gradus_{name}", about, labels=["run", "metric"])
        for metric, value in dict(self.metrics).items():
            metrics.add_metric([self._run, metric], value)
        yield metrics
        if self.live is None:
            return
        state = self.live()
        for point in POINTS:
            found = list(point.values(state))
            kind = self._families.CounterMetricFamily if point.total else self._families.GaugeMetricFamily
            family = kind(f"gradus_{point.name}", point.about, labels=["run", *(found[0][0] if found else ())])
            for labels, value in found:
                family.add_metric([self._run, *labels.values()], value)
            yield family

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class OpenTelemetry(Exporter):
    """Sends the numbers to a collector by OTLP over HTTP, in the interval of the SDK, and at the end. The run is an attribute of the resource."""

    def __init__(self, package: ModuleType, curve: Any) -> None:
        super().__init__()
        sdk, export, resources, self._api = (
            importlib.import_module(f"opentelemetry.{name}") for name in ("sdk.metrics", "sdk.metrics.export", "sdk.resources", "metrics")
        )
        exporter = package.OTLPMetricExporter()
        resource = resources.Resource.create({"service.name": "gradus", "gradus.run": curve.name, **({"gradus.id": curve.id} if curve.id else {})})
        self._provider = sdk.MeterProvider([export.PeriodicExportingMetricReader(exporter)], resource=resource)
        meter = self._provider.get_meter("gradus")
        meter.create_observable_gauge(f"gradus.{METRIC[0]}", [self._metrics], description=METRIC[1])
        for point in POINTS:
            make = meter.create_observable_counter if point.total else meter.create_observable_gauge
            make(f"gradus.{point.name}", [self._of(point)], description=point.about)
        self.told = f"metrics for OpenTelemetry go to {getattr(exporter, '_endpoint', 'a collector')}"

    def _metrics(self, _: Any) -> list[Any]:
        return [self._api.Observation(value, {"metric": name}) for name, value in dict(self.metrics).items()]

    def _of(self, point: Point) -> Callable[[Any], list[Any]]:
        def observed(_: Any) -> list[Any]:
            return [] if self.live is None else [self._api.Observation(value, labels) for labels, value in point.values(self.live())]

        return observed

    def close(self) -> None:
        self._provider.shutdown()
