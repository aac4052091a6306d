"""A link to a real child process: answers, waits, deaths."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from gradus.systems.link import Closed, framed
from gradus.systems.process_link import ProcessLink, Wire

pytestmark = pytest.mark.alone


def test_a_message_may_come_in_pieces_and_later_than_the_wait():
    ours, theirs = socket.socketpair()
    wire, data = Wire(ours), framed({"a": 1}, {"x": torch.arange(300_000)})
    with pytest.raises(TimeoutError, match=r"within 0\.01 seconds"):
        wire.receive(0.01)
    theirs.sendall(data[:1000])
    with pytest.raises(TimeoutError):
        wire.receive(0.01)
    sending = threading.Thread(target=theirs.sendall, args=(data[1000:] + framed({"b": 2}),))
    sending.start()
    document, arrays = wire.receive()
    assert (document, arrays["x"].tolist()[-1]) == ({"a": 1}, 299_999)
    assert wire.receive(5) == ({"b": 2}, {})
    sending.join()
    theirs.close()
    with pytest.raises(Closed, match="has closed its socket"):
        wire.receive()
    with pytest.raises(Closed):
        wire.send({"c": 3})


def test_a_child_process_answers_until_it_is_killed():
    link = ProcessLink("tasks")
    try:
        link.send({"do": "dance"})
        document, _ = link.receive(120)
        assert document == {
            "error": "TaskWorker has no answer to the message dance; both processes must run the same version of Gradus", "kind": "user"
        }  # fmt: skip
        assert link.alive
        assert os.getpgid(link.process.pid) != os.getpgid(0)  # keys of the terminal do not reach it
        os.kill(link.process.pid, signal.SIGINT)  # nor does a signal to all
        link.send({"do": "dance"})
        assert "error" in link.receive(120)[0]
        os.kill(link.process.pid, signal.SIGKILL)
        with pytest.raises(Closed):
            link.receive(120)
        assert link.ending == "was killed by SIGKILL"  # waits until the system has noted the end
        assert not link.alive
    finally:
        link.close()


def test_a_wait_in_another_thread_ends_when_the_link_is_closed():
    link, found = ProcessLink("tasks"), []

    def wait() -> None:
        try:
            link.receive()
        except Closed as error:
            found.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    time.sleep(0.1)
    link.close()
    waiting.join(20)
    assert len(found) == 1
    assert link.process.returncode is not None


ORPHAN = """
import os, time
from gradus.systems.process_link import ProcessLink
link = ProcessLink("tasks")
link.send({"do": "dance"})
link.receive()
print(link.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_child_process_ends_with_its_parent():
    done = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True, timeout=120)
    child = int(done.stdout)
    deadline = time.monotonic() + 30
    while running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(child)


def running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
