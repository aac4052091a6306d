"""Requests of other machines, other pages and other keys, and bodies that are too large."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import openai
import pytest

from gradus.serving.guard import MOST_BYTES, loopback
from tests.serving.conftest import Address, running


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "::1", "[::1]"])
def test_these_are_this_machine(host: str) -> None:
    assert loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.com", "localhost.example.com", "127.0.0.1.example.com", "192.168.0.1", "", "1"])
def test_these_are_not(host: str) -> None:
    assert not loopback(host)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]:8000"}, 200),
        ({"Host": "evil.example:8000"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_only_this_machine_is_answered(served: Address, headers: dict[str, str], status: int) -> None:
    found = httpx.get(f"{served.url}/models", headers=headers)
    assert found.status_code == status
    assert not [name for name in found.headers if name.startswith("access-control")]
    if status == 403:
        assert "names another machine" in found.json()["error"]["message"]


@pytest.fixture(scope="module")
def locked(of_bytes: Address) -> Iterator[Address]:
    with running(of_bytes.model, "locked", api_key="sesame") as address:
        yield address


def test_a_key_is_asked_for(locked: Address) -> None:
    for key in ("wrong", "sesam", "sesame2"):
        with pytest.raises(openai.AuthenticationError, match="the API key is missing or wrong"):
            openai.OpenAI(base_url=locked.url, api_key=key, max_retries=0).models.list()
    assert httpx.get(f"{locked.url}/models", headers={"Authorization": "sesame"}).status_code == 200
    assert httpx.get(f"{locked.url}/models").status_code == 401
    assert httpx.get(f"{locked.root}/health").status_code == 200
    assert openai.OpenAI(base_url=locked.url, api_key="sesame").models.list().data[0].id == "locked"


def parts(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b" " * (1 << 20)


@pytest.mark.parametrize("body", [b" " * (MOST_BYTES + 1), "chunks"])
def test_a_large_body_is_refused(served: Address, body: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(served.root.rpartition(":")[2]))
    chunked = {"headers": {"Transfer-Encoding": "chunked"}, "encode_chunked": True} if body == "chunks" else {}
    with suppress(BrokenPipeError, ConnectionResetError):  # the server answers before it has read all
        connection.request("POST", "/v1/completions", parts(9) if chunked else body, **chunked)
    answer = connection.getresponse()
    assert answer.status == 413
    assert b"send at most 8388608 bytes" in answer.read()
