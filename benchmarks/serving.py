"""Tokens per second of 64 streams through HTTP, against the engine's own batch of the same requests, at most 64 at once.

    python -m benchmarks.serving [--pairs 3] [--streams 64] [--tokens 320] [--only base|random]

Two models: the built-in one, and a random Qwen2 of 26 million parameters. Neither ends an answer early, so all answers have the same length.
Every client asks three times, one request after the other.
The server, the client and the engine alone are three processes; the engine is measured in turn with the server on the same machine, while
the other one is idle. "of work" is the ratio of the processor time that the engine takes alone to that of the server, without the client's.
The client reads raw server-sent events; the text of every stream must be equal to that of the engine's batch.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 3  # requests of every client, one after the other


def prompts(count: int) -> list[str]:
    """Prompts of one length."""
    return [f"{10 + i % 90}+{99 - i % 90}" for i in range(count)]


def make_folder(kind: str, folder: Path) -> None:
    """A model without an end token: the built-in one, or a random one."""
    import shutil

    from benchmarks.peers import CASES, make_model
    from gradus.policies.tiny import folder as built_in

    if kind == "base":
        shutil.copytree(built_in(), folder)
    else:
        from dataclasses import replace

        make_model(folder, replace(CASES["b"], width=640))
    for name in ("generation_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
    for name, fields in (("config.json", ("eos_token_id",)), ("tokenizer_config.json", ("eos_token",))):
        if (folder / name).is_file():
            found = json.loads((folder / name).read_text())
            (folder / name).write_text(json.dumps({k: v for k, v in found.items() if k not in fields}))


def engine(folder: Path, streams: int, tokens: int) -> None:
    """For every line of the input: samples the batch, prints the seconds."""
    from gradus.cli.chat import load
    from gradus.policies.engine import Job, generate
    from gradus.serving.asked import conversation_key
    from gradus.types import Sampling

    model = load(str(folder))
    print(sum(p.numel() for p in model.network.parameters()), flush=True)
    jobs = [
        Job(model.opening(text).tokens, Sampling(max_tokens=tokens), conversation_key(i, 1).value)
        for i, text in enumerate(prompts(ROUNDS * streams))
    ]
    for _ in sys.stdin:
        began = time.perf_counter()
        found = generate(
            model.trunk, jobs, end_tokens=model.end_tokens, decode_text=model.text, max_context=model.context_length, rows=streams
        )
        seconds = time.perf_counter() - began
        assert all(len(s.tokens) == tokens for s in found)
        print(json.dumps([seconds, [model.text(s.tokens) for s in found]]), flush=True)


async def stream(url: str, index: int, text: str, tokens: int) -> tuple[str, int]:
    """One answer: its text, and the number of events."""
    host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps({"prompt": text, "seed": index, "temperature": 1, "max_tokens": tokens, "stream": True})
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    parts: list[str] = []
    while (line := await reader.readline()) and line != b"data: [DONE]\n":
        if line.startswith(b"data: "):
            parts.append(json.loads(line[6:])["choices"][0]["text"])
    writer.close()
    return "".join(parts), len(parts)


async def streams_of(url: str, streams: int, tokens: int) -> tuple[float, list[str], int]:
    began = time.perf_counter()
    texts = prompts(ROUNDS * streams)
    coming = iter(range(len(texts)))
    found: dict[int, tuple[str, int]] = {}

    async def client() -> None:
        for i in coming:
            found[i] = await stream(url, i, texts[i], tokens)

    await asyncio.gather(*(client() for _ in range(streams)))
    return time.perf_counter() - began, [found[i][0] for i in range(len(texts))], sum(count for _, count in found.values())


class Process:
    """A process of this module that answers lines."""

    def __init__(self, *words: str) -> None:
        self.inner = subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        assert self.inner.stdout is not None
        return self.inner.stdout.readline()

    def ask(self) -> Any:
        assert self.inner.stdin is not None
        self.inner.stdin.write("\n")
        self.inner.stdin.flush()
        return json.loads(self.line())

    @property
    def seconds(self) -> float:
        """The processor time that it took so far."""
        fields = Path(f"/proc/{self.inner.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.inner.terminate()
        self.inner.wait()


def measure(kind: str, streams: int, tokens: int, pairs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / kind
        make_folder(kind, folder)
        alone = Process("-m", "benchmarks.serving", "--engine", str(folder), "--streams", str(streams), "--tokens", str(tokens))
        served = Process("-m", "gradus", "serve", str(folder), "--port", "0", "--max-batch", str(streams))
        try:
            size, url = int(alone.line()), served.line().split(" on ")[1].partition(";")[0]
            rates: dict[str, list[float]] = {"engine": [], "http": [], "work": []}
            for pair in range(pairs + 1):
                before = alone.seconds, served.seconds
                seconds, expected = alone.ask()
                took, found, events = asyncio.run(streams_of(url, streams, tokens))
                assert found == expected, "the streams differ from the engine's batch"
                if pair:  # the first pair warms up
                    rates["engine"].append(ROUNDS * streams * tokens / seconds)
                    rates["http"].append(ROUNDS * streams * tokens / took)
                    rates["work"].append((alone.seconds - before[0]) / (served.seconds - before[1]))
        finally:
            alone.end()
            served.end()
    work = statistics.median(rates["work"])
    ratios = [b / a for a, b in zip(rates["engine"], rates["http"], strict=True)]
    print(
        f"{kind:<7} {size:>11,} {statistics.median(rates['engine']):>10,.0f} {statistics.median(rates['http']):>10,.0f} "
        f"{statistics.median(ratios):>6.2f} ({min(ratios):.2f}-{max(ratios):.2f}) {work:>9.2f} {ROUNDS * streams * tokens / events:>9.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=320, help="of the built-in model; the random one gives an eighth")
    parser.add_argument("--only", choices=("base", "random"))
    parser.add_argument("--engine", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        engine(Path(options.engine), options.streams, options.tokens)
        return
    print(f"{options.streams} streams of {options.tokens} tokens, of the random model an eighth; tokens per second")
    print("model    parameters     engine       HTTP  ratio (range)      of work   tokens per event   required: ratio 0.9")
    for kind in ("base", "random"):
        if options.only in (None, kind):
            measure(kind, options.streams, options.tokens // (8 if kind == "random" else 1), options.pairs)


if __name__ == "__main__":
    main()
