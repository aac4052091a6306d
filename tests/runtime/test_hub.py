"""The hub that answers, is silent or is switched off, and the commands that bring its models and data sets here."""

from __future__ import annotations

import importlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from gradus.runtime import hub

constants = importlib.import_module("huggingface_hub.constants")


class Refusing(BaseHTTPRequestHandler):
    """Answers every request with 403, as a hub that is there."""

    def do_HEAD(self) -> None:
        self.send_response(403)
        self.end_headers()

    def log_message(self, *about: object) -> None:
        return


@pytest.fixture
def served() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def test_a_hub_that_refuses_is_there(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", served)
    assert hub.answers()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert not hub.answers()
    assert hub.silence() == "HF_HUB_OFFLINE switches the Hugging Face Hub off"


def test_no_network_is_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
    assert not hub.answers()
    assert hub.silence() == "the Hugging Face Hub does not answer"


def test_a_look_up_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(importlib.import_module("huggingface_hub"), "get_session", lambda: ended.wait(60))
    assert not hub.answers(0.01)
    ended.set()


def test_offline_holds_inside_alone() -> None:
    configs = [constants, importlib.import_module("datasets.config")]
    before = [config.HF_HUB_OFFLINE for config in configs]

    def fail() -> None:
        with hub.offline():
            assert [config.HF_HUB_OFFLINE for config in configs] == [True, True]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [config.HF_HUB_OFFLINE for config in configs] == before


@pytest.mark.parametrize(
    ("name", "arguments", "target"),
    [("openai/gsm8k/main", "'openai/gsm8k', 'main'", "gsm8k"), ("openai/gsm8k", "'openai/gsm8k'", "gsm8k"), ("squad", "'squad'", "squad")],
)
def test_the_command_for_a_data_set(name: str, arguments: str, target: str) -> None:
    command, _, option = hub.data_set(name).partition(", then give ")
    assert command == f"python -c \"from datasets import load_dataset; load_dataset({arguments}).save_to_disk('{target}')\""
    assert option == f"--task ./{target}"


def test_the_command_for_a_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert hub.model("Qwen/Qwen2.5-0.5B") == "fetch it first: hf download Qwen/Qwen2.5-0.5B --local-dir Qwen2.5-0.5B, then give Qwen2.5-0.5B in place of the name"
    assert hub.model("gpt2") == "fetch it first: hf download gpt2 --local-dir gpt2, then start again"
    assert [hub.model(path) for path in ("/a/b", "../b", "a/b/c", "runs/", "~/b", ".")] == [None] * 6
    copies = [tmp_path / "models--Qwen--Qwen2.5-0.5B" / "snapshots" / name for name in ("old", "new")]
    for folder in copies:
        folder.mkdir(parents=True)
    (copies[1] / "config.json").write_text("{}")
    assert hub.model("Qwen/Qwen2.5-0.5B") == f"the hub's cache contains a copy: give {copies[1]} in place of the name"
    assert str(hub.no_folder("gone/")) == 'there is no folder "gone/"; give the folder of a model, or of a run (the one named with --run)'
