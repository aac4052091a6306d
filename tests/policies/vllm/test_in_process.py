"""vLLM in this process, against a package that behaves as it documents."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from gradus.policies.engine import Job, generate
from gradus.policies.lm import LanguageModel
from gradus.policies.vllm.served import served
from gradus.types import Key, Sampling, UserError, prompt_context
from gradus.types.players import VLLM
from gradus.types.signals import LogProb
from tests.policies.vllm.test_served import Asking
from tests.small_model import save_small_model


@dataclass
class SamplingParams:
    n: int
    max_tokens: int
    seed: int
    logprobs: int
    ignore_eos: bool
    stop_token_ids: list[int]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    stop: list[str]
    include_stop_str_in_output: bool


class LLM:
    """Sampled by the built-in engine; a dictionary of log-probabilities a token, as vLLM gives them."""

    made: ClassVar[list[dict[str, Any]]] = []
    calls: ClassVar[list[Any]] = []
    fails = False

    def __init__(self, model: str, **options: Any) -> None:
        if LLM.fails:
            raise RuntimeError("Free memory on device is less than desired")
        LLM.made.append(options)
        self.model = LanguageModel.load(model)

    def collective_rpc(self, method: str, kwargs: dict[str, str]) -> list[None]:
        LLM.calls.append(method)
        self.model = LanguageModel.load(kwargs["weights_path"])
        return [None]

    def reset_prefix_cache(self) -> bool:
        LLM.calls.append("reset_prefix_cache")
        return True

    def generate(self, prompts: list[dict[str, list[int]]], params: list[SamplingParams], use_tqdm: bool) -> list[Any]:
        assert not use_tqdm
        jobs = [
            Job(np.array(p["prompt_token_ids"], np.int32), Sampling(s.temperature, s.top_k, s.top_p, s.min_p, s.max_tokens), s.seed)
            for p, s in zip(prompts, params, strict=True)
        ]
        assert all(s.ignore_eos and s.stop_token_ids == [1] for s in params)
        sampled = generate(self.model.trunk, jobs, end_tokens=[1], decode_text=self.model.text, max_context=128)
        return [SimpleNamespace(outputs=[self._output(s)]) for s in sampled]

    def _output(self, s: Any) -> Any:
        tokens = s.tokens.tolist()
        logprobs = [
            {t: SimpleNamespace(logprob=p), 97: SimpleNamespace(logprob=-9.0)} for t, p in zip(tokens, s.logprobs.tolist(), strict=True)
        ]
        return SimpleNamespace(token_ids=tokens, logprobs=logprobs, finish_reason="stop" if s.ended.value == "stop" else "length")


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> type[LLM]:
    module: Any = ModuleType("vllm")
    module.LLM, module.SamplingParams = LLM, SamplingParams
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(LLM, "made", [])
    monkeypatch.setattr(LLM, "calls", [])
    return LLM


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model(tmp_path_factory.mktemp("small") / "model")


def asking(count: int, version: int = 0, **sampling: Any) -> list[Asking]:
    prompt = prompt_context([20, 33, 4, 51])
    return [Asking(prompt, 4, Sampling(**{"max_tokens": 8, **sampling}), Key(7).fold(i), version) for i in range(count)]


def test_it_is_made_once_and_given_every_new_version(package, folder):
    policy = served(LanguageModel.load(folder), VLLM(memory=0.3), moves=True, name="policy")
    assert package.made == []  # nothing is started before it is needed
    first = policy.act(asking(2, temperature=0.7))
    with torch.no_grad():
        for p in policy.network.parameters():
            p.mul_(1.5)
    second = policy.act(asking(3, version=1))
    assert package.calls == ["reload_weights", "reset_prefix_cache"]
    (options,) = package.made
    assert options == {
        "gpu_memory_utilization": 0.3,
        "tensor_parallel_size": 1,
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",
        "trust_remote_code": False,
    }
    with torch.no_grad():
        own = policy.evaluate(second, (LogProb(),))[LogProb()].numpy()
    np.testing.assert_allclose(np.concatenate([c.logprobs for c in second]), own, atol=1e-4)
    assert [v for c in first for v in c.versions] == [0] * sum(c.actions for c in first)
    assert {int(v) for c in second for v in c.versions} == {1}


def test_truncated_sampling_has_no_log_probabilities_of_the_full_distribution(package, folder):
    policy = served(LanguageModel.load(folder), VLLM(), moves=True, name="policy")
    with pytest.raises(UserError, match="vLLM gives processed log-probabilities"):
        policy.act(asking(1, top_p=0.9))


def test_what_it_raises_is_told_as_a_sentence(package, folder, monkeypatch):
    monkeypatch.setattr(LLM, "fails", True)
    policy = served(LanguageModel.load(folder), VLLM(), moves=True, name="policy")
    with pytest.raises(UserError, match=r"cannot load the weights in .*: Free memory on device.*change `engine.memory`"):
        policy.act(asking(1))


def test_a_missing_package_is_named_before_anything_is_done(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match=r'pip install "gradus\[vllm\]", or name a server with VLLMServer'):
        served(LanguageModel.load(folder), VLLM(), moves=True, name="policy")
