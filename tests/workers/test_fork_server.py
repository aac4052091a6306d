"""The nursery as a process: orders in, news out, nothing left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.workers.processes import needs_proc, sleeping, until

pytestmark = pytest.mark.alone

NAP = 1_000_000 + os.getpid()  # seconds: by them what this process has started is told from what others have


@pytest.fixture
def nursery(tmp_path):
    """A nursery, and what starts a worker in it with a function of the given body."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-m", "gradus.workers.fork_server", str(theirs.fileno())], pass_fds=[theirs.fileno()])
    theirs.close()

    def start(number, body):
        path = tmp_path / f"mine{number}.py"
        path.write_text(body)
        job = {
            "kind": "reward function",
            "spec": f"{path}:f",
            "options": {},
            "memory": 0,
            "folder": str(tmp_path),
            "environment": dict(os.environ),
        }
        pipes = [os.pipe() for _ in range(3)]
        socket.send_fds(ours, [json.dumps({"start": number, **job}).encode() + b"\n"], [pipes[0][0], pipes[1][1], pipes[2][1]])
        for inner in (pipes[0][0], pipes[1][1], pipes[2][1]):
            os.close(inner)
        return pipes[0][1], pipes[1][0], pipes[2][0]

    ours.settimeout(60)
    yield process, ours, start
    ours.close()
    process.wait(timeout=60)


def test_workers_start_and_how_they_end_is_told(nursery):
    _, control, start = nursery
    for number, (body, code) in enumerate([("import os; os._exit(5)", 5), ("import os; os.abort()", -6), ("f = 3", 0)], start=1):
        _, answers, _ = start(number, body)
        assert json.loads(control.recv(4096)) == {"ended": number, "code": code}
        os.set_blocking(answers, False)
        assert (os.read(answers, 4096) == b"") == (number < 3)  # the last has said that it is no function


def test_an_order_that_comes_in_pieces_and_one_for_nobody(nursery):
    _, control, start = nursery
    start(1, "def f(completions): pass")
    control.sendall(b'{"kill": 99}\n{"ki')
    time.sleep(0.1)
    control.sendall(b'll": 1}\n')
    assert json.loads(control.recv(4096)) == {"ended": 1, "code": -signal.SIGKILL}


def test_a_worker_whose_pipes_break_harms_no_other(nursery):
    _, control, start = nursery
    asked, answers, _ = start(1, "def f(completions):\n    return [1.0]\n")
    assert os.read(answers, 4096).startswith(b'{"required"')
    loud = start(2, "import os, time\nos.write(1, b'x')\ntime.sleep(0.2)\nwhile True:\n    os.write(1, b'x')\n")
    assert os.read(loud[2], 1) == b"x"
    for pipe in loud:
        os.close(pipe)
    assert json.loads(control.recv(4096)) == {"ended": 2, "code": 1}
    os.write(asked, b'7 {"completions": [""], "trainer_state": {}}\n')
    assert os.read(answers, 4096) == b'7 {"outcomes": [1.0]}\n'


@needs_proc
def test_it_ends_with_its_socket_and_leaves_nothing_that_it_started(nursery):
    process, control, start = nursery
    daemon = f"import os\nif os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', ['sleep', '{NAP}'])\ndef f(completions): pass\n"
    _, answers, _ = start(1, daemon)
    assert os.read(answers, 4096).startswith(b'{"required"')
    assert until(lambda: sleeping(NAP))
    control.close()
    assert process.wait(timeout=60) == 0
    assert until(lambda: not sleeping(NAP))
