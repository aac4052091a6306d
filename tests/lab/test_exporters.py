"""The numbers of a run as Prometheus and a collector of OpenTelemetry get them: over HTTP, by the packages themselves."""

from __future__ import annotations

import argparse
import gzip
import http.server
import json
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse
from prometheus_client.parser import text_string_to_metric_families

import gradus
from gradus.cli.main import main
from gradus.cli.parser import trackers_of
from gradus.lab.exporters import POINTS, port_of
from gradus.lab.trackers import Curve, Sinks, names_of, open_sinks
from gradus.types import UserError
from tests.lab.test_top import STATE
from tests.small_model import save_small_model

SMALL = {"setting__prompts": 1, "setting__group": 2, "setting__max_tokens": 3, "setting__eval_every": 2, "study__problems": 1}
Numbers = dict[tuple[Any, ...], float]


def scraped(address: str) -> Numbers:
    """The numbers at an address: (name, sorted labels) -> value."""
    with urllib.request.urlopen(address, timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {(sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples}


def address_of(said: list[str]) -> str:
    return said[0].removeprefix("metrics for Prometheus: ")


@pytest.fixture
def opened() -> Iterator[tuple[Sinks, str]]:
    said: list[str] = []
    sinks = open_sinks(("prometheus:0",), Curve("mine"), said.append)
    yield sinks, address_of(said)
    sinks.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_small_model(tmp_path_factory.mktemp("exporters") / "model"))


def test_prometheus_reads_the_last_value_of_each_metric(opened):
    sinks, address = opened
    assert scraped(address) == {}
    sinks.row({"step": 0, "reward": 0.25, "held_out/accuracy": 0.5, "kl": None, "stage": "one"})
    sinks.row({"step": 1, "reward": 0.75})
    assert scraped(address) == {
        ("gradus_metric", ("metric", "reward"), ("run", "mine")): 0.75,
        ("gradus_metric", ("metric", "held_out/accuracy"), ("run", "mine")): 0.5,
    }


def test_prometheus_reads_the_present_state(opened):
    sinks, address = opened
    sinks.follow(lambda: STATE)
    found = scraped(address)
    mine = ("run", "mine")
    assert found["gradus_step", mine] == 5
    assert found["gradus_worker_seconds_total", ("activity", "waits for groups"), mine, ("worker", "trainer")] == 60.0
    assert found["gradus_tokens_total", ("activity", "sampling"), mine] == 20_000
    assert found["gradus_groups_total", ("age", "10"), mine] == 4
    assert found["gradus_queue", mine, ("state", "finished")] == 1200
    assert found["gradus_memory_bytes", ("kind", "peak"), mine] == 3e9
    seconds = sum(len(worker["seconds"]) for worker in STATE["workers"].values())
    assert len(found) == 2 + seconds + len(STATE["tokens"]) + len(STATE["ages"]) + len(STATE["queue"]) + len(STATE["memory"])
    sinks.follow(lambda: {**STATE, "step": 6, "queue": None, "ages": {}})
    after = scraped(address)
    assert after["gradus_step", mine] == 6
    assert not [name for name, *_ in after if name in ("gradus_queue", "gradus_groups_total")]


def test_the_server_has_an_address_of_this_machine_alone(opened):
    _, address = opened
    assert address.startswith("http://127.0.0.1:")
    port = int(address.rpartition(":")[2].partition("/")[0])
    others = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for other in [*others, "127.0.0.2"]:
        with pytest.raises(OSError, match=r"refused|unreachable|timed out"), socket.create_connection((other, port), timeout=2):
            pass


def test_a_closed_server_gives_its_port_back():
    said: list[str] = []
    sinks = open_sinks(("prometheus:0",), Curve("mine"), said.append)
    address = address_of(said)
    sinks.close()
    with pytest.raises(urllib.error.URLError):
        scraped(address)
    port = address.rpartition(":")[2].partition("/")[0]
    open_sinks((f"prometheus:{port}",), Curve("mine"), said.append).close()
    assert said[1] == said[0]


def test_a_port_in_use_is_told(opened):
    port = opened[1].rpartition(":")[2].partition("/")[0]
    with pytest.raises(UserError, match=rf"--log prometheus:{port}: the port cannot be used .*; give another port, or 0"):
        open_sinks((f"prometheus:{port}",), Curve("mine"), pytest.fail)


def test_ports_and_names():
    assert port_of("0") == 0
    assert names_of("prometheus,opentelemetry,prometheus:9") == ("prometheus", "opentelemetry", "prometheus:9")
    for text in ("", "x", "-1", "65536", "1.5", "²"):
        with pytest.raises(UserError, match="give a number from 0 to 65535"):
            names_of(f"prometheus:{text}")
    with pytest.raises(UserError, match="opentelemetry takes no option"):
        names_of("opentelemetry:4318")
    with pytest.raises(UserError, match=r'unknown tracker "prometeus" \(did you mean prometheus\?\)'):
        names_of("prometeus:1")


@pytest.mark.parametrize(("name", "package"), [("prometheus", "prometheus-client"), ("opentelemetry", "opentelemetry-exporter-otlp-proto-http")])
def test_a_missing_package_is_named(monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(UserError, match=f"install it with: pip install {package}"):
        names_of(name)


def test_a_run_can_be_scraped_while_it_trains(model, tmp_path, capsys):
    seen: list[Numbers] = []
    told: list[str] = []

    def scrape(run: Any, row: Any, groups: Any) -> None:
        told.extend(line for line in capsys.readouterr().err.splitlines() if "Prometheus" in line)
        seen.append(scraped(address_of(told)))

    gradus.train("grpo", "arithmetic", model=model, steps=2, run=tmp_path / "run", log="prometheus:0", on_step=scrape, **SMALL)
    mine = ("run", "run")
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [found["gradus_metric", ("metric", "reward"), mine] for found in seen] == [rows[0]["reward"], rows[1]["reward"]]
    assert [found["gradus_step", mine] for found in seen] == [0, 1]
    assert seen[1]["gradus_tokens_total", ("activity", "sampling"), mine] == rows[0]["tokens/rollout"] + rows[1]["tokens/rollout"]


class Collector(http.server.BaseHTTPRequestHandler):
    """A collector that keeps the requests."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        self.server.got.append((self.path, ExportMetricsServiceRequest.FromString(body)))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(ExportMetricsServiceResponse().SerializeToString())

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
    server.got = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield server.got  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


def points(request: Any) -> dict[str, dict[tuple[Any, ...], float]]:
    """The numbers of a request: name -> labels -> value."""
    found: dict[str, dict[tuple[Any, ...], float]] = {}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        data = metric.gauge if metric.HasField("gauge") else metric.sum
        for point in data.data_points:
            labels = tuple(sorted((a.key, a.value.string_value) for a in point.attributes))
            found.setdefault(metric.name, {})[labels] = point.as_double if point.HasField("as_double") else point.as_int
    return found


def test_a_collector_gets_the_numbers_at_the_end_at_least(collector):
    said: list[str] = []
    sinks = open_sinks(("opentelemetry",), Curve("mine", id="0badcafe"), said.append)
    sinks.follow(lambda: STATE)
    sinks.row({"step": 0, "reward": 0.25})
    sinks.row({"step": 1, "reward": 0.75})
    sinks.close()
    [(path, request)] = collector
    assert path == "/v1/metrics"
    assert said[0].endswith("/v1/metrics")
    about = {a.key: a.value.string_value for a in request.resource_metrics[0].resource.attributes}
    assert (about["service.name"], about["gradus.run"], about["gradus.id"]) == ("gradus", "mine", "0badcafe")
    found = points(request)
    assert found["gradus.metric"] == {(("metric", "reward"),): 0.75}
    assert found["gradus.step"] == {(): 5}
    assert found["gradus.worker_seconds"][("activity", "sampling"), ("worker", "worker-1")] == 70.0
    assert found["gradus.queue"][(("state", "dropped"),)] == 1
    assert set(found) == {"gradus.metric", *(f"gradus.{point.name}" for point in POINTS)}
    totals = {m.name: m.WhichOneof("data") for m in request.resource_metrics[0].scope_metrics[0].metrics}
    assert {name for name, kind in totals.items() if kind == "sum"} == {f"gradus.{point.name}" for point in POINTS if point.total}


def test_the_option_of_the_command_line(model, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fields = ["--prompts", "1", "--group", "2", "--max_tokens", "3", "--study.problems", "1"]
    assert main(["train", "grpo", "--model", model, "--steps", "1", "--run", "run", "--metrics_port", "0", *fields]) == 0
    assert "metrics for Prometheus: http://127.0.0.1:" in capsys.readouterr().out
    assert json.loads(Path("run/recipe.json").read_text())["log"] == ["prometheus:0"]
    assert main(["train", "grpo", "--model", model, "--metrics_port", "many", *fields]) == 2
    assert 'the port of prometheus is "many"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("log", "port", "planned", "expected"),
    [
        (None, None, ["wandb"], None),
        ("none", None, [], "none"),
        (None, "9", [], "prometheus:9"),
        ("tensorboard", "9", [], "tensorboard,prometheus:9"),
        ("none", "9", ["wandb"], "prometheus:9"),
        (None, "9", ["wandb", "prometheus:7"], "wandb,prometheus:9"),
    ],
)
def test_the_trackers_of_a_command(log, port, planned, expected):
    assert trackers_of(argparse.Namespace(log=log, metrics_port=port), planned) == expected
