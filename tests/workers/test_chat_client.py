"""The client of chat servers: every fault, retries, limits, refusals, and the key that goes nowhere else."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from benchmarks.judge_http import FAULTS, Server, body_of, verdict
from gradus.types import Failed, FailureKind, UserError
from gradus.workers.chat_client import Calls, ChatClient, Fault, Reply, checked, likely_of, pause, replies, reply_of, seconds

FAST = Calls(together=4, timeout=0.5, retries=2, first_wait=0.001)


def started(server: Server) -> str:
    """Starts a server in a thread of this process and returns its address."""
    ready, port = threading.Event(), []
    threading.Thread(target=lambda: asyncio.run(server.serve(lambda p: (port.append(p), ready.set()))), daemon=True).start()
    ready.wait(10)
    return f"http://127.0.0.1:{port[0]}/v1"


def asked(client: ChatClient, *questions: str):
    bodies = [(q, {"model": "judge-1", "messages": [{"role": "user", "content": q}]}) for q in questions]
    came: list[str] = []
    found = client.start(replies(client, bodies, lambda name, reply: came.append(name))).result(30)
    assert sorted(came) == sorted(q for q in questions if isinstance(found[q], Reply))
    return [found[q] for q in questions]


@pytest.mark.parametrize("kind", [*FAULTS, "status 503", "status 408"])
def test_a_fault_is_followed_by_another_attempt(kind: str) -> None:
    server = Server(fault=lambda question, attempt: kind if attempt == 1 else None)
    (reply,) = asked(ChatClient(started(server), calls=FAST), "a")
    assert reply == Reply(verdict("a"), 40, 2)
    assert server.seen["a"] == 2


def test_a_call_that_always_faults_has_failed() -> None:
    server = Server(fault=lambda question, attempt: "status 500" if question == "a" else "slow" if question == "b" else None)
    client = ChatClient(started(server), calls=FAST)
    bad, slow, good = asked(client, "a", "b", "c")
    assert bad == Failed(f"the judge at {client.url}: status 500, after 3 attempts", FailureKind.DIED)
    assert slow == Failed(f"the judge at {client.url}: no reply within 0.5 s, after 3 attempts", FailureKind.TIMEOUT)
    assert isinstance(good, Reply)
    assert dict(server.seen) == {"a": 3, "b": 3, "c": 1}


@pytest.mark.parametrize(("kind", "told"), [("drip", "no reply within"), ("huge", "more than 1048576 bytes")])
def test_a_reply_has_limits(kind: str, told: str) -> None:
    (found,) = asked(ChatClient(started(Server(fault=lambda q, n: kind)), calls=Calls(1, 0.3, 0, 0.001)), "a")
    assert isinstance(found, Failed)
    assert told in found.reason


def test_a_bad_request_is_not_sent_again() -> None:
    server = Server(fault=lambda question, attempt: "status 400")
    (found,) = asked(ChatClient(started(server), calls=FAST), "a")
    assert isinstance(found, Failed)
    assert found.reason.endswith("status 400")
    assert server.seen["a"] == 1


@pytest.mark.parametrize(("status", "told"), [(401, "environment variable"), (403, "right to use"), (404, "judge-1"), (307, "not followed")])
def test_a_refusal_of_all_requests_stops_the_run(status: int, told: str) -> None:
    server = Server(fault=lambda question, attempt: f"status {status}")
    with pytest.raises(UserError, match=told):
        asked(ChatClient(started(server), calls=FAST), *"abcdefgh")
    assert sum(server.seen.values()) <= 4


def test_calls_at_a_time_are_limited() -> None:
    server = Server(fault=lambda question, attempt: None, rate=400)
    asked(ChatClient(started(server), calls=FAST), *map(str, range(40)))
    assert server.most == 4


def test_the_key_goes_to_the_server_alone_and_is_not_shown() -> None:
    server = Server(fault=lambda question, attempt: "status 500")
    client = ChatClient(started(server), "secret-key", FAST)
    (found,) = asked(client, "a")
    assert server.headers[-1]["authorization"] == "Bearer secret-key"
    assert "secret" not in repr(found) + repr(client)
    plain = Server(fault=lambda question, attempt: None)
    asked(ChatClient(started(plain), calls=FAST), "a")
    assert "authorization" not in plain.headers[-1]


@pytest.mark.parametrize(
    ("url", "key", "told"),
    [
        ("127.0.0.1:8000", None, "OpenAI's interface"),
        ("ftp://host/v1", None, "OpenAI's interface"),
        ("https://me:word@host/v1", None, "contains a name"),
        ("https://host/v1?key=1", None, "contains a name"),
        ("http://host/v1", "secret", "without encryption"),
    ],
)
def test_addresses_that_are_refused(url: str, key: str | None, told: str) -> None:
    with pytest.raises(UserError, match=told) as error:
        checked(url, key)
    assert "secret" not in str(error.value)
    assert "word" not in str(error.value)


def test_addresses_that_are_accepted() -> None:
    assert checked("http://127.0.0.1:8000/v1/", "key") == "http://127.0.0.1:8000/v1"
    assert checked("http://[::1]:8000/v1", "key") == "http://[::1]:8000/v1"
    assert checked("http://host/v1", None) == "http://host/v1"


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"model": 1, "choices": [1]}', b'{"model": "m", "choices": [{"message": null}]}', b"[" * 100_000, b"\xff\xfe", b'{"model": "m"}'],
)
def test_bodies_that_are_no_reply(body: bytes) -> None:
    assert isinstance(reply_of(body, "m"), Fault)


def test_a_longer_name_of_the_model_is_the_model() -> None:
    assert reply_of(body_of("yes", "judge-1-2026-01-01"), "judge-1") == Reply("yes", 40, 2)
    assert reply_of(json.dumps({"model": "m", "choices": [{"message": {"content": "no"}}]}).encode(), "m") == Reply("no")


def test_probabilities_of_tokens() -> None:
    row = {"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "yes", "logprob": -0.1}, {"token": "no", "logprob": -2.5}]}
    assert likely_of({"logprobs": {"content": [row]}}) == ({"yes": -0.1, "no": -2.5},)
    assert likely_of({"logprobs": None}) == likely_of({}) == ()
    assert Reply.read(json.loads(json.dumps(Reply("a", 1, 2, ({"a": -1.0},)).stored()))) == Reply("a", 1, 2, ({"a": -1.0},))


def test_waits_double_and_are_bounded() -> None:
    assert all(0.5 * 2**n <= pause(1.0, n, None, "a") <= 2**n for n in range(5))
    assert pause(1.0, 0, None, "a") == pause(1.0, 0, None, "a") != pause(1.0, 0, None, "b")
    assert pause(0.1, 0, 7.0, "a") == 7.0
    assert pause(1.0, 20, None, "a") == pause(0.1, 0, 9999.0, "a") == 60.0
    assert [seconds(t) for t in ("1.5", "nan", "-1", "x", None)] == [1.5, None, None, None, None]


def test_the_models_of_a_server() -> None:
    client = ChatClient(started(Server(models=("a", "b"))), calls=FAST)
    assert client.start(client.models()).result(10) == ["a", "b"]
    nobody = ChatClient("http://127.0.0.1:9/v1", calls=FAST)
    with pytest.raises(UserError, match="no judge answers at"):
        nobody.start(nobody.models()).result(10)
