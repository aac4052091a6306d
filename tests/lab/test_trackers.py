"""Curves in other places: every number at its step, none twice after a resume, and nothing that they do stops a run."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gradus
from gradus.lab.bad import given_up, keep_abandoned
from gradus.lab.trackers import Curve, Sinks, TensorBoard, names_of, open_sinks, plain
from gradus.types import UserError
from tests.small_model import save_small_model

SMALL = {
    "setting__prompts": 1,
    "setting__group": 2,
    "setting__max_tokens": 3,
    "setting__save_every": 2,
    "setting__eval_every": 2,
    "study__problems": 1,
}


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows: name -> (step, value)."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    found.Reload()
    return {name: [(e.step, e.value) for e in found.Scalars(name)] for name in found.Tags()["scalars"]}


def expected(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The same from metrics.jsonl."""
    shown: dict[str, list[tuple[int, float]]] = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        for name, value in row.items():
            if name != "step" and value is not None:
                shown.setdefault(name, []).append((row["step"], pytest.approx(value, rel=1e-6)))  # event files hold float32
    return shown


class Package(ModuleType):
    """What wandb and trackio offer, as far as it is used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.runs: list[Package.Run] = []

    class Run:
        def __init__(self, how: dict[str, Any]) -> None:
            self.how, self.logged, self.finished = how, [], 0
            self.fails_at: int | None = None

        def log(self, values: dict[str, float], step: int) -> None:
            if step == self.fails_at:
                raise ConnectionError("no route\nto host")
            self.logged.append((step, values))

        def finish(self) -> None:
            self.finished += 1

    def init(self, **how: Any) -> Run:
        self.runs.append(Package.Run(how))
        return self.runs[-1]


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Package:
    package = Package("wandb")
    monkeypatch.setitem(sys.modules, "wandb", package)
    return package


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_small_model(tmp_path_factory.mktemp("sinks") / "model"))


def test_names_are_checked_before_anything_runs(monkeypatch, wandb):
    assert names_of("tensorboard, wandb,tensorboard") == ("tensorboard", "wandb")
    assert names_of(None) == names_of("none") == names_of(()) == ()
    for nothing in (",", "", " , "):
        with pytest.raises(UserError, match=r"names no tracker; give one or more of tensorboard, trackio, wandb, prometheus, opentelemetry, or .none."):
            names_of(nothing)
    with pytest.raises(UserError, match=r'unknown tracker "wandbb" \(did you mean wandb\?\)'):
        names_of("wandbb")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"--log wandb needs the package wandb, which is not installed; install it with: pip install wandb"):
        names_of(["wandb"])


def test_numbers_that_are_finite_go_to_every_sink_at_their_step(tmp_path, wandb):
    row = {"step": 3, "reward": 0.5, "count": 2, "kl": None, "bad": math.nan, "worse": math.inf, "name": "x", "sure": True}
    sinks = open_sinks(("tensorboard", "wandb"), Curve("mine", tmp_path), pytest.fail)
    sinks.row(row)
    sinks.row({"step": 4, "kl": None})
    sinks.close()
    assert wandb.runs[0].logged == [(3, {"reward": 0.5, "count": 2.0, "sure": 1.0})]
    assert wandb.runs[0].finished == 1
    assert curves(tmp_path) == {"reward": [(3, 0.5)], "count": [(3, 2.0)], "sure": [(3, 1.0)]}


def test_each_is_told_whose_run_it_is(tmp_path, wandb, monkeypatch):
    trackio = Package("trackio")
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    curve = Curve("mine", tmp_path, id="0badcafe", config={"a": 1}, resumed=True)
    open_sinks(("wandb", "trackio"), curve, pytest.fail)
    assert wandb.runs[0].how == {
        **{"project": "gradus", "name": "mine", "id": "0badcafe", "config": {"a": 1}, "resume": "allow", "dir": str(tmp_path)}
    }
    assert trackio.runs[0].how == {"project": "gradus", "name": "mine-0badcafe", "config": {"a": 1}, "resume": "allow"}


def test_what_fails_on_the_way_is_told_once_and_ends_nothing(tmp_path, wandb):
    said: list[str] = []
    sinks = open_sinks(("wandb", "tensorboard"), Curve("mine", tmp_path), said.append)
    wandb.runs[0].fails_at = 1
    for step in range(4):
        sinks.row({"step": step, "reward": float(step)})
    sinks.close()
    assert said == ["wandb gets no more metrics (no route to host); the run continues, and metrics.jsonl has all metrics"]
    assert [step for step, _ in wandb.runs[0].logged] == [0]
    assert curves(tmp_path) == {"reward": [(s, float(s)) for s in range(4)]}


def test_what_does_not_start_is_an_error_and_closes_the_others(tmp_path, wandb, monkeypatch):
    class Locked(Package):
        def init(self, **how: Any) -> Any:
            raise RuntimeError("api_key not configured")

    monkeypatch.setitem(sys.modules, "trackio", Locked("trackio"))
    with pytest.raises(UserError, match=r"--log trackio: the tracker does not start \(api_key not configured\)"):
        open_sinks(("wandb", "trackio"), Curve("mine", tmp_path), pytest.fail)
    assert wandb.runs[0].finished == 1
    with pytest.raises(UserError, match=r"TensorBoard writes its files into the folder of the run, but this run has no folder; name a folder with --run"):
        open_sinks(("tensorboard",), Curve("mine"), pytest.fail)


def test_what_was_told_before_is_not_told_again_where_nothing_is_forgotten(tmp_path, wandb):
    before = [{"step": 4, "reward": 0.1}, {"step": 5, "reward": 0.2, "kl": None}, {"step": 6, "held_out/accuracy": 0.5}]
    sinks = open_sinks(("wandb",), Curve("mine", tmp_path, first=4, resumed=True), pytest.fail, before)
    for step in range(4, 8):
        sinks.row({"step": step, "reward": 0.1, "kl": 0.0, "held_out/accuracy": 0.5})
    assert wandb.runs[0].logged == [
        (4, {"kl": 0.0}),
        (5, {"kl": 0.0}),
        (6, {"reward": 0.1, "kl": 0.0}),  # only the evaluation of step 6 had been there: the run was to end before it
        (7, {"reward": 0.1, "kl": 0.0, "held_out/accuracy": 0.5}),
    ]


def test_a_sink_that_rewinds_is_told_all(tmp_path):
    first = open_sinks(("tensorboard",), Curve("mine", tmp_path), pytest.fail)
    for step in range(6):
        first.row({"step": step, "reward": 0.5})
    del first  # killed: nothing is closed
    assert TensorBoard.rewinds
    again = open_sinks(("tensorboard",), Curve("mine", tmp_path, first=3, resumed=True), pytest.fail, [{"step": 5, "reward": 0.5}])
    for step in range(3, 7):
        again.row({"step": step, "reward": 0.25})
    again.close()
    assert curves(tmp_path) == {"reward": [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.25), (4, 0.25), (5, 0.25), (6, 0.25)]}


def test_a_run_that_goes_back_shows_in_each_what_it_can(tmp_path, wandb):
    said = []
    sinks = open_sinks(("tensorboard", "wandb"), Curve("mine", tmp_path), said.append)
    for step in range(6):
        sinks.row({"step": step, "reward": 0.5})
    sinks.back(3)
    for step in range(3, 8):
        sinks.row({"step": step, "reward": 0.25})
    sinks.close()
    assert curves(tmp_path) == {"reward": [(step, 0.5) for step in range(3)] + [(step, 0.25) for step in range(3, 8)]}
    assert wandb.runs[0].logged == [(step, {"reward": 0.5}) for step in range(6)] + [(step, {"reward": 0.25}) for step in (6, 7)]
    assert said == ["wandb keeps the values of the abandoned steps 3 to 5; metrics.jsonl has the valid values"]


def test_steps_that_were_given_up_were_told_too(tmp_path, model, wandb):
    words = {"model": str(model), "task": "arithmetic", "log": "wandb", **SMALL}
    gradus.train("grpo", steps=3, run=tmp_path / "run", **words)
    keep_abandoned(tmp_path / "run", 1, {"metrics": [{"step": 4, "reward": 0.0}, {"step": 5, "reward": 0.0}]})
    assert [row["step"] for row in given_up(tmp_path / "run")] == [4, 5]
    gradus.resume(tmp_path / "run", more=7)
    assert [step for step, values in wandb.runs[1].logged if "reward" in values] == [6]
    (tmp_path / "run" / "bad" / "restart-2.json").write_text("{")
    assert len(given_up(tmp_path / "run")) == 2


def test_a_run_shows_all_its_metrics_and_goes_on_without_a_step_twice(tmp_path, model, wandb):
    folder = tmp_path / "run"

    def stop(run: Any, row: Any, groups: Any) -> None:
        if row["step"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gradus.train("rloo", "arithmetic", model=model, steps=5, run=folder, log="tensorboard,wandb", on_step=stop, **SMALL)
    assert wandb.runs[0].finished == 1
    gradus.resume(folder)  # from step 2 on: 2 and 3 are done again
    assert curves(folder) == expected(folder)
    gradus.resume(folder, more=6)  # step 5, till now an evaluation alone, is a whole step
    assert curves(folder) == expected(folder)
    told = [(step, name) for run in wandb.runs for step, values in run.logged for name in values]
    assert len(told) == len(set(told))
    kept = {(step, name) for name, points in expected(folder).items() for step, _ in points}
    assert kept < set(told)
    assert all(step == 5 and ("held_out" in name or name == "tokens/evaluate") for step, name in set(told) - kept)  # it cannot forget
    ids = {run.how["id"] for run in wandb.runs}
    assert len(ids) == 1
    assert None not in ids
    assert json.loads((folder / "recipe.json").read_text())["log"] == ["tensorboard", "wandb"]
    gradus.resume(folder, more=7, log="none")
    assert len(wandb.runs) == 3
    assert "log" not in json.loads((folder / "recipe.json").read_text())


def test_a_run_without_folder_has_no_identity(model, wandb):
    gradus.train("rloo", "arithmetic", model=model, steps=1, log=["wandb"], **SMALL)
    assert wandb.runs[0].how["id"] is None
    assert wandb.runs[0].how["name"] == "rloo on arithmetic"
    assert wandb.runs[0].how["config"]["recipe.setting.steps"] == 1


def test_a_sink_that_does_not_start_leaves_no_folder(tmp_path, model, monkeypatch):
    class Locked(Package):
        def init(self, **how: Any) -> Any:
            raise RuntimeError("api_key not configured")

    monkeypatch.setitem(sys.modules, "wandb", Locked("wandb"))
    with pytest.raises(UserError, match="api_key not configured"):
        gradus.train("rloo", "arithmetic", model=model, steps=1, run=tmp_path / "run", log="wandb", **SMALL)
    assert not (tmp_path / "run").exists()


def test_a_plan_is_one_level_of_names():
    assert plain({"a": 1, "b": {"map": {"c": [1, 2], "d": None}}, "e": {"part": "x:Y", "f": 0.5}}) == {
        **{"a": 1, "b.c": "[1, 2]", "b.d": None, "e.part": "x:Y", "e.f": 0.5}
    }


def test_no_sink_is_no_sink():
    sinks = Sinks({}, {}, pytest.fail)
    sinks.row({"step": 0, "reward": 1.0})
    sinks.close()


OFFLINE = """
import json, socket, sys
asked = []
def refuse(*address, **_):
    asked.append(repr(address))
    raise OSError("no network here")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from gradus.lab.trackers import Curve, open_sinks
said = []
for first, rows, before in ((0, range(4), []), (2, range(2, 6), [{"step": s, "reward": 1} for s in range(4)])):
    sinks = open_sinks(["trackio"], Curve("mine", None, "0badcafe", {"a": 1}, first, bool(before)), said.append, before)
    for step in rows:
        sinks.row({"step": step, "reward": step / 2})
    sinks.close()
from trackio.sqlite_storage import SQLiteStorage
runs = SQLiteStorage.get_runs("gradus")
logs = SQLiteStorage.get_logs("gradus", runs[0])
import huggingface_hub
print("FOUND", json.dumps([runs, [(l["step"], l["reward"]) for l in logs], asked, said, huggingface_hub.is_offline_mode()]))
"""


@pytest.mark.skipif(find_spec("trackio") is None, reason="trackio is not installed")
def test_trackio_keeps_one_curve_on_this_machine_and_asks_nobody(tmp_path):
    """In a process of its own: the package looks for its folder when it is imported. With a token, for it would then ask whose it is."""
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_TOKEN": "hf_none", "HF_HOME": str(tmp_path)}
    environment = {k: v for k, v in environment.items() if k not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    done = subprocess.run([sys.executable, "-c", OFFLINE], capture_output=True, text=True, env=environment, check=False)
    line = next((x for x in done.stdout.splitlines() if x.startswith("FOUND")), None)
    assert line is not None, done.stderr
    runs, logged, asked, said, offline = json.loads(line.removeprefix("FOUND "))
    assert runs == ["mine-0badcafe"]
    assert logged == [[step, step / 2] for step in range(6)]
    assert asked == said == []
    assert offline is False
