"""A judge behind HTTP that misbehaves: 10,000 calls, of which a tenth of the attempts end in a fault of ten kinds.

    python -m benchmarks.judge_http                     # prints
    python -m benchmarks.judge_http --calls 1000 --rate 200

The server runs in its own process and answers at most `--rate` requests per second, so this rate is its limit. Each attempt is faulty with a chance of 0.1; a
hash decides about the kind. Two calls in a thousand are faulty at every attempt. The client is killed (SIGKILL) after a third of the calls, started again,
and started a third time after the end. Three counts must be 0: wrong verdicts, calls that were sent again although their reply was stored, and requests of the
third start. Calls that are faulty at the end wait for their next attempt while nothing else is left to ask, so two rates are given, in shares of the limit:
`throughput` counts the requests of the second start until 90 % of them were finished, and `throughput with the end` counts all.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FAULTS = ("slow", "status 429", "status 500", "cut body", "no JSON", "other model", "no choices", "closed", "no text", "cut text")
SHARE = 0.1  # of the attempts that are faulty
LOST = 0.002  # of the calls that are faulty at every attempt
TIMEOUT = 2.0  # of the client, in seconds


def draw(*what: object) -> float:
    """A number in [0, 1) from a hash."""
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:6], "big") / 2**48


def verdict(question: str) -> str:
    """The true verdict."""
    return "yes" if draw("verdict", question) < 0.5 else "no"


def fault_of(question: str, attempt: int) -> str | None:
    """The fault of an attempt, or None."""
    if draw("lost", question) < LOST or draw("faulty", question, attempt) < SHARE:
        return FAULTS[int(draw("kind", question, attempt) * len(FAULTS))]
    return None


def body_of(text: str, model: str = "judge-1", finish: str = "stop", **more: Any) -> bytes:
    """A reply in OpenAI's form."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish, **more}
    return json.dumps({"model": model, "choices": [choice], "usage": {"prompt_tokens": 40, "completion_tokens": 2}}).encode()


@dataclass
class Server:
    """A small HTTP server. `fault` names the fault of an attempt; `rate` is the largest number of requests per second (0: no limit)."""

    fault: Callable[[str, int], str | None] = fault_of
    rate: float = 0.0
    models: tuple[str, ...] = ("judge-1",)
    answer: Callable[[str], bytes] = lambda question: body_of(verdict(question))
    seen: Counter[str] = field(default_factory=Counter)  # requests by question
    given: Counter[str] = field(default_factory=Counter)  # whole replies by question
    kinds: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)  # when a request was finished
    headers: list[dict[str, str]] = field(default_factory=list)  # of the last requests
    at_once: int = 0
    most: int = 0
    _next: float = 0.0

    async def serve(self, ready: Callable[[int], None]) -> None:
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        ready(server.sockets[0].getsockname()[1])
        async with server:
            await server.serve_forever()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
                content = await reader.readexactly(int(headers.get("content-length", 0)))
                self.headers = [*self.headers[-9:], headers]
                self.at_once += 1
                self.most = max(self.most, self.at_once)
                try:
                    if not await self._respond(head[0].split(" ")[1], content, reader, writer):
                        break
                finally:
                    self.at_once -= 1
        writer.close()

    async def _respond(self, path: str, content: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers a request. Returns whether the connection stays open."""
        if path.endswith("/counts"):
            return self._send(writer, json.dumps(self.counts()).encode())
        if path.endswith("/times"):
            return self._send(writer, json.dumps(self.times).encode())
        if path.endswith("/models"):
            return self._send(writer, json.dumps({"data": [{"id": name} for name in self.models]}).encode())
        question = json.loads(content)["messages"][-1]["content"]
        self.seen[question] += 1
        if self.rate:
            self._next = max(self._next, time.monotonic()) + 1 / self.rate
            await asyncio.sleep(self._next - time.monotonic())
        self.times.append(time.monotonic())
        kind = self.fault(question, self.seen[question])
        if kind is None:
            self.given[question] += not reader.at_eof()  # a client that was killed gets nothing
            return self._send(writer, self.answer(question))
        self.kinds[kind] += 1
        return await self._fail(kind, question, writer)

    async def _fail(self, kind: str, question: str, writer: asyncio.StreamWriter) -> bool:
        good = self.answer(question)
        match kind:
            case "slow":
                await asyncio.sleep(TIMEOUT * 1.5)
                return self._send(writer, good)
            case "cut body":
                self._head(writer, 200, len(good))
                writer.write(good[: len(good) // 2])
                await writer.drain()
                return False
            case "no JSON":
                return self._send(writer, good[:-9])
            case "other model":
                return self._send(writer, body_of(verdict(question), "another"))
            case "no choices":
                return self._send(writer, json.dumps({"model": "judge-1", "choices": []}).encode())
            case "closed":
                return False
            case "no text":
                return self._send(writer, body_of(""))
            case "cut text":
                return self._send(writer, body_of("yes and no", finish="length"))
            case "huge":
                return self._send(writer, body_of("yes " * 400_000))
            case "drip":
                self._head(writer, 200, 10**6)
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.05)
        status = int(kind.removeprefix("status "))
        extra = {"Retry-After": "0.2"} if status == 429 else {"Location": "http://127.0.0.1:1/"} if status == 307 else {}
        return self._send(writer, b'{"error": {"message": "no"}}', status, extra)

    def _send(self, writer: asyncio.StreamWriter, body: bytes, status: int = 200, extra: dict[str, str] | None = None) -> bool:
        self._head(writer, status, len(body), extra or {})
        writer.write(body)
        return True

    def _head(self, writer: asyncio.StreamWriter, status: int, length: int, extra: dict[str, str] | None = None) -> None:
        lines = {"Content-Type": "application/json", "Content-Length": str(length), **(extra or {})}
        writer.write("\r\n".join([f"HTTP/1.1 {status} X", *(f"{k}: {v}" for k, v in lines.items()), "", ""]).encode())

    def counts(self) -> dict[str, Any]:
        given = {f"{times} times": sum(n == times for n in self.given.values()) for times in sorted({*self.given.values()} - {0})}
        return {"requests": sum(self.seen.values()), "given": given, "faults": dict(self.kinds), "most": self.most}


def quiet_world() -> SimpleNamespace:
    """The operations of a world that a judge calls."""
    return SimpleNamespace(
        call=str, fact=lambda name: None, decide=lambda name, reason: None, waiting=lambda *a: nullcontext(), note=lambda *a: None, count=lambda *a: None
    )


def ask(url: str, store: str, calls: int, together: int) -> dict[str, Any]:
    """Asks the judge about all calls. Returns the number of right, wrong and failed verdicts, and the seconds."""
    from gradus.rewards.server_judge import ServerJudge
    from gradus.rewards.verdicts import Case, YesNo
    from gradus.types import Failed, Problem

    judge = ServerJudge(url, model="judge-1", together=together, timeout=TIMEOUT, store=store)
    form = YesNo(template="{answer}")
    cases = [Case(str(i), Problem("p", "p", text="?"), (f"answer {i}",)) for i in range(calls)]
    began = time.monotonic()
    found = asyncio.run(judge.decide(form, cases, quiet_world()))
    true = [(float(verdict(c.answers[0]) == "yes"),) for c in cases]
    kinds = Counter("failed" if isinstance(v, Failed) else "right" if v == t else "wrong" for v, t in zip(found, true, strict=True))
    lost = sum(draw("lost", c.answers[0]) < LOST for c in cases)
    return {**{k: kinds[k] for k in ("right", "wrong", "failed")}, "lost": lost, "seconds": time.monotonic() - began, "began": began}


def _serve(rate: float, pipe: Any) -> None:
    asyncio.run(Server(rate=rate).serve(pipe.send))


def counts_of(url: str, what: str = "counts") -> Any:
    import httpx

    return httpx.get(f"{url}/{what}", trust_env=False).json()


def measure(calls: int, rate: float, together: int, folder: Path) -> dict[str, Any]:
    """Starts the server and the client three times."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(rate, there), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{here.recv()}/v1"
    store = str(folder / "replies.sqlite")
    command = [sys.executable, "-m", "benchmarks.judge_http", "--client", url, "--store", store, "--calls", str(calls), "--together", str(together)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while counts_of(url)["requests"] < calls / 3:
        time.sleep(0.5)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    time.sleep(TIMEOUT)
    from gradus.workers.reply_store import ReplyStore

    stored, before = len(ReplyStore(Path(store))), counts_of(url)
    second = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    after, times = counts_of(url), [t - second["began"] for t in counts_of(url, "times") if t > second["began"]]
    third = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    final = counts_of(url)
    process.terminate()
    most = int(0.9 * len(times))
    in_flight = sum(n * (int(k.split()[0])) for k, n in before["given"].items()) - stored
    twice = sum(n for k, n in final["given"].items() if k != "1 times")
    return {
        "calls": calls, "limit": rate, "together": final["most"], **{k: second[k] for k in ("right", "wrong", "failed", "lost")},
        "faults": final["faults"], "stored at the kill": stored, "given but not stored at the kill": in_flight, "given twice": twice,
        "requests of the third start": final["requests"] - after["requests"] - third["failed"] * 6, "third": {k: third[k] for k in ("right", "wrong", "failed")},
        "throughput": round(most / times[most - 1] / rate, 3), "throughput with the end": round(len(times) / times[-1] / rate, 3),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=250.0)
    parser.add_argument("--together", type=int, default=64)
    parser.add_argument("--client", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        print(json.dumps(ask(options.client, options.store, options.calls, options.together)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(options.calls, options.rate, options.together, Path(folder)), indent=2))


if __name__ == "__main__":
    main()
