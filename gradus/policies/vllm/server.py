"""A vLLM server over HTTP. The server takes token ids, and returns token ids and log-probabilities. On request it reloads weights from a folder.

The requests follow vLLM's documentation from version 0.10.2 on. The requests use completions with `return_token_ids`, and the development endpoints
`collective_rpc` and `reset_prefix_cache`. From version 0.16 on, the requests use `reload_weights` with a path. If the server has `weight_info`, the requests
use it, too. The
tests use only simulated answers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import repeat
from pathlib import Path
from time import sleep
from typing import Any, Literal
from urllib.parse import urlsplit

from gradus.policies.engine import Job
from gradus.policies.vllm import protocol
from gradus.policies.vllm.protocol import Answer, Lost, seed_of
from gradus.types import UserError, unknown
from gradus.types.players import VLLMServer

PROBE = "0 1 23 The quick brown fox (été, 日本) {}\n"
"""Text that server and model must tokenise identically."""


class Broken(Exception):
    """The error for an unusable answer: a server error, text that is not JSON, or no answer within the time limit. A retry may succeed."""


class Server:
    """The vLLM server that a `VLLMServer` describes. `connect` sends the first request."""

    def __init__(self, spec: VLLMServer) -> None:
        try:
            parts, port = urlsplit(spec.url), urlsplit(spec.url).port
        except ValueError as error:  # a port that is not a number, an unclosed bracket
            raise UserError(f'the url of a vLLM server is "{spec.url}": {error}; write a url such as http://127.0.0.1:8000') from None
        if parts.username is not None:  # the password would be stored with the recipe
            raise UserError("the url of a vLLM server contains a name or a password; leave them out, and set the key in the environment variable VLLM_API_KEY")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f'the url of a vLLM server is "{spec.url}"; write a url such as http://127.0.0.1:8000')
        self.spec, self.retries, self.where = spec, spec.retries, f"the vLLM server at {spec.url}"
        self._secure, self._host = parts.scheme == "https", parts.hostname
        self._port, self._path = port, parts.path.rstrip("/").removesuffix("/v1")
        self.model, self.reads = "", Path()
        self.longest: int | None = None
        self._marks = True  # whether the server stores a name for its weights, as newer versions do

    def connect(self) -> None:
        """Finds the model that the server serves. Raises UserError if there is no server, or if the server serves another model."""
        try:
            found = self._asked("GET", "/v1/models")
            offered = {str(m["id"]): m for m in found["data"]}
        except (Lost, Broken) as error:
            raise UserError(f"{self.where} does not answer: {error}; start a server with `vllm serve MODEL`, or set another url") from None
        except (KeyError, TypeError):
            raise UserError(f"{self.where} does not list its models as vLLM does; check the url") from None
        if self.spec.name is None and len(offered) != 1:
            raise UserError(f"{self.where} offers {', '.join(offered) or 'no model'}; set the field `name` of the engine to one of these models")
        self.model = self.spec.name or next(iter(offered))
        if self.model not in offered:
            raise unknown("model", self.model, offered, f"Looked for it on {self.where}")
        self.longest = offered[self.model].get("max_model_len")
        self.reads = Path(str(offered[self.model].get("root") or self.model)).resolve()

    def check_vocabulary(self, encode: Callable[[str], list[int]]) -> None:
        """Raises UserError if the server tokenises text differently from `encode`.

        A server without a tokenizer is not checked.
        """
        try:
            found = self._asked("POST", "/tokenize", {"model": self.model, "prompt": PROBE, "add_special_tokens": False})
        except (Lost, Broken) as error:
            raise UserError(f"{self.where} does not answer: {error}; check that the server runs") from None
        except Refused as error:
            if error.status == 404:
                return
            raise
        if found.get("tokens") != encode(PROBE):
            raise UserError(
                f"{self.where} serves {self.model}, whose vocabulary differs from the vocabulary of the trained model; "
                "start the server with the trained model"
            )

    def load(self, folder: Path, label: str) -> None:
        """Makes the server read the weights in `folder` and drop its prefix cache."""
        path = folder.resolve()
        options = {} if path == self.reads else {"weights_path": str(path)}
        body = {"method": "reload_weights", "kwargs": options, "timeout": self.spec.timeout}
        try:
            self._asked("POST", "/collective_rpc", body)
            self._asked("POST", "/reset_prefix_cache")
        except Refused as error:
            if error.status == 404:
                raise UserError(f"{self.where} does not accept new weights; start the server with VLLM_SERVER_DEV_MODE=1 in its environment") from None
            raise self._not_read(path, str(error)) from None
        except Broken as error:
            raise self._not_read(path, str(error)) from None
        if self._marks:
            self._marks = self._mark(label)

    def _not_read(self, path: Path, reason: str) -> UserError:
        return UserError(
            f"{self.where} cannot read new weights from {path}: {reason}; make this folder readable for the server, "
            "or set another folder with players.*.engine.folder. A vLLM server older than 0.16 must serve the model from this folder"
        )

    def _mark(self, label: str) -> bool:
        try:
            self._asked("POST", "/update_weight_version", {"new_version": label})
        except (Refused, Broken):
            return False
        return True

    def holds(self, label: str) -> bool:
        """Whether the server's weights still have this name. If the server's version of vLLM stores no names, the result is True."""
        if not self._marks:
            return True
        try:
            return bool(self._asked("GET", "/weight_info").get("weight_version") == label)
        except (Refused, Broken):
            return False

    def sample(self, jobs: Sequence[Job], rooms: Sequence[int], ends: Sequence[int], label: str | None) -> list[Answer | None]:
        """Sends one request per job, at most `requests` at a time."""
        with ThreadPoolExecutor(min(self.spec.requests, len(jobs))) as pool:
            return list(pool.map(self._sampled, jobs, rooms, repeat(tuple(ends)), repeat(label)))

    def _sampled(self, job: Job, room: int, ends: tuple[int, ...], label: str | None) -> Answer | None:
        s = job.sampling
        body: dict[str, Any] = {
            **{"model": self.model, "prompt": job.prefix.tolist(), "max_tokens": room, "seed": seed_of(job.key), "n": 1},
            **{"temperature": s.temperature, "top_k": s.top_k, "top_p": s.top_p, "min_p": s.min_p},
            # Set explicitly, because a server fills missing values from the model's generation_config.json.
            **{"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "min_tokens": 0},
            **{"ignore_eos": True, "stop_token_ids": list(ends), "stop": list(s.stops), "include_stop_str_in_output": True},
            **{"logprobs": 1, "return_token_ids": True, "return_tokens_as_token_ids": True, "add_special_tokens": False},
        }
        if label is not None:
            body["cache_salt"] = label  # so the server never reuses keys and values of other weights
        answer = self._completion(body)
        counted = (answer.get("usage") or {}).get("prompt_tokens")
        if counted is not None and counted != len(job.prefix):
            raise UserError(f"{self.where} read a prompt of {len(job.prefix)} tokens as {counted} tokens; take vLLM 0.10.2 or newer")
        return _answer(answer)

    def mode(self, token: int) -> Literal["raw", "processed"]:
        """Finds the mode from the log-probability of one token, which is sampled with top_k = 1.

        If this log-probability is 0, the server computes log-probabilities after truncation, because only one token is left. Else the server computes them
        before truncation.
        """
        body = {"model": self.model, "prompt": [token], "max_tokens": 1, "temperature": 1.0, "top_k": 1, "logprobs": 1, "ignore_eos": True}
        found = _answer(self._completion({**body, "return_tokens_as_token_ids": True}))
        if found is None or not found.logprobs:
            raise UserError(f"{self.where} gives no log-probabilities; start the server with --max-logprobs 1 or more")
        return "processed" if found.logprobs[0] > -1e-6 else "raw"

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to a request for a completion.

        A broken answer is requested again. Raises UserError if the last retry fails; Lost if the connection is lost.
        """
        reason = ""
        for attempt in range(self.retries + 1):
            sleep(protocol.PAUSE * 2 ** (attempt - 1) if attempt else 0)
            try:
                answer = self._asked("POST", "/v1/completions", body)
                answer["choices"][0]["finish_reason"]  # raises an error if the answer is not a completion; the request is then repeated
            except Broken as error:
                reason = str(error)
            except (KeyError, IndexError, TypeError):
                reason = "its answer is not a completion"
            else:
                return answer
        raise UserError(f"{self.where} failed {self.retries + 1} times: {reason}; read the log of the server")

    def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Returns the server's answer to one request; {} if the text of the answer is empty. Raises Refused, Broken, Lost."""
        kind = HTTPSConnection if self._secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=self.spec.timeout)
        key = os.environ.get("VLLM_API_KEY")
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        try:
            connection.request(method, self._path + path, None if body is None else json.dumps(body).encode(), headers)
            response = connection.getresponse()
            text = response.read()
        except TimeoutError:
            raise Broken(f"there was no answer to {path} within {self.spec.timeout:g} seconds") from None
        except OSError as error:
            raise Lost(f"{path}: {error.strerror or error or type(error).__name__}") from None
        except HTTPException as error:
            raise Broken(f"the answer to {path} is incomplete ({type(error).__name__})") from None
        finally:
            connection.close()
        if response.status == 429 or response.status >= 500:
            raise Broken(f"{path} failed with status {response.status}{_said(text)}")
        if response.status != 200:
            raise Refused(
                response.status, f"{self.where} refused {path} with status {response.status}{_said(text)}; check model and request"
            )
        try:
            found = json.loads(text or b"{}")
        except ValueError:
            raise Broken(f"the answer to {path} is not complete JSON") from None
        return found if isinstance(found, dict) else {}


class Refused(UserError):
    """The error for a request that the server understands but refuses."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _answer(completion: dict[str, Any]) -> Answer | None:
    """Returns the only choice of a completion; None if the completion was aborted. Raises UserError if the choice has no token ids."""
    choice = completion["choices"][0]
    if choice["finish_reason"] == "abort":
        return None
    logprobs = choice.get("logprobs") or {}
    named = [str(t) for t in logprobs.get("tokens") or ()]
    tokens = choice.get("token_ids")
    if tokens is None:
        if not all(t.startswith("token_id:") and t[9:].isdigit() for t in named):
            raise UserError("the vLLM server returns its tokens as texts and not as numbers; take vLLM 0.10.2 or newer")
        tokens = [int(t[9:]) for t in named]
    return Answer(tokens, logprobs.get("token_logprobs"), choice["finish_reason"])


def _said(text: bytes) -> str:
    """Returns the message in the text of an error, shortened and in brackets; an empty text if there is no message."""
    try:
        found = json.loads(text)
        found = found.get("error", found.get("message", found.get("detail", found)))
        said = str(found.get("message", found) if isinstance(found, dict) else found)
    except (ValueError, AttributeError):
        said = text.decode("utf-8", "replace")
    said = " ".join(said.split())[:300]
    return f" ({said})" if said else ""
