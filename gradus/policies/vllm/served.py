"""vLLM samples for a language model, in this process or on a server. The tests use only simulated answers.

The model itself stays in this process for training and scoring. Before the first sample after an update, the model's weights are written as safetensors,
and vLLM reads them. The version of a token is the version of the weights that were loaded during the whole request for its sequence. If the weights may have
changed during
a round of requests, the round is discarded and sampled again. The draws of vLLM depend on the other requests, so such runs are not reproducible bit by
bit.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gradus.policies.engine import Job, Sampled
from gradus.policies.jobs import job_after, sampled_context
from gradus.policies.lm import LanguageModel
from gradus.policies.vllm import protocol
from gradus.policies.vllm.protocol import LEAST_TEMPERATURE, Answer, Lost, Sampler
from gradus.types import Context, Ended, Sampling, UserError
from gradus.types.players import VLLM, VLLMServer
from gradus.types.policy import Asked
from gradus.types.signals import LogProb

COMPARED = 64  # after every change of weights, the log-probabilities of this number of tokens are compared with the model's own


class Served:
    """A language model for which vLLM samples. All other methods are the methods of the model."""

    def __init__(self, model: LanguageModel, sampler: Sampler, *, moves: bool, tolerance: float, folder: str | None = None) -> None:
        """`moves`: whether the model's weights change, or may differ from the first weights of vLLM.

        `folder`: the folder into which weights are written.
        """
        self.model, self.sampler, self.moves, self.tolerance = model, sampler, moves, tolerance
        self._lock = threading.Lock()  # weights do not change during a request
        self._held: tuple[int, str] | None = None  # version and name of the loaded weights
        self._agreed: int | None = None  # version whose log-probabilities were compared
        self._mode: Literal["raw", "processed"] | None = None
        self._loads, self._token = 0, uuid.uuid4().hex[:12]
        self._temporary = tempfile.TemporaryDirectory(prefix="gradus-weights-") if moves and folder is None else None
        self._folder = Path(self._temporary.name if self._temporary else folder or ".")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    @property
    def can(self) -> frozenset[str]:
        """Returns the model's abilities, except `rules` and `slots`. The reason is that vLLM itself draws the tokens, in its own order."""
        return self.model.can - {"rules", "slots"}

    @property
    def context_length(self) -> int:
        """Returns the largest number of tokens in a sequence that both the model and vLLM support."""
        return min(self.model.context_length, self.sampler.longest or self.model.context_length)

    def act(self, asked: Sequence[Asked]) -> list[Context]:
        """Samples one context per request, in order. The parent of a sampled context is the context that it continues.

        Raises UserError if vLLM fails.
        """
        if not asked:
            return []
        if (how := next((h for a in asked if (h := getattr(getattr(a, "request", None), "how", None)) is not None), None)) is not None:
            raise UserError(f"vLLM cannot sample by {type(how).__name__}; leave out the engine of the player")
        versions = {a.version for a in asked}
        if len(versions) > 1:
            raise ValueError(
                f"one call requests samples of the weight versions {sorted(versions)}; request one version per call, because vLLM has loaded only "
                "one version"
            )
        jobs = [job_after(a.parent, a.at, a.sampling, a.key.value) for a in asked]
        rooms = [self._room(job) for job in jobs]
        with self._lock:
            answers = self._answered(jobs, rooms, versions.pop())
        ends, size = frozenset(self.model.end_tokens), self._vocabulary()
        sampled = [checked(answer, job, room, ends, size) for answer, job, room in zip(answers, jobs, rooms, strict=True)]
        contexts = [sampled_context(a, s) for a, s in zip(asked, sampled, strict=True)]
        self._compare(contexts)
        return contexts

    def _room(self, job: Job) -> int:
        limit = self.context_length
        if not len(job.prefix):
            raise UserError("a prompt has no tokens; give at least one, such as the beginning-of-text token")
        if len(job.prefix) >= limit:
            raise UserError(
                f"a prompt has {len(job.prefix)} tokens, but the prompt and the answer together may have at most {limit} tokens; "
                "shorten the prompt, or start vLLM with a larger --max-model-len"
            )
        return min(job.sampling.limit, limit - len(job.prefix))

    def _answered(self, jobs: Sequence[Job], rooms: Sequence[int], version: int) -> list[Answer]:
        """Returns answers that were sampled from the weights of one version. A round during which the weights may have changed is discarded."""
        done: dict[int, Answer] = {}
        ends = self.model.end_tokens
        reason = "requests were aborted"
        for attempt in range(self.sampler.retries + 1):
            time.sleep(protocol.PAUSE * 2 ** (attempt - 1) if attempt else 0)
            left = [i for i in range(len(jobs)) if i not in done]
            try:
                for sampling in dict.fromkeys(job.sampling for job in jobs):
                    self._check_logprobs(sampling, int(jobs[0].prefix[0]))
                label = self._bring(version) if self.moves else None
                found = self.sampler.sample([jobs[i] for i in left], [rooms[i] for i in left], ends, label)
                if label is not None and not self.sampler.holds(label):
                    raise Lost("the weights of the server have changed during the sampling")
            except Lost as lost:
                self._held, self._agreed, reason = None, None, str(lost)
                continue
            done |= {i: answer for i, answer in zip(left, found, strict=True) if answer is not None}
            if len(done) == len(jobs):
                return [done[i] for i in range(len(jobs))]
        raise UserError(
            f"{self.sampler.where} gave no complete answer in {self.sampler.retries + 1} attempts: {reason}; check that the server runs, and that no "
            "other program loads weights into it"
        )

    def _bring(self, version: int) -> str:
        """Loads the weights of this version and returns their name."""
        if self._held is not None and self._held[0] == version:
            return self._held[1]
        self._held = self._agreed = None
        self._loads += 1
        label = f"{self._token}-{version}-{self._loads}"
        in_place = getattr(self.sampler, "reads", None) == self._folder.resolve()
        target = self._folder if in_place else self._folder / label
        if in_place and self.model.folder.source and Path(self.model.folder.source).resolve() == target.resolve():
            raise UserError(
                f"players.*.engine.folder is {target}, the folder of the start model, which this run would overwrite with trained weights; copy the start model to "
                "another folder first"
            )
        replace(self.model, head=None).save(target)  # without the head: vLLM reads every safetensors file of a folder as the model's
        self.sampler.load(target, label)
        for old in self._folder.glob(f"{self._token}-*"):
            if old != target:
                shutil.rmtree(old)
        self._held = (version, label)
        return label

    def _check_logprobs(self, sampling: Sampling, token: int) -> None:
        """Raises UserError if vLLM's log-probabilities do not belong to the full tempered distribution."""
        whole = sampling.top_k == 0 and sampling.top_p == 1.0 and sampling.min_p == 0.0
        if 0 < sampling.temperature < LEAST_TEMPERATURE:
            raise UserError(f"`temperature` is {sampling.temperature}; vLLM needs 0 (greedy) or at least {LEAST_TEMPERATURE}")
        if sampling.temperature == 0 or (sampling.temperature == 1 and whole):
            return
        self._mode = self._mode or self.sampler.mode(token)
        if self._mode == ("processed" if whole else "raw") and (whole or sampling.temperature == 1):
            return
        remedy = (
            "start the server with --logprobs-mode processed_logprobs, or sample at temperature 1"
            if whole
            else "start the server with --logprobs-mode raw_logprobs and sample at temperature 1, or leave out `top_k`, `top_p` and `min_p`"
        )
        raise UserError(
            f"{self.sampler.where} gives {self._mode} log-probabilities, but at temperature {sampling.temperature:g}"
            f"{'' if whole else ' with truncated sampling'} these are not the log-probabilities of the full distribution; {remedy}"
        )

    def _vocabulary(self) -> int | None:
        config = getattr(getattr(self.model.trunk, "config", None), "vocab_size", None)
        return int(config) if config is not None else None

    def _compare(self, contexts: Sequence[Context]) -> None:
        """Raises UserError if vLLM's log-probabilities of some samples differ too much from the model's own.

        In this case vLLM has other weights or settings than the model.
        """
        version = int(contexts[0].versions[0]) if contexts and contexts[0].versions is not None else None
        if version is None or version == self._agreed:
            return
        import torch

        chosen: list[Context] = []
        for context in sorted(contexts, key=lambda c: len(c.sequence)):
            if sum(c.actions for c in chosen) < COMPARED:
                chosen.append(context)
        with torch.no_grad():
            own = self.model.evaluate(chosen, (LogProb(),))[LogProb()].float().cpu().numpy()
        theirs = np.concatenate([c.logprobs for c in chosen if c.logprobs is not None])
        apart = float(np.abs(own - theirs).mean())
        if not apart <= self.tolerance:
            raise UserError(
                f"the log-probabilities of {self.sampler.where} differ from the model's own log-probabilities by {apart:.2f} nats per token, "
                f"but players.*.engine.tolerance is {self.tolerance:g}; start the server with the weights of this model and the right "
                "--logprobs-mode. If the server quantises the weights, set a higher tolerance"
            )
        self._agreed = version


def served(model: Any, spec: VLLM | VLLMServer, *, moves: bool, name: str) -> Served:
    """Returns the model for which vLLM samples, with the settings in `spec`. Raises UserError if vLLM or its server is missing or does not fit the model."""
    if "served" not in getattr(model, "can", ()):
        raise UserError(
            f"players.{name}.engine is {type(spec).__name__}, which samples only from language models; set --players.{name}.engine none"
        )
    if isinstance(spec, VLLM):
        from gradus.policies.vllm.in_process import InProcess

        return Served(model, InProcess(spec), moves=True, tolerance=spec.tolerance)
    from gradus.policies.vllm.server import Server

    server = Server(spec)
    server.connect()
    if model.tokenizer is not None:
        server.check_vocabulary(lambda text: model.tokenizer.encode(text, False) if model.tokenizer else [])
    return Served(model, server, moves=moves, tolerance=spec.tolerance, folder=spec.folder)


def checked(answer: Answer, job: Job, room: int, ends: Collection[int], vocabulary: int | None) -> Sampled:
    """Converts the answer to the engine's form. Raises UserError if sampling from this model cannot have produced the answer."""
    count = len(answer.tokens)
    if answer.logprobs is None:
        raise UserError("vLLM gave no log-probabilities of the sampled tokens; start vLLM with --max-logprobs 1 or more")
    problem = None
    if len(answer.logprobs) != count:
        problem = f"it has {count} tokens and {len(answer.logprobs)} log-probabilities"
    elif not 1 <= count <= room:
        problem = f"it has {count} tokens, but 1 to {room} were requested"
    elif any(isinstance(t, bool) or not isinstance(t, int) or t < 0 or (vocabulary is not None and t >= vocabulary) for t in answer.tokens):
        problem = f"it has a token outside the model's vocabulary of {vocabulary}, so vLLM serves another model"
    elif not all(isinstance(p, (int, float)) and -np.inf < p <= 1e-3 for p in answer.logprobs):
        problem = "a log-probability is not a number of 0 or less"
    elif any(t in ends for t in answer.tokens[:-1]):
        problem = f"it went on after an end token ({', '.join(map(str, sorted(ends)))})"
    elif answer.reason not in ("stop", "length") or (answer.reason == "length" and count < room):
        problem = f"it ended after {count} of {room} tokens with the reason {answer.reason!r}"
    if problem is not None:
        raise UserError(f"an answer of vLLM cannot be used: {problem}; check the model and the version of vLLM")
    full = Ended.LENGTH if room == job.sampling.limit else Ended.CONTEXT
    ended = Ended.STOP if answer.reason == "stop" else full
    return Sampled(np.array(answer.tokens, np.int32), np.minimum(np.array(answer.logprobs, np.float32), 0.0), ended)
