"""A client of servers with OpenAI's chat interface. The client repeats failed calls. It limits the number of open calls, and the time and the size of a
reply.

The client has its own thread with an event loop, so its connections stay open between the steps of a run. The key is only in the header of a request. The
client never follows a redirection, because the other address would then get the key.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from gradus.types import Failed, FailureKind, Key, UserError

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

MOST_BYTES = 1 << 20  # of one reply
OPEN = 8  # largest number of open calls, as a multiple of the calls at a time; the other open calls wait for their next attempt
MOST_WAIT = 60.0  # longest wait in seconds, even if the server asks for a longer one
AGAIN = frozenset({408, 409, 425, 429})  # after these statuses, and after any status from 500 on, another attempt may succeed


@dataclass(frozen=True)
class Calls:
    """The limits of the calls to one server."""

    together: int = 32  # calls at a time
    timeout: float = 60.0  # seconds of one attempt
    retries: int = 5  # further attempts after a fault
    first_wait: float = 0.5  # seconds before the second attempt; the wait doubles after each further fault, up to a minute


@dataclass(frozen=True)
class Reply:
    """A whole reply. `likely`: for each token of the text, the log-probabilities of the likely tokens; empty if the request did not ask for them."""

    text: str
    prompt_tokens: int = 0
    reply_tokens: int = 0
    likely: tuple[Mapping[str, float], ...] = ()

    def stored(self) -> dict[str, Any]:
        return {**asdict(self), "likely": [dict(row) for row in self.likely]}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Reply:
        return cls(stored["text"], stored["prompt_tokens"], stored["reply_tokens"], tuple(stored["likely"]))


@dataclass(frozen=True)
class Fault:
    """An attempt without a reply. `final`: whether a further attempt would have the same result. `wait`: the seconds that the server asks for."""

    reason: str
    kind: FailureKind = FailureKind.DIED
    final: bool = False
    wait: float | None = None


class Room:
    """A limit on calls at a time. A repeated attempt goes before first attempts in the queue, so its call does not wait for a long list of other calls."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._first: deque[asyncio.Future[None]] = deque()
        self._again: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def place(self, *, again: bool) -> AsyncIterator[None]:
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (self._again if again else self._first).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._leave()
                raise
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        """Lets the next waiting call start."""
        for waiting in (self._again, self._first):
            while waiting:
                turn = waiting.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1


class ChatClient:
    """The client of one server. Any thread may call the methods of the client."""

    def __init__(self, url: str, key: str | None = None, calls: Calls = Calls()) -> None:
        self.url, self.calls, self._key = checked(url, key), calls, key
        self.model: str | None = None  # the name of the only model, if it was asked for
        self._loop = asyncio.new_event_loop()
        self._http: httpx.AsyncClient | None = None
        self._room = Room(calls.together)
        threading.Thread(target=self._loop.run_forever, daemon=True, name="chat client").start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs a coroutine in the client's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def ask(self, body: Mapping[str, Any], name: str) -> Reply | Failed:
        """Sends a request until a reply arrives, at most 1 + `retries` times. Runs in the client's thread.

        `name` determines the random part of the waits. Raises UserError if the server refuses all requests, for example because the key, the address or the
        model is wrong.
        """
        content = json.dumps(body).encode()
        attempt = 0
        while True:
            async with self._room.place(again=attempt > 0):
                found = await self._attempt(content, str(body["model"]))
            if isinstance(found, Reply):
                return found
            if found.final or attempt == self.calls.retries:
                tries = "" if attempt == 0 else f", after {attempt + 1} attempts"
                return Failed(f"the judge at {self.url}: {found.reason}{tries}", found.kind)
            await asyncio.sleep(pause(self.calls.first_wait, attempt, found.wait, name))
            attempt += 1

    async def models(self) -> list[str] | None:
        """Returns the names of the server's models; None if the server has no list. Raises UserError if the server does not answer, or refuses the key."""
        import httpx

        try:
            async with asyncio.timeout(self.calls.timeout):
                found = await self._client().get(f"{self.url}/models")
        except (httpx.HTTPError, TimeoutError) as error:
            raise UserError(f"no judge answers at {self.url} ({type(error).__name__}); start its server, or correct the address") from None
        if found.status_code in (401, 403):
            raise self._refused(found.status_code, "")
        try:
            return [str(model["id"]) for model in found.json()["data"]] if found.status_code == 200 else None
        except (ValueError, KeyError, TypeError):
            return None

    async def _attempt(self, content: bytes, model: str) -> Reply | Fault:
        import httpx

        try:
            async with asyncio.timeout(self.calls.timeout), self._client().stream("POST", f"{self.url}/chat/completions", content=content) as response:
                body = bytearray()
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MOST_BYTES:
                        return Fault(f"a reply of more than {MOST_BYTES} bytes", FailureKind.INVALID)
        except TimeoutError:
            return Fault(f"no reply within {self.calls.timeout:g} s", FailureKind.TIMEOUT)
        except (httpx.HTTPError, httpx.StreamError) as error:
            return Fault(f"the connection broke ({type(error).__name__})")
        return self._outcome(response.status_code, response.headers, bytes(body), model)

    def _outcome(self, status: int, headers: Mapping[str, str], body: bytes, model: str) -> Reply | Fault:
        if status == 200:
            return reply_of(body, model)
        if status in (401, 403, 404) or 300 <= status < 400:
            raise self._refused(status, model)
        again = status in AGAIN or status >= 500
        return Fault(f"status {status}", FailureKind.DIED if again else FailureKind.INVALID, not again, seconds(headers.get("retry-after")))

    def _refused(self, status: int, model: str) -> UserError:
        remedy = {
            401: "put the key of the server into the environment variable that `key_env` names",
            403: "put a key with the right to use this model into the environment variable that `key_env` names",
            404: f'correct the address, or the name of the model ("{model}")',
        }.get(status, "give the address to which it redirects, because redirections are not followed")
        return UserError(f"the judge at {self.url} refuses requests with status {status}; {remedy}")

    def _client(self) -> httpx.AsyncClient:
        """Makes the HTTP client at its first use, in the client's thread."""
        if self._http is None:
            import httpx

            headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            near = loopback(urlsplit(self.url).hostname or "")
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=self.calls.together)
            self._http = httpx.AsyncClient(headers=headers, limits=limits, timeout=None, follow_redirects=False, trust_env=not near)
        return self._http


def reply_of(body: bytes, model: str) -> Reply | Fault:
    """Reads the body of a reply. Returns a fault if the reply is from another model, or if its text is missing or was cut off."""
    try:
        found = json.loads(body)
        said = found["model"]
        choices = found["choices"]
        if not (isinstance(said, str) and said.startswith(model)):
            return Fault(f"a reply of the model {str(said)[:80]!r} in place of {model!r}", FailureKind.INVALID)
        if not choices:
            return Fault("a reply without choices", FailureKind.INVALID)
        choice = choices[0]
        text = choice["message"]["content"]
        if not isinstance(text, str) or not text.strip():
            return Fault("a reply without text", FailureKind.INVALID)
        if choice.get("finish_reason") == "length":
            return Fault("a reply that was cut at max_tokens; raise max_tokens", FailureKind.INVALID)
        usage = found.get("usage") or {}
        return Reply(text, int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0), likely_of(choice))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return Fault("a reply that is not in OpenAI's form", FailureKind.INVALID)


def likely_of(choice: Mapping[str, Any]) -> tuple[Mapping[str, float], ...]:
    """Returns for each token of a choice the log-probabilities of the sampled token and of the other likely tokens."""
    rows = ((choice.get("logprobs") or {}).get("content")) or ()
    return tuple({str(e["token"]): float(e["logprob"]) for e in (*row.get("top_logprobs", ()), row)} for row in rows)


def checked(url: str, key: str | None) -> str:
    """Returns the address without a slash at its end.

    Raises UserError if the address does not use HTTP, contains a name or a key, or would send a key unencrypted over the network.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"the address of the judge is {url}; write the address of a server with OpenAI's interface, such as http://127.0.0.1:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UserError("the address of the judge contains a name, a key or a query; leave it out, and put the key into the environment variable of `key_env`")
    if key and parts.scheme == "http" and not loopback(parts.hostname):
        raise UserError(f"the key would go to {parts.hostname} without encryption; use an address with https, or remove the key from the environment")
    return url.rstrip("/")


def loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def pause(first: float, attempt: int, wanted: float | None, name: str) -> float:
    """Returns the number of seconds before the next attempt: first * 2^attempt * f, but at least `wanted`. The factor f is between 0.5 and 1, and depends on
    the name.
    """
    factor = 0.5 + 0.5 * float(Key(0).fold("pause", name, attempt).uniform())
    return min(max(first * 2**attempt * factor, wanted or 0.0), MOST_WAIT)


def seconds(text: str | None) -> float | None:
    """Reads the header Retry-After in seconds. A date is ignored.

    >>> seconds("2"), seconds("Wed, 21 Oct 2026 07:28:00 GMT"), seconds(None)
    (2.0, None, None)
    """
    try:
        found = float(text) if text is not None else None
    except ValueError:
        return None
    return found if found is not None and math.isfinite(found) and found >= 0 else None


_CLIENTS: dict[tuple[Any, ...], ChatClient] = {}


def client_of(url: str, key: str | None, calls: Calls) -> ChatClient:
    """Returns the client of this process for the address, the key and the limits."""
    name = (url, key, calls)
    if name not in _CLIENTS:
        _CLIENTS[name] = ChatClient(url, key, calls)
    return _CLIENTS[name]


async def replies(
    client: ChatClient, asked: Sequence[tuple[str, Mapping[str, Any]]], arrived: Callable[[str, Reply], None]
) -> dict[str, Reply | Failed]:
    """Sends all requests, given by name, and calls `arrived` for each reply as soon as it comes. Runs in the client's thread.

    A call starts only if fewer than `OPEN` times `together` calls are open, because thousands of tasks would delay the event loop and the replies.
    If the server refuses all requests, the other calls are cancelled, and the UserError is raised.
    """
    found: dict[str, Reply | Failed] = {}
    room = asyncio.Semaphore(OPEN * client.calls.together)

    async def one(name: str, body: Mapping[str, Any]) -> None:
        try:
            found[name] = reply = await client.ask(body, name)
            if isinstance(reply, Reply):
                arrived(name, reply)
        finally:
            room.release()

    try:
        async with asyncio.TaskGroup() as group:
            for name, body in asked:
                await room.acquire()
                group.create_task(one(name, body))
    except* UserError as refused:
        raise refused.exceptions[0] from None
    return found
