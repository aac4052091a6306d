"""A model that is sampled by vLLM: whose weights chose a token, what is thrown away, what is refused. Against a simulated server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradus
from gradus.policies.engine import Job
from gradus.policies.lm import LanguageModel
from gradus.policies.vllm import protocol
from gradus.policies.vllm.protocol import Answer
from gradus.policies.vllm.served import Served, checked, served
from gradus.recipe.overrides import override_all
from gradus.types import Context, Ended, Key, Sampling, UserError, prompt_context
from gradus.types.players import VLLM, VLLMServer
from gradus.types.signals import LogProb
from tests.policies.fake_vllm import FakeVLLM, serving
from tests.small_model import save_small_model


@dataclass(frozen=True, eq=False)
class Asking:
    parent: Context
    at: int
    sampling: Sampling
    key: Key
    version: int = 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model(tmp_path_factory.mktemp("small") / "model")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "PAUSE", 0.0)


@pytest.fixture
def fake(folder: Path) -> Iterator[FakeVLLM]:
    with serving(FakeVLLM(folder)) as server:
        yield server


def over(fake: FakeVLLM, model: Path, *, moves: bool = True, **fields: Any) -> Served:
    return served(LanguageModel.load(model), VLLMServer(url=fake.url, **fields), moves=moves, name="policy")


def asking(count: int, version: int = 0, **sampling: Any) -> list[Asking]:
    prompt = prompt_context([20, 33, 4, 51])
    return [Asking(prompt, 4, Sampling(**{"max_tokens": 12, **sampling}), Key(7).fold(i), version) for i in range(count)]


def shaken(policy: Served, seed: int = 1) -> None:
    """Other weights, as an update leaves them."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in policy.network.parameters():
            p.add_(torch.randn_like(p) * 0.3)


def own(policy: Served, contexts: list[Context]) -> np.ndarray:
    with torch.no_grad():
        return policy.evaluate(contexts, (LogProb(),))[LogProb()].numpy()


def theirs(contexts: list[Context]) -> np.ndarray:
    return np.concatenate([c.logprobs for c in contexts if c.logprobs is not None])


def test_samples_are_contexts_as_the_model_itself_makes_them(fake, folder):
    policy = over(fake, folder)
    asked = asking(5)
    asked = [replace(a, key=Key(a.key.value & (2**63 - 1))) for a in asked]  # the seed that both then draw by
    contexts, expected = policy.act(asked), policy.model.act(asked)
    for got, want in zip(contexts, expected, strict=True):
        assert got.tokens.tolist() == want.tokens.tolist()
        assert got.parent == want.parent
        assert (got.ended, got.temperature, got.tokens.dtype) == (want.ended, 1.0, np.int32)
        assert got.chosen.all()
        assert got.versions is not None
        assert got.versions.tolist() == [0] * len(got.tokens)
    np.testing.assert_allclose(theirs(contexts), theirs(expected), atol=1e-4)
    assert policy.context_length == 128
    assert policy.text(contexts[0].tokens) == policy.model.text(contexts[0].tokens)


def test_an_update_reaches_the_server_before_the_next_sample(fake, folder, tmp_path):
    policy = over(fake, folder, folder=str(tmp_path))
    policy.act(asking(2))
    shaken(policy)
    contexts = policy.act(asking(3, version=1))
    policy.act(asking(1, version=1))  # the same weights are not sent twice
    np.testing.assert_allclose(theirs(contexts), own(policy, contexts), atol=1e-4)
    assert [c.versions.tolist() for c in contexts] == [[1] * len(c.tokens) for c in contexts]
    loads = [b["kwargs"]["weights_path"] for b in fake.bodies("/collective_rpc")]
    assert len(loads) == 2
    assert [str(p) for p in tmp_path.iterdir()] == loads[1:]  # the weights before are gone
    salts = [b["cache_salt"] for b in fake.bodies("/v1/completions")]
    assert salts[:2] == [Path(loads[0]).name] * 2
    assert salts[2:] == [Path(loads[1]).name] * 4
    at = fake.paths().index("/v1/completions")
    assert fake.paths()[at - 3 : at] == ["/collective_rpc", "/reset_prefix_cache", "/update_weight_version"]


def test_a_server_of_an_older_version_reads_the_folder_that_it_was_started_on(folder, tmp_path):
    model = LanguageModel.load(folder)
    model.save(tmp_path)
    with serving(FakeVLLM(tmp_path, marks=False)) as fake:
        policy = over(fake, folder, folder=str(tmp_path))
        shaken(policy)
        contexts = policy.act(asking(2, version=1))
        np.testing.assert_allclose(theirs(contexts), own(policy, contexts), atol=1e-4)
        assert [b["kwargs"] for b in fake.bodies("/collective_rpc")] == [{}]
        assert fake.paths().count("/update_weight_version") == 1  # asked once, not there, never asked again
        assert "/weight_info" not in fake.paths()


def test_a_value_head_stays_here(fake, folder, tmp_path):
    model = LanguageModel.load(folder).with_value_head(Key(1), shared=False)
    served(model, VLLMServer(url=fake.url, folder=str(tmp_path)), moves=True, name="policy").act(asking(1))
    assert [f.name for f in tmp_path.rglob("*.safetensors")] == ["model.safetensors"]


def test_the_model_that_is_trained_from_is_never_written_over(folder, tmp_path):
    LanguageModel.load(folder).save(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    with serving(FakeVLLM(tmp_path)) as fake, pytest.raises(UserError, match="start model, which this run would overwrite with trained weights"):
        over(fake, tmp_path, folder=str(tmp_path)).act(asking(1))
    assert (tmp_path / "model.safetensors").read_bytes() == before


def test_tokens_chosen_while_somebody_else_changed_the_weights_are_thrown_away(fake, folder):
    def other_weights(server: FakeVLLM, answer: dict[str, Any]) -> dict[str, Any]:
        server.model, server.version = LanguageModel.load(folder), "another's"
        return answer

    policy = over(fake, folder)
    shaken(policy)
    fake.faults = [None, other_weights, None]  # the third request is answered by other weights
    contexts = policy.act(asking(3, version=4))
    np.testing.assert_allclose(theirs(contexts), own(policy, contexts), atol=1e-4)
    assert {v for c in contexts for v in c.versions.tolist()} == {4}
    assert fake.paths().count("/collective_rpc") == 2
    assert fake.paths().count("/v1/completions") == 6  # all three again


def test_a_server_that_went_away_is_given_the_weights_again(folder):
    def restart(server: FakeVLLM, answer: dict[str, Any]) -> None:
        server.model = LanguageModel.load(folder)  # as it was started

    with serving(FakeVLLM(folder, marks=False)) as fake:
        policy = over(fake, folder, requests=1)
        shaken(policy)
        fake.faults = [None, restart]
        contexts = policy.act(asking(4, version=2))
        np.testing.assert_allclose(theirs(contexts), own(policy, contexts), atol=1e-4)
        assert fake.paths().count("/collective_rpc") == 2


def test_a_server_that_stays_away_is_an_error_in_a_sentence(folder):
    with serving(FakeVLLM(folder)) as fake:
        policy = over(fake, folder, retries=1)
    with pytest.raises(UserError, match=r"gave no complete answer in 2 attempts: /.*; check that the server runs"):
        policy.act(asking(2))


def test_aborted_requests_alone_are_sampled_again(fake, folder):
    def aborted(server: FakeVLLM, answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "choices": [{**answer["choices"][0], "finish_reason": "abort"}]}

    policy = over(fake, folder)
    fake.faults = [None, aborted]
    policy.act(asking(3))
    assert fake.paths().count("/v1/completions") == 4
    fake.faults = [aborted] * 99
    with pytest.raises(UserError, match="requests were aborted"):
        policy.act(asking(1))


def test_a_server_with_other_weights_is_found_out(fake, folder):
    policy = over(fake, folder, moves=False)
    policy.act(asking(3))
    assert "/collective_rpc" not in fake.paths()  # a frozen player's weights are those that the server was started with
    other = over(fake, folder, moves=False)
    shaken(other)
    with pytest.raises(UserError, match=r"nats per token, but players.\*.engine.tolerance is 0.25; start the server with the weights of"):
        other.act(asking(3))
    loose = over(fake, folder, moves=False, tolerance=50.0)
    shaken(loose)
    loose.act(asking(3))


@pytest.mark.parametrize(
    ("mode", "sampling", "refused"),
    [
        ("raw", {"temperature": 1.0}, None),
        ("raw", {"temperature": 1.0, "top_p": 0.9}, None),
        ("raw", {"temperature": 0.0, "top_p": 0.9}, None),
        ("raw", {"temperature": 0.7}, "--logprobs-mode processed_logprobs"),
        ("raw", {"temperature": 0.7, "top_k": 5}, "leave out `top_k`, `top_p` and `min_p`"),
        ("processed", {"temperature": 0.7}, None),
        ("processed", {"temperature": 1.0, "min_p": 0.1}, "--logprobs-mode raw_logprobs"),
        ("processed", {"temperature": 0.005}, "at least 0.01"),
    ],
)
def test_only_log_probabilities_of_the_full_tempered_distribution_are_taken(folder, mode, sampling, refused):
    with serving(FakeVLLM(folder, mode=mode)) as fake:
        policy = over(fake, folder)
        if refused is not None:
            with pytest.raises(UserError, match=refused):
                policy.act(asking(1, **sampling))
            return
        contexts = policy.act(asking(3, **sampling))
        np.testing.assert_allclose(theirs(contexts), own(policy, contexts), atol=1e-4)


def test_a_prompt_that_leaves_no_room_is_refused_and_a_full_context_ends_a_sample(fake, folder):
    fake.longest = 10
    policy = over(fake, folder)
    assert policy.context_length == 10
    contexts = policy.act(asking(6))  # 4 tokens of prompt leave 6 of the 12
    assert {c.ended for c in contexts if len(c.tokens) == 6 and c.tokens[-1] != 1} == {Ended.CONTEXT}
    with pytest.raises(UserError, match=r"together may have at most 10 tokens; shorten"):
        policy.act([replace(asking(1)[0], parent=prompt_context(range(20, 30)), at=10)])


def test_weights_of_two_versions_are_never_asked_for_at_once(fake, folder):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        over(fake, folder).act([*asking(1), *asking(1, version=1)])


GOOD = Answer([5, 6, 1], [-1.0, -0.5, -0.1], "stop")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"logprobs": None}, "no log-probabilities"),
        ({"logprobs": [-1.0, -0.5]}, "3 tokens and 2 log-probabilities"),
        ({"tokens": [5, 6, 1, 1, 1], "logprobs": [-1.0] * 5}, "1 to 4 were requested"),
        ({"tokens": [], "logprobs": []}, "it has 0 tokens, but 1 to"),
        ({"tokens": [5, 98, 1]}, "outside the model's vocabulary of 98"),
        ({"tokens": [5, -1, 1]}, "outside the model's vocabulary"),
        ({"tokens": [5, 1.5, 1]}, "outside the model's vocabulary"),
        ({"logprobs": [-1.0, float("nan"), -0.1]}, "not a number of 0 or less"),
        ({"logprobs": [-1.0, 0.7, -0.1]}, "not a number of 0 or less"),
        ({"logprobs": [-1.0, None, -0.1]}, "not a number of 0 or less"),
        ({"tokens": [5, 1, 6]}, r"went on after an end token \(1\)"),
        ({"reason": "length"}, "ended after 3 of 4 tokens with the reason 'length'"),
        ({"reason": None}, "with the reason None"),
    ],
)
def test_answers_that_no_sampling_can_have_given_are_refused(changes, said):
    job = Job(np.array([3], np.int32), Sampling(max_tokens=4), 0)
    assert checked(GOOD, job, 4, (1,), 98).tokens.tolist() == [5, 6, 1]
    with pytest.raises(UserError, match=said):
        checked(replace(GOOD, **changes), job, 4, (1,), 98)


def test_the_end_of_an_answer_is_told_as_the_engine_tells_it():
    job = Job(np.array([3], np.int32), Sampling(max_tokens=3), 0)
    assert checked(GOOD, job, 3, (1,), 98).ended is Ended.STOP
    assert checked(replace(GOOD, reason="length"), job, 3, (), 98).ended is Ended.LENGTH
    assert checked(Answer([5, 6], [-1.0, 1e-7], "length"), job, 2, (1,), 98).ended is Ended.CONTEXT
    assert checked(Answer([5, 6], [-1.0, 1e-7], "length"), job, 2, (1,), 98).logprobs.tolist() == [-1.0, 0.0]


def test_what_is_no_language_model_cannot_be_sampled_by_vllm():
    with pytest.raises(UserError, match=r"players.policy.engine is VLLM, which samples only from language models"):
        served(object(), VLLM(), moves=True, name="policy")


def test_the_engine_is_a_field_of_the_player(fake, folder):
    grpo = gradus.load_recipe("grpo")
    given = [("players.policy.engine.url", fake.url), ("players.policy.engine", "VLLMServer"), ("players.policy.engine.retries", "1")]
    assert override_all(grpo, given).players["policy"].engine == VLLMServer(url=fake.url, retries=1)
    run = gradus.train(
        override_all(grpo, given), "arithmetic", model=str(folder), profile="tiny", steps=2, setting__prompts=2, setting__group=3,
        setting__max_tokens=4, study=None,
    )  # fmt: skip
    assert len(run.metrics) == 2
    assert fake.paths().count("/collective_rpc") == 2  # before each step's samples; the reference is scored here
    assert fake.paths().count("/v1/completions") == 12
    assert run.players["policy"].updates == 2
