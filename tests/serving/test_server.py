"""The end of a server: open requests get an error, and the address is free again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gradus.serving.runner import STOPPING
from gradus.serving.server import address, listening
from gradus.types import UserError
from tests.serving.conftest import Address, eventually, running


def asked(url: str, body: dict[str, Any]) -> Callable[[], httpx.Response]:
    """Sends a request in a thread. Returns a function that waits for the answer."""
    found: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: found.append(httpx.post(f"{url}/completions", json=body, timeout=60)))
    thread.start()

    def result() -> httpx.Response:
        thread.join(60)
        return found[0]

    return result


def test_open_requests_end_with_an_error(of_bytes: Address) -> None:
    long = {"prompt": "a", "max_tokens": 200, "stop": "never there", "seed": 0}
    with running(of_bytes.model, "slow", rows=2) as slow:
        runner = slow.server.config.app.app.served.runner
        plain = runner.batch.step
        runner.batch.step = lambda: (time.sleep(0.05), plain())[1]
        waiting = [asked(slow.url, {**long, **more}) for more in ({"stream": True}, {"n": 3, "stream": True}, {})]
        eventually(lambda: len(runner.open) == 5 and bool(runner.open[0].tokens))
    stream, several, whole = (wait() for wait in waiting)
    for found in (stream, several):
        assert found.status_code == 200
        assert STOPPING in found.text.strip().splitlines()[-1]
        assert "[DONE]" not in found.text
    assert (whole.status_code, whole.json()["error"]["message"]) == (503, STOPPING)
    assert not runner.thread.is_alive()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{slow.url}/models")


def test_addresses_of_this_machine() -> None:
    for host in ("127.0.0.1", "localhost", "127.0.0.2"):
        with listening(host, 0) as opened:
            assert address(opened).startswith(f"http://{host.replace('localhost', '127.0.0.1')}:")
    with pytest.raises(UserError, match="ssh -L 8000:127"):
        listening("192.168.0.1", 8000)
