"""The process of one worker: its roles, and the end of its socket."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import pytest

from gradus.systems.process_link import Wire
from gradus.systems.serve import serve, worker_of
from gradus.systems.task_worker import TaskWorker
from gradus.systems.worker import Worker
from gradus.types import UserError


def test_a_role_has_its_worker():
    assert isinstance(worker_of("players"), Worker)
    assert isinstance(worker_of("tasks"), TaskWorker)
    with pytest.raises(UserError, match="tasks"):
        worker_of("task")


def test_a_worker_answers_in_order_and_stops_when_its_socket_closes():
    ours, theirs = socket.socketpair()
    serving = threading.Thread(target=serve, args=(Wire(theirs), TaskWorker()), daemon=True)
    serving.start()
    wire = Wire(ours)
    for verb in ("one", "two"):
        wire.send({"do": verb})
    assert [wire.receive(20)[0]["error"].split()[7].strip(";") for _ in range(2)] == ["one", "two"]
    ours.close()
    serving.join(20)
    assert not serving.is_alive()


def test_a_process_without_networks_loads_no_torch():
    code = "import gradus.systems.serve as s, sys; s.worker_of('tasks'); print([m for m in ('torch', 'transformers', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
