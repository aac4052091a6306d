"""vLLM in this process, with the same requests as on a server. The tests use only a simulated package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from gradus.policies.engine import Job
from gradus.policies.vllm.protocol import Answer, seed_of
from gradus.types import UserError
from gradus.types.players import VLLM


class InProcess:
    """vLLM's `LLM`. The object is created when the first weights are loaded."""

    where = "vLLM"
    longest: int | None = None  # the model's own limit
    retries = 2

    def __init__(self, spec: VLLM) -> None:
        """Raises UserError if the package is missing."""
        try:
            import vllm
        except ImportError:
            raise UserError(
                'the engine VLLM needs the package vllm; install it with pip install "gradus[vllm]", or name a server with VLLMServer'
            ) from None
        self.spec, self._package = spec, vllm
        self._llm: Any = None
        self._label: str | None = None

    def load(self, folder: Path, label: str) -> None:
        try:
            if self._llm is None:
                self._llm = self._package.LLM(
                    model=str(folder),
                    gpu_memory_utilization=self.spec.memory,
                    tensor_parallel_size=self.spec.gpus,
                    logprobs_mode="processed_logprobs",
                    generation_config="vllm",  # ignores the model's own sampling settings
                    trust_remote_code=False,
                )
            else:
                self._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
                self._llm.reset_prefix_cache()
        except Exception as error:  # the package raises the errors of many libraries
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise UserError(
                f"vLLM cannot load the weights in {folder}: {reason}; take vLLM 0.16 or newer, or change `engine.memory` (the share of the GPU memory for vLLM)"
            ) from error
        self._label = label

    def holds(self, label: str) -> bool:
        return self._label == label

    def mode(self, token: int) -> Literal["raw", "processed"]:
        return "processed"

    def sample(self, jobs: Sequence[Job], rooms: Sequence[int], ends: Sequence[int], label: str | None) -> list[Answer | None]:
        made = [
            self._package.SamplingParams(
                **{"n": 1, "max_tokens": room, "seed": seed_of(job.key), "logprobs": 1, "ignore_eos": True, "stop_token_ids": list(ends)},
                **{"temperature": s.temperature, "top_k": s.top_k, "top_p": s.top_p, "min_p": s.min_p},
                **{"stop": list(s.stops), "include_stop_str_in_output": True},
            )
            for job, room, s in ((job, room, job.sampling) for job, room in zip(jobs, rooms, strict=True))
        ]
        outputs = self._llm.generate([{"prompt_token_ids": job.prefix.tolist()} for job in jobs], made, use_tqdm=False)
        return [_answer(output.outputs[0]) for output in outputs]


def _answer(output: Any) -> Answer | None:
    if output.finish_reason == "abort":
        return None
    tokens = [int(t) for t in output.token_ids]
    if output.logprobs is None:
        return Answer(tokens, None, output.finish_reason)
    found = [float(at[token].logprob) for token, at in zip(tokens, output.logprobs, strict=False)]
    return Answer(tokens, found, output.finish_reason)
