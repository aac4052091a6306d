import os
import select

import pytest

from gradus.workers.process import ForkServer, Job, ending
from tests.workers.processes import gone, needs_proc, running

pytestmark = pytest.mark.alone


@pytest.fixture
def nursery():
    nursery = ForkServer()
    yield nursery
    nursery.close()


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import os\ndef f(completions):\n    return [float(os.environ.get('NUMBER', 0))]\n")
    return Job(f"{path}:f")


def line_of(worker):
    """The next line that a worker writes."""
    while True:
        select.select([worker.answers], [], [], 20)
        for line in worker.lines():
            return line


def told(nursery):
    """What the nursery tells next."""
    assert select.select([nursery.control], [], [], 20)[0]
    return nursery.heard()


def test_a_worker_has_the_folder_and_the_environment_of_who_starts_it(nursery, job, monkeypatch, tmp_path):
    assert job.name == "f"
    monkeypatch.setenv("NUMBER", "7")
    worker = nursery.start(job, 0)
    assert line_of(worker) == b'{"required": [], "taken": ["completions"]}'
    worker.unsent += b'0 {"completions": [""], "trainer_state": {}}\n'
    worker.push()
    assert line_of(worker) == b'0 {"outcomes": [7.0]}'
    os.close(worker.requests)  # its sign to end
    assert told(nursery) == [{"ended": 1, "code": 0}]


@needs_proc
def test_a_worker_that_is_killed_is_told_of_and_close_leaves_none(nursery, job):
    first, second = nursery.start(job, 0), nursery.start(job, 0)
    for worker in (first, second):
        line_of(worker)
    assert len(running(lambda stat: stat[1] == str(nursery.process.pid))) == 2
    nursery.kill(first)
    assert told(nursery) == [{"ended": 1, "code": -9}]
    with pytest.raises(EOFError):
        list(first.lines())
    left = running(lambda stat: stat[1] == str(nursery.process.pid))
    nursery.close()
    assert gone(lambda stat: stat[0] in left)
    with pytest.raises(EOFError):
        nursery.heard()


def test_an_ending_in_words():
    assert [ending(code) for code in (0, 3, -9, -250)] == [
        "ended with exit code 0",
        "ended with exit code 3",
        "was killed by SIGKILL",
        "was killed by signal 250",
    ]
