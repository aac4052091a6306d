"""A server that answers as vLLM documents, its tokens sampled by the built-in engine from a model folder; faults are put in one by one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

from gradus.policies.engine import Job, generate
from gradus.policies.lm import LanguageModel
from gradus.types import Context, Sampling
from gradus.types.signals import LogProb

Fault = Callable[["FakeVLLM", dict[str, Any]], "dict[str, Any] | tuple[int, bytes] | None"]
"""Given the server and a true answer to a completion: what is sent instead, (status, bytes), or None to hang up."""


class FakeVLLM:
    """One model, reloaded from `weights_path` or, as the older versions do, from the folder that it was started on."""

    def __init__(self, folder: Path, *, mode: str = "raw", dev: bool = True, marks: bool = True) -> None:
        self.folder, self.mode, self.dev, self.marks = folder, mode, dev, marks
        self.names, self.longest = ["small"], 128
        self.model = LanguageModel.load(folder)
        self.version = "default"
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.faults: list[Fault | None] = []  # of the next completions
        self.replies: dict[str, tuple[int, bytes]] = {}  # what is said at other paths in place of the truth
        self.lock = threading.Lock()
        self.url = ""

    def paths(self) -> list[str]:
        return [path for path, _ in self.seen]

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for seen, body in self.seen if seen == path]

    def reply(self, path: str, body: dict[str, Any]) -> Any:
        self.seen.append((path, body))
        if path in self.replies:
            return self.replies[path]
        if path == "/v1/models":
            card = {
                "object": "model",
                "created": 1,
                "owned_by": "vllm",
                "root": str(self.folder),
                "parent": None,
                "max_model_len": self.longest,
            }
            return {"object": "list", "data": [{"id": name, **card} for name in self.names]}
        if path == "/tokenize":
            assert self.model.tokenizer is not None
            tokens = self.model.tokenizer.encode(body["prompt"], body["add_special_tokens"])
            return {"count": len(tokens), "max_model_len": self.longest, "tokens": tokens, "token_strs": None}
        if path == "/v1/completions":
            fault = self.faults.pop(0) if self.faults else None
            answer = self.completion(body)
            return fault(self, answer) if fault is not None else answer
        if self.dev and path == "/collective_rpc" and body["method"] == "reload_weights":
            self.model = LanguageModel.load(body.get("kwargs", {}).get("weights_path", self.folder))
            return {"results": [None]}
        if self.dev and path == "/reset_prefix_cache":
            return {}
        if self.dev and self.marks and path == "/update_weight_version":
            self.version = body["new_version"]
            return {"success": True, "new_version": self.version}
        if self.dev and self.marks and path == "/weight_info":
            return {"weight_version": self.version}
        return 404, b'{"detail":"Not Found"}'

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        sampling = Sampling(
            temperature=body["temperature"],
            top_k=body.get("top_k", 0),
            top_p=body.get("top_p", 1.0),
            min_p=body.get("min_p", 0.0),
            max_tokens=body["max_tokens"],
            stops=tuple(body.get("stop", ())),
        )
        prompt = torch.tensor(body["prompt"], dtype=torch.int32).numpy()
        text = self.model.text
        job = Job(prompt, sampling, body.get("seed", 0))
        ends = body.get("stop_token_ids", ())
        s = generate(self.model.trunk, [job], end_tokens=ends, decode_text=text, max_context=self.longest)[0]
        logprobs = s.logprobs.tolist()
        if self.mode == "raw":
            chosen = torch.tensor([False] * len(prompt) + [True] * len(s.tokens)).numpy()
            whole = Context(torch.cat([torch.from_numpy(prompt), torch.from_numpy(s.tokens)]).numpy(), chosen, temperature=1.0)
            with torch.no_grad():
                logprobs = self.model.evaluate([whole], (LogProb(),))[LogProb()].tolist()
        elif sampling.top_k == 1:
            logprobs = [0.0] * len(logprobs)
        tokens = s.tokens.tolist()
        names = [f"token_id:{t}" for t in tokens]
        choice = {
            **{"index": 0, "text": text(s.tokens), "finish_reason": "stop" if s.ended.value == "stop" else "length", "stop_reason": None},
            **{"token_ids": tokens, "prompt_token_ids": body["prompt"], "prompt_logprobs": None},
            "logprobs": {
                **{"tokens": names, "token_logprobs": logprobs, "text_offset": [0] * len(tokens)},
                "top_logprobs": [{n: p} for n, p in zip(names, logprobs, strict=True)],
            },
        }
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens), "total_tokens": len(prompt) + len(tokens)}
        return {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"], "choices": [choice], "usage": usage}


@contextmanager
def serving(fake: FakeVLLM) -> Iterator[FakeVLLM]:
    """The server on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.answer({})

        def do_POST(self) -> None:
            self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}"))

        def answer(self, body: dict[str, Any]) -> None:
            with fake.lock:
                reply = fake.reply(self.path, body)
            if reply is None:
                self.close_connection = True
                return
            status, text = reply if isinstance(reply, tuple) else (200, json.dumps(reply).encode())
            short = text.endswith(b"CUT")
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text[:-3] if short else text)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
