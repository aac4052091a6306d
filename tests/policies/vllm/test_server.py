"""The HTTP side: what is asked of a server word by word, what of its faults is borne, what is said of the others. Against a simulated server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradus.policies.engine import Job
from gradus.policies.lm import LanguageModel
from gradus.policies.vllm import protocol
from gradus.policies.vllm.server import Server
from gradus.types import Key, Sampling, UserError
from gradus.types.players import VLLMServer
from tests.policies.fake_vllm import FakeVLLM, serving
from tests.small_model import save_small_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model(tmp_path_factory.mktemp("small") / "model")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "PAUSE", 0.0)
    monkeypatch.delenv("VLLM_API_KEY", raising=False)


@pytest.fixture
def fake(folder: Path) -> Iterator[FakeVLLM]:
    with serving(FakeVLLM(folder)) as server:
        yield server


def connected(fake: FakeVLLM, **fields: Any) -> Server:
    server = Server(VLLMServer(**{"url": fake.url, "requests": 1, **fields}))
    server.connect()
    return server


def job(**sampling: Any) -> Job:
    return Job(np.array([20, 33, 4], np.int32), Sampling(**{"max_tokens": 5, **sampling}), 2**63 + 9)


def test_a_request_says_everything_outright(fake):
    answer = connected(fake).sample([job(temperature=0.5, top_k=7, top_p=0.9, min_p=0.1, stops=("ab", "\n"))], [5], [1, 3], "weights-1")[0]
    assert answer is not None
    assert len(answer.tokens) == len(answer.logprobs or ())
    (body,) = fake.bodies("/v1/completions")
    assert body == {
        "model": "small",
        "prompt": [20, 33, 4],
        "max_tokens": 5,
        "seed": 9,  # 63 bits of the key
        "n": 1,
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.9,
        "min_p": 0.1,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "min_tokens": 0,
        "ignore_eos": True,
        "stop_token_ids": [1, 3],
        "stop": ["ab", "\n"],
        "include_stop_str_in_output": True,
        "logprobs": 1,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "add_special_tokens": False,
        "cache_salt": "weights-1",
    }


def test_tokens_are_read_from_their_names_where_ids_are_not_given(fake):
    def older(server: FakeVLLM, answer: dict[str, Any]) -> dict[str, Any]:
        choice = answer["choices"][0]
        del choice["token_ids"], choice["prompt_token_ids"]
        return answer

    def oldest(server: FakeVLLM, answer: dict[str, Any]) -> dict[str, Any]:
        choice = older(server, answer)["choices"][0]
        choice["logprobs"]["tokens"] = ["a"] * len(choice["logprobs"]["tokens"])
        return answer

    server = connected(fake)
    fake.faults = [None, older, oldest]
    with_ids, with_names = (server.sample([job()], [5], [1], None)[0] for _ in range(2))
    assert with_ids is not None
    assert with_names is not None
    assert with_ids.tokens == with_names.tokens
    with pytest.raises(UserError, match="returns its tokens as texts and not as numbers"):
        server.sample([job()], [5], [1], None)


def half(server: FakeVLLM, answer: dict[str, Any]) -> tuple[int, bytes]:
    return 200, b'{"id": "cmpl-1", "choices": [{"index": 0, "tex'


def cut(server: FakeVLLM, answer: dict[str, Any]) -> tuple[int, bytes]:
    return 200, b'{"id": "cmpl-1", "choicesCUT'  # fewer bytes come than were announced


def failed(server: FakeVLLM, answer: dict[str, Any]) -> tuple[int, bytes]:
    return 500, b'{"error": {"message": "EngineCore encountered an issue", "type": "InternalServerError", "code": 500}}'


def busy(server: FakeVLLM, answer: dict[str, Any]) -> tuple[int, bytes]:
    return 429, b"too many"


def no_choice(server: FakeVLLM, answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "choices": []}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (half, "is not complete JSON"),
        (cut, r"is incomplete \(IncompleteRead\)"),
        (failed, r"failed with status 500 \(EngineCore encountered an issue\)"),
        (busy, r"status 429 \(too many\)"),
        (no_choice, "is not a completion"),
    ],
)
def test_a_broken_answer_is_asked_for_again_a_few_times(fake, fault, said):
    server = connected(fake, retries=2)
    whole = server.sample([job()], [5], [1], None)[0]
    fake.faults = [fault, fault]
    again = server.sample([job()], [5], [1], None)[0]
    assert whole is not None
    assert again is not None
    assert (again.tokens, again.logprobs) == (whole.tokens, whole.logprobs)  # with the same seed
    fake.faults = [fault] * 3
    with pytest.raises(UserError, match=rf"failed 3 times: .*{said}; read the log of the server"):
        server.sample([job()], [5], [1], None)


def test_pauses_double(fake, monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr(protocol, "PAUSE", 0.5)
    monkeypatch.setattr("gradus.policies.vllm.server.sleep", waited.append)
    fake.faults = [failed] * 3
    connected(fake, retries=3).sample([job()], [5], [1], None)
    assert waited == [0, 0.5, 1.0, 2.0]


def test_a_refused_request_is_told_at_once(fake):
    fake.faults = [lambda *_: (400, b'{"error": {"message": "max_tokens is too large"}}')]
    with pytest.raises(UserError, match=r"refused /v1/completions with status 400 \(max_tokens is too large\)"):
        connected(fake).sample([job()], [5], [1], None)
    assert fake.paths().count("/v1/completions") == 1


def test_an_answer_that_does_not_come_in_time_is_broken(fake):
    def late(server: FakeVLLM, answer: dict[str, Any]) -> None:
        over.wait(60)

    over = threading.Event()
    server = connected(fake, timeout=1.0, retries=0)  # in which a busy machine gives the answers before it, too
    fake.faults = [late]
    with pytest.raises(UserError, match=r"there was no answer to /v1/completions within 1 seconds"):
        server.sample([job()], [5], [1], None)
    over.set()


def test_a_prompt_that_was_read_otherwise_is_refused(fake):
    def longer(server: FakeVLLM, answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "usage": {"prompt_tokens": 4}}

    fake.faults = [longer]
    with pytest.raises(UserError, match="a prompt of 3 tokens as 4 tokens"):
        connected(fake).sample([job()], [5], [1], None)


def test_the_model_is_the_one_that_is_served_or_named(fake):
    server = connected(fake)
    assert (server.model, server.longest, server.reads) == ("small", 128, fake.folder.resolve())
    fake.names = ["small", "small-adapter"]
    with pytest.raises(UserError, match="offers small, small-adapter; set the field `name`"):
        connected(fake)
    assert connected(fake, name="small-adapter").model == "small-adapter"
    with pytest.raises(UserError, match=r'unknown model "smal" \(did you mean small\?\)'):
        connected(fake, name="smal")


def test_a_url_may_end_as_openai_clients_want_it(fake):
    assert connected(fake, url=fake.url + "/v1/").model == "small"


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", "http://127.0.0.1:99999", "http://x:eight", "http://[::1"])
def test_what_is_no_url_is_refused(url):
    with pytest.raises(UserError, match=r"write a url such as http://127\.0\.0\.1:8000"):
        Server(VLLMServer(url=url))


def test_no_server_is_an_error_that_says_how_to_start_one(folder):
    with serving(FakeVLLM(folder)) as gone:
        pass
    with pytest.raises(UserError, match=r"does not answer: /v1/models: .*; start a server with `vllm serve MODEL`"):
        connected(gone)


def test_a_password_in_the_url_is_refused_and_not_repeated():
    with pytest.raises(UserError, match="VLLM_API_KEY") as told:
        Server(VLLMServer(url="http://me:hunter2@127.0.0.1:8000"))
    assert "hunter2" not in str(told.value)


def test_something_else_at_the_url_is_told(fake):
    fake.replies["/v1/models"] = (200, b'{"hello": 1}')
    with pytest.raises(UserError, match="does not list its models as vLLM does"):
        connected(fake)
    fake.replies["/v1/models"] = (200, b"<html>")
    with pytest.raises(UserError, match="does not answer: the answer to /v1/models is not complete JSON"):
        connected(fake)


def test_another_vocabulary_is_refused_and_none_is_believed(fake, folder):
    server, tokenizer = connected(fake), LanguageModel.load(folder).tokenizer
    assert tokenizer is not None
    server.check_vocabulary(lambda text: tokenizer.encode(text, False))
    with pytest.raises(UserError, match="whose vocabulary differs from the vocabulary of the trained model; start the server with the trained model"):
        server.check_vocabulary(lambda text: [1, 2, 3])
    fake.replies["/tokenize"] = (404, b"")
    server.check_vocabulary(lambda text: [1, 2, 3])


def test_a_server_without_the_development_endpoints_takes_no_weights(folder):
    with serving(FakeVLLM(folder, dev=False)) as fake, pytest.raises(UserError, match="start the server with VLLM_SERVER_DEV_MODE=1"):
        connected(fake).load(folder, "one")


def test_weights_that_cannot_be_read_are_told_with_their_folder(fake, tmp_path):
    fake.replies["/collective_rpc"] = (500, b'{"detail": "reload_weights() got an unexpected keyword argument"}')
    with pytest.raises(UserError, match=r"cannot read new weights from .*unexpected keyword argument.*A vLLM server older than 0.16"):
        connected(fake).load(tmp_path, "one")


def test_the_weights_have_the_name_that_they_were_given(fake, folder):
    server = connected(fake)
    server.load(folder, "one")
    assert server.holds("one")
    fake.version = "default"  # as after a restart
    assert not server.holds("one")


def test_the_mode_of_log_probabilities_is_found_by_asking(folder):
    for mode in ("raw", "processed"):
        with serving(FakeVLLM(folder, mode=mode)) as fake:
            assert connected(fake).mode(20) == mode


def test_an_api_key_is_sent_from_the_environment(fake, monkeypatch):
    sent: list[dict[str, str]] = []

    class Connection:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def request(self, method: str, path: str, body: Any, headers: dict[str, str]) -> None:
            sent.append(headers)
            raise ConnectionRefusedError("no")

        def close(self) -> None: ...

    monkeypatch.setattr("gradus.policies.vllm.server.HTTPConnection", Connection)
    for key in (None, "secret"):
        if key:
            monkeypatch.setenv("VLLM_API_KEY", key)
        with pytest.raises(UserError) as told:
            connected(fake)
        assert "secret" not in str(told.value)
    assert [h.get("Authorization") for h in sent] == [None, "Bearer secret"]


def test_many_requests_are_under_way_at_once_and_come_back_in_order(fake):
    jobs = [Job(np.array([20 + i], np.int32), Sampling(max_tokens=3), Key(1).fold(i).value) for i in range(12)]
    together = connected(fake, requests=8).sample(jobs, [3] * 12, [1], None)
    alone = connected(fake).sample(jobs, [3] * 12, [1], None)
    assert [a and a.tokens for a in together] == [a and a.tokens for a in alone]
