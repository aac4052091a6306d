import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradus.rewards.process import Lost, Worker, stop_workers, worker_of
from gradus.types import NOT_APPLICABLE, Failed, UserError

CODE = """
import os, sys, time

def reward(completions, gold=1, *, topic=None):
    match completions[0]:
        case "spin":
            while True: pass
        case "fork": os.system("sleep 60")
        case "garbage":
            for fd in range(3, 20):
                try: os.write(fd, b"garbage\\n")
                except OSError: pass
            time.sleep(60)
    return [float(len(c)) if c else None for c in completions]

def needs(completions, gold): pass
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("process") / "mine.py"
    path.write_text(CODE)
    yield str(path)
    stop_workers()


def ask(worker, *completions, timeout=10.0):
    try:
        return worker.ask({"completions": completions, "trainer_state": {}}, timeout)
    except Lost as error:
        return [Failed(str(error))] * len(completions)


def test_questions_and_answers(file):
    worker = worker_of(f"{file}:reward")
    assert worker.required() == []
    assert worker_of(f"{file}:needs").required() == ["gold"]
    assert ask(worker, "abc", "") == [3.0, NOT_APPLICABLE]


def test_one_function_has_one_worker_however_it_is_named(file, monkeypatch):
    monkeypatch.chdir(Path(file).parent)
    assert worker_of("mine.py:reward") is worker_of(f"{file}:reward") is not worker_of(f"{file}:needs")


def test_what_is_no_answer_ends_the_worker(file):
    worker = worker_of(f"{file}:reward")
    assert ask(worker, "garbage", "x") == [Failed("sent what is no answer")] * 2
    assert ask(worker, "ab") == [2.0]


def test_a_function_that_cannot_be_loaded_again_fails_its_calls(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def f(completions):\n    return [1.0] * len(completions)\n")
    worker = Worker(f"{path}:f")
    assert ask(worker, "a") == [1.0]
    worker.stop()
    path.unlink()
    (failed,) = ask(worker, "a")
    assert "there is no file" in failed.reason
    with pytest.raises(UserError, match="there is no file"):
        worker.required()


def running(chosen):
    """The processes that have not ended, of those whose (id, parent, group) are `chosen`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, group = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it ended meanwhile
            continue
        if state != "Z" and chosen((path.parent.name, parent, group)):
            found.append(path.parent.name)
    return found


def gone(chosen):
    """Whether they all end within ten seconds: a killed process takes a moment."""
    for _ in range(200):
        if not running(chosen):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_killed_worker_leaves_no_process(file):
    worker = worker_of(f"{file}:reward")
    worker.required()
    process = worker._process.pid
    assert running(lambda stat: stat[2] == str(process)) == [str(process)]
    assert ask(worker, "fork", timeout=0.5) == [Failed("did not answer within 0.5 seconds")]
    assert gone(lambda stat: stat[2] == str(process))  # neither the worker nor the `sleep` that it started


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_worker_ends_with_its_parent(file, tmp_path):
    code = (
        "import sys, threading, time\nfrom gradus.rewards.process import Lost, worker_of\n"
        "worker = worker_of(sys.argv[1])\nworker.required()\nprint(worker._process.pid, flush=True)\n"
        "threading.Thread(target=worker.ask, args=({'completions': ['spin'], 'trainer_state': {}}, 60.0), daemon=True).start()\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, f"{file}:reward"], stdout=subprocess.PIPE)
    pid = int(parent.stdout.readline())
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(lambda stat: stat[0] == str(pid))
