"""Runs the command line in forks of a process with all imports done, so that each starts at once and can be killed.

    with Forked() as forked:
        process = forked.start(["train", "grpo", "--run", "runs/a"], log)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()  # -9

Every process leads its own process group and runs on one thread.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

IMPORTED = (
    "gradus.cli.main", "gradus.api", "gradus.cli.completion", "gradus.lab.live", "gradus.lab.report", "gradus.players.build", "gradus.policies.lm",
    "gradus.policies.engine", "gradus.policies.flow", "gradus.study.held_out", "gradus.systems.leader", "gradus.testing.tasks",
    "gradus.updates.minibatches", "jinja2.sandbox", "pyarrow.compute", "pyarrow.parquet", "safetensors.torch", "tokenizers", "torch.optim",
    "torch._dynamo",  # the first optimiser of a process imports it, for longer than a run of a few steps takes
)  # fmt: skip
OPTIONAL = ("pandas",)  # pyarrow imports it with its first array, where it is installed


class Process:
    """A started process; `wait` returns its exit code, below 0 for the signal that ended it."""

    def __init__(self, pid: int, forked: Forked) -> None:
        self.pid, self._forked = pid, forked
        self._code: int | None = None

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code; None if the process still runs after `seconds`."""
        if self._code is None and self._forked.readable(seconds):
            self._code = int(self._forked.read()["code"])
        return self._code

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the process and to all processes of its group."""
        if self._code is None:
            os.killpg(self.pid, number)


class Forked:
    """The parent of the forked processes. One child runs at a time."""

    def __init__(self, prepare: str = "") -> None:
        """`prepare`: MODULE:FUNCTION, called once before the first fork."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, "-m", "benchmarks.forked", prepare]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment, cwd=Path(__file__).parents[1]
        )
        self.read()

    def start(self, words: Sequence[str], log: Path, call: str = "") -> Process:
        """Starts `gradus WORDS`, or MODULE:FUNCTION with the words; its output goes to the file `log`."""
        assert self._process.stdin is not None
        self._process.stdin.write((json.dumps({"words": list(words), "log": str(log), "call": call}) + "\n").encode())
        return Process(int(self.read()["pid"]), self)

    def readable(self, seconds: float | None) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def read(self) -> dict[str, int]:
        """The next message of the process."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the parent of the forked processes ended with {self._process.wait()}")
        return dict(json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _serve(prepare: str) -> None:
    for name in (*IMPORTED, *filter(importlib.util.find_spec, OPTIONAL)):
        importlib.import_module(name)
    if prepare:
        _function(prepare)()
    _send({"ready": 1})
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            sys.exit(_child(asked["words"], asked["log"], asked["call"]))
        _send({"pid": pid})
        _, status = os.waitpid(pid, 0)
        _send({"code": os.waitstatus_to_exitcode(status)})


def _child(words: list[str], log: str, call: str) -> int:
    """Runs the command with its own input and output. Returns the exit code."""
    os.setsid()
    output, nothing = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.open(os.devnull, os.O_RDONLY)
    for stream, file in enumerate((nothing, output, output)):
        os.dup2(file, stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell, or nohup, passes on an ignored SIGINT
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    sys.argv = ["gradus", *words]
    return int(_function(call or "gradus.cli.main:main")(*words if call else (words,)) or 0)


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _send(message: dict[str, int]) -> None:
    os.write(1, (json.dumps(message) + "\n").encode())


if __name__ == "__main__":
    _serve(sys.argv[1] if len(sys.argv) > 1 else "")
