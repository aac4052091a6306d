"""The protocol as OpenAI's own client sees it: answers equal to those of `gradus chat`, streams, stops, log-probabilities, refusals."""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import socket
import threading
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from gradus.cli.chat import Talk, answer
from gradus.policies.scoring import score
from gradus.serving.fields import CHAT, NEUTRAL, TEXT
from gradus.types import Ended, Key, Message, Sampling, UserError
from tests.serving.conftest import Address, eventually, running


def client(served: Address) -> openai.OpenAI:
    return openai.OpenAI(base_url=served.url, api_key="none", max_retries=0)


def user(text: str) -> tuple[Message, ...]:
    return ({"role": "user", "content": text},)


def chatted(model: Any, text: str, sampling: Sampling, seed: int) -> str:
    """The first answer of `gradus chat --seed`."""
    talk = Talk(sampling, Key(seed).fold("chat")).said("user", text)
    return list(answer(model, talk.prompt, talk.sampling, talk.key.fold(len(talk.messages))))[-1]


def sampled(model: Any, prompt: Any, sampling: Sampling, key: Key) -> Any:
    """The engine's own answer to a prompt, alone."""
    from gradus.policies.engine import Job, generate

    job = Job(model.opening(prompt).tokens, sampling, key.value)
    return generate(model.trunk, [job], end_tokens=model.end_tokens, decode_text=model.text, max_context=model.context_length)[0]


@pytest.mark.parametrize("which", ["served", "of_bytes"])
def test_64_streams_at_once_give_the_answers_of_chat(which: str, request: pytest.FixtureRequest) -> None:
    served: Address = request.getfixturevalue(which)
    kinds = [{}, {"temperature": 0.3}, {"temperature": 0.0}, {"temperature": 1.0, "top_p": 0.9}]
    asked = [(f"{12 + i % 9}+{30 + i}", {**kinds[i % 4], "max_tokens": 10 + i, "seed": i % 16}) for i in range(64)]

    async def one(api: openai.AsyncOpenAI, text: str, how: dict[str, Any]) -> tuple[str, int, str | None]:
        stream = await api.chat.completions.create(
            model=served.name,
            messages=list(user(text)),
            stream=True,
            stream_options={"include_usage": True},
            **how,  # type: ignore[call-overload]
        )
        parts, used, finished = [], 0, None
        async for event in stream:
            used = event.usage.completion_tokens if event.usage else used
            for choice in event.choices:
                parts.append(choice.delta.content or "")
                finished = choice.finish_reason or finished
        return "".join(parts), used, finished

    async def all_of_them() -> list[tuple[str, int, str | None]]:
        async with openai.AsyncOpenAI(base_url=served.url, api_key="none", max_retries=0) as api:
            return await asyncio.gather(*(one(api, text, how) for text, how in asked))

    for (text, how), (found, used, finished) in zip(asked, asyncio.run(all_of_them()), strict=True):
        settings = Sampling(**{"temperature": 0.7, **{k: v for k, v in how.items() if k != "seed"}})
        alone = sampled(served.model, user(text), settings, Key(how["seed"]).fold("chat").fold(1))
        assert (found, used) == (served.model.text(alone.tokens), len(alone.tokens))
        assert finished == ("stop" if alone.ended is Ended.STOP else "length")
        assert how["seed"] % 4 or found == chatted(served.model, text, settings, how["seed"])


def test_a_conversation_goes_on_as_in_chat(served: Address) -> None:
    talk = Talk(Sampling(temperature=0.7, max_tokens=20), Key(5).fold("chat"), system="add")
    for text in ("12+30", "1+1", "7"):
        talk = talk.said("user", text)
        expected = list(answer(served.model, talk.prompt, talk.sampling, talk.key.fold(len(talk.messages))))[-1]
        found = client(served).chat.completions.create(model="tiny", messages=list(talk.prompt), seed=5, max_completion_tokens=20)  # type: ignore[arg-type]
        assert found.choices[0].message.content == expected
        talk = talk.said("assistant", expected)


def test_choices_differ_and_the_first_is_the_answer_alone(served: Address) -> None:
    how: dict[str, Any] = {"model": "tiny", "messages": list(user("12+30")), "seed": 3, "temperature": 1.0, "max_tokens": 30}
    one, many = client(served).chat.completions.create(**how), client(served).chat.completions.create(**how, n=8)
    texts = [c.message.content for c in many.choices]
    assert texts[0] == one.choices[0].message.content
    assert len(set(texts)) > 2
    assert [c.index for c in many.choices] == list(range(8))
    assert many.usage is not None
    assert many.usage.prompt_tokens == len(served.model.opening(user("12+30")).tokens)
    unseeded = [client(served).chat.completions.create(**{**how, "seed": None}).choices[0].message.content for _ in range(8)]
    assert len(set(unseeded)) > 1


def test_a_stop_string_ends_the_text_and_is_not_in_it(of_bytes: Address) -> None:
    how: dict[str, Any] = {"model": "bytes", "prompt": "the answer", "seed": 1, "temperature": 1.0, "max_tokens": 120}
    whole = client(of_bytes).completions.create(**how).choices[0].text
    at = next(i for i in range(20, len(whole) - 3) if whole[i : i + 3].isascii() and whole.find(whole[i : i + 3]) == i)
    stop = whole[at : at + 3]
    for kept in (False, True):
        more = {"stop": ["never there", stop], "extra_body": {"include_stop_str_in_output": kept}}
        cut = client(of_bytes).completions.create(**how, **more)
        assert (cut.choices[0].text, cut.choices[0].finish_reason) == (whole[: at + 3 * kept], "stop")
        parts = [event.choices[0].text for event in client(of_bytes).completions.create(**how, **more, stream=True, logprobs=1)]
        assert "".join(parts) == cut.choices[0].text
    tokens = client(of_bytes).completions.create(**how, stop=stop, logprobs=0).choices[0].logprobs
    assert tokens is not None
    assert max(tokens.text_offset or []) < at


def test_log_probabilities_are_those_of_the_engine(served: Address) -> None:
    how: dict[str, Any] = {"model": "tiny", "messages": list(user("12+30")), "seed": 2, "max_tokens": 20, "temperature": 0.8}
    alone = sampled(served.model, user("12+30"), Sampling(temperature=0.8, max_tokens=20), Key(2).fold("chat").fold(1))
    whole = client(served).chat.completions.create(**how, logprobs=True, top_logprobs=3).choices[0]
    assert whole.logprobs is not None
    entries = whole.logprobs.content or []
    assert [e.logprob for e in entries] == alone.logprobs.tolist()
    assert "".join(bytes(e.bytes).decode() for e in entries if e.bytes) == whole.message.content
    for entry in entries:
        values = [top.logprob for top in entry.top_logprobs]
        assert (len(values), values) == (3, sorted(values, reverse=True))
        assert all(abs(top.logprob - entry.logprob) < 1e-5 for top in entry.top_logprobs if top.token == entry.token)
    streamed = [
        e.logprob
        for event in client(served).chat.completions.create(**how, logprobs=True, stream=True)
        for choice in event.choices
        if choice.logprobs
        for e in choice.logprobs.content or []
    ]
    assert streamed == alone.logprobs.tolist()


def test_an_echoed_prompt_has_the_log_probabilities_of_a_full_forward(of_bytes: Address) -> None:
    text = "the answer is 𝄞 42"
    tokens = of_bytes.model.opening(text).tokens
    how: dict[str, Any] = {"model": "bytes", "echo": True, "logprobs": 1, "max_tokens": 0}
    expected = score(of_bytes.model.trunk, tokens, likely=1)
    for prompt in (text, tokens.tolist(), [text], [tokens.tolist()]):
        choice = client(of_bytes).completions.create(prompt=prompt, **how).choices[0]
        assert (choice.text, choice.finish_reason) == (text, "length")
        assert choice.logprobs is not None
        assert choice.logprobs.token_logprobs == [None, *expected.logprobs.tolist()]
        for own, top, (_, values) in zip(
            choice.logprobs.token_logprobs[1:], (choice.logprobs.top_logprobs or [])[1:], expected.likely, strict=True
        ):
            assert max(top.values()) == values[0]
            assert own in top.values()
            assert len(top) == (1 if own == values[0] else 2)
    both = client(of_bytes).completions.create(model="bytes", prompt=text, echo=True, logprobs=1, max_tokens=2, seed=1).choices[0]
    assert both.logprobs is not None
    assert both.text.startswith(text)
    assert (both.logprobs.token_logprobs or [])[1 : len(tokens)] == expected.logprobs.tolist()
    assert len(both.logprobs.token_logprobs or []) == len(tokens) + 2


def test_models_and_health(served: Address) -> None:
    assert [m.id for m in client(served).models.list()] == ["tiny"]
    assert client(served).models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError, match=r'model "tinny" is not served here \(did you mean tiny\?\)'):
        client(served).models.retrieve("tinny")
    assert httpx.get(f"{served.root}/health").json()["status"] == "ok"


CHATS: dict[str, Any] = {"messages": list(user("12+30"))}
WRONG: list[tuple[str, dict[str, Any], str | None, str]] = [
    ("chat/completions", {}, "messages", "`messages` must be a list of at least one message"),
    ("chat/completions", {"messages": []}, "messages", "at least one message"),
    ("chat/completions", {"messages": [{"role": "judge", "content": "x"}]}, "messages[0].role", "it must be one of system, developer"),
    ("chat/completions", {"messages": ["x"]}, "messages[0].role", "has the role None"),
    ("chat/completions", {"messages": [{"role": "user"}]}, "messages[0].content", "is null; it must be text"),
    ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content", "not text"),
    ("chat/completions", {"messages": list(user("\ud800"))}, "messages[0].content", "half a character"),
    ("chat/completions", {"messages": list(user("1" * 600))}, "messages", "prompt of 603 tokens leaves no room for an answer in the model's context of 512"),
    ("chat/completions", {**CHATS, "temperature": -1}, "temperature", "`temperature` is -1.0; it must be 0 (greedy) or more"),
    ("chat/completions", {**CHATS, "temperature": math.nan}, "temperature", "`temperature` is NaN; it must be a number"),
    ("chat/completions", {**CHATS, "temperature": "hot"}, "temperature", '`temperature` is "hot"; it must be a number'),
    ("chat/completions", {**CHATS, "top_p": 0}, "top_p", "`top_p` is 0.0; it must lie in (0, 1]"),
    ("chat/completions", {**CHATS, "max_tokens": 0}, "max_tokens", "`max_tokens` is 0; give 1 or more"),
    ("chat/completions", {**CHATS, "max_completion_tokens": 1.5}, "max_completion_tokens", "is 1.5; it must be a whole number, 1 or more"),
    ("chat/completions", {**CHATS, "n": 129}, "n", "`n` is 129; it must be a whole number, from 1 to 128"),
    ("chat/completions", {**CHATS, "n": True}, "n", "`n` is true; it must be a whole number"),
    ("chat/completions", {**CHATS, "seed": -1}, "seed", "`seed` is -1; it must be a whole number, from 0"),
    ("chat/completions", {**CHATS, "stop": [""]}, "stop", "`stop` has an empty text"),
    ("chat/completions", {**CHATS, "stop": 3}, "stop", "`stop` is a number; it must be text"),
    ("chat/completions", {**CHATS, "stop": ["a"] * 65}, "stop", "`stop` has 65 texts; give at most 64"),
    ("chat/completions", {**CHATS, "stream": "yes"}, "stream", '`stream` is "yes"; it must be true or false'),
    ("chat/completions", {**CHATS, "stream_options": {"usage": True}}, "stream_options", "include_usage"),
    ("chat/completions", {**CHATS, "top_logprobs": 2}, "top_logprobs", "`top_logprobs` needs `logprobs`"),
    ("chat/completions", {**CHATS, "logprobs": True, "top_logprobs": 21}, "top_logprobs", "from 0 to 20"),
    ("chat/completions", {**CHATS, "tools": [{"type": "function"}]}, "tools", "`tools` is not supported; leave it out"),
    ("chat/completions", {**CHATS, "response_format": {"type": "json_object"}}, "response_format", "`response_format` is not supported"),
    ("chat/completions", {**CHATS, "frequency_penalty": 0.5}, "frequency_penalty", "`frequency_penalty` is not supported"),
    ("chat/completions", {**CHATS, "temprature": 1}, "temprature", 'unknown field "temprature" (did you mean temperature?)'),
    ("completions", {}, "prompt", "`prompt` must be text, a list of texts, a list of token ids"),
    ("completions", {"prompt": []}, "prompt", "not empty"),
    ("completions", {"prompt": ["a", 1]}, "prompt", "`prompt` must be text"),
    ("completions", {"prompt": ""}, "prompt", "a prompt has no tokens"),
    ("completions", {"prompt": [1, 10**6]}, "prompt", "`prompt` has 1000000 at place 1; a token id is a whole number from 0 to"),
    ("completions", {"prompt": [[1, -2]]}, "prompt", "`prompt` has -2 at place 1"),
    ("completions", {"prompt": [[1, True]]}, "prompt", "`prompt` has True at place 1"),
    ("completions", {"prompt": "a", "max_tokens": 0}, "max_tokens", "or set `echo` to true to get only the log-probabilities of the prompt"),
    ("completions", {"prompt": "a", "logprobs": 21}, "logprobs", "`logprobs` is 21; it must be a whole number, from 0 to 20"),
    ("completions", {"prompt": [1] * 513, "max_tokens": 0, "echo": True}, "prompt", "prompt of 513 tokens leaves no room for an answer in"),
    ("completions", {"prompt": "a", "best_of": 3}, "best_of", "`best_of` is not supported"),
]


@pytest.mark.parametrize(("path", "body", "param", "sentence"), WRONG)
def test_a_malformed_request_gets_400_with_a_sentence(served: Address, path: str, body: dict[str, Any], param: str, sentence: str) -> None:
    found = httpx.post(f"{served.url}/{path}", content=json.dumps(body))
    error = found.json()["error"]
    assert (found.status_code, error["param"], error["type"]) == (400, param, "invalid_request_error")
    assert sentence in error["message"]


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"[]", "the body is a list; send one JSON object"),
        (b"\xff\xfe", "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
    ],
)
def test_a_body_that_is_no_object_is_refused(served: Address, raw: bytes, sentence: str) -> None:
    found = httpx.post(f"{served.url}/completions", content=raw)
    assert found.status_code == 400
    assert sentence in found.json()["error"]["message"]


def test_fields_that_change_nothing_are_taken(served: Address) -> None:
    neutral = {name: values[0] for name, values in NEUTRAL.items() if values}
    body = {**CHATS, **neutral, "user": "me", "max_tokens": 1, "temperature": None, "top_k": -1, "logprobs": None}
    assert httpx.post(f"{served.url}/chat/completions", json=body).status_code == 200
    assert set(NEUTRAL).isdisjoint({*CHAT, *TEXT})


def test_unknown_paths_methods_and_models(served: Address) -> None:
    found = httpx.post(f"{served.url}/chat/completion", json=CHATS)
    assert (found.status_code, found.json()["error"]["code"]) == (404, "unknown_path")
    assert "did you mean /v1/chat/completions" in found.json()["error"]["message"]
    assert httpx.get(f"{served.url}/completions").status_code == 405
    with pytest.raises(openai.NotFoundError, match=r'"gpt-4" is not served here; this server has "tiny"'):
        client(served).chat.completions.create(model="gpt-4", messages=list(user("1")))  # type: ignore[arg-type]


def test_a_client_that_hangs_up_frees_its_place(of_bytes: Address) -> None:
    with running(of_bytes.model, "few", rows=2) as few:
        runner = few.server.config.app.app.served.runner
        plain, steps = runner.batch.step, threading.Semaphore(3)
        runner.batch.step = lambda: (steps.acquire(), plain())[1]  # three steps, then the batch stands still
        long = {"prompt": "a", "max_tokens": 200, "seed": 0, "n": 2}
        held = []
        for body in ({**long, "stream": True}, {**long, "stream": False}, {**long, "stream": True}):  # the last ones wait for a place
            connection = http.client.HTTPConnection("127.0.0.1", int(few.root.rpartition(":")[2]))
            connection.request("POST", "/v1/completions", json.dumps(body))
            held.append(connection)
        eventually(lambda: (runner.unfinished, runner.batch.running, steps._value) == (6, 2, 0))
        for connection in held:
            assert connection.sock is not None
            connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()
        eventually(lambda: runner.unfinished == 0)
        steps.release(1000)
        eventually(lambda: not runner.open and not runner.batch.busy)
        assert steps._value > 990  # the places were free long before the answers would have ended
        after = client(few).completions.create(model="few", prompt="a", max_tokens=2, seed=0)
        assert after.usage is not None
        assert after.usage.completion_tokens == 2


def test_too_many_sequences_get_429(of_bytes: Address) -> None:
    with running(of_bytes.model, "few", rows=2, waiting=3) as few:
        with pytest.raises(openai.RateLimitError, match=r"asks for 6 more and the limit is 5 \(2 at once, 3 waiting\)"):
            client(few).completions.create(model="few", prompt="a", n=6)
        assert len(client(few).completions.create(model="few", prompt="a", n=5, max_tokens=3).choices) == 5


def test_a_fault_of_the_engine_ends_the_requests_it_met_and_no_other(of_bytes: Address) -> None:
    with running(of_bytes.model, "weak") as weak:
        runner = weak.server.config.app.app.served.runner
        step = runner.batch.step
        runner.batch.step = lambda: 1 / 0
        with pytest.raises(openai.InternalServerError, match="the engine failed \\(ZeroDivisionError"):
            client(weak).completions.create(model="weak", prompt="a", max_tokens=3)
        assert runner.batch.step != step
        assert client(weak).completions.create(model="weak", prompt="a", max_tokens=3).choices[0].finish_reason in ("stop", "length")


def test_a_temperature_near_zero_harms_nobody(served: Address) -> None:
    for temperature in (1e-30, 1e-300, 1e30):
        found = client(served).chat.completions.create(model="tiny", messages=list(user("1+1")), temperature=temperature, max_tokens=5)  # type: ignore[arg-type]
        assert found.choices[0].finish_reason in ("stop", "length")


def test_a_full_context_ends_with_length(served: Address) -> None:
    prompt = [int(served.model.opening("1").tokens[0])] * 511
    found = client(served).completions.create(model="tiny", prompt=prompt, max_tokens=50, seed=1)
    assert found.usage is not None
    assert found.usage.completion_tokens == 1
    with pytest.raises(openai.BadRequestError, match="prompt of 512 tokens leaves no room for an answer in"):
        client(served).completions.create(model="tiny", prompt=[*prompt, prompt[0]])


def test_a_prompt_is_scored_alike_in_any_company(served: Address) -> None:
    prompts = [served.model.opening("12+30=" + "4" * n).tokens.tolist() for n in (1, 5, 40, 70)]
    how: dict[str, Any] = {"model": "tiny", "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    together = client(served).completions.create(prompt=prompts, **how).choices
    alone = [client(served).completions.create(prompt=prompt, **how).choices[0] for prompt in prompts]
    assert [c.logprobs for c in together] == [c.logprobs for c in alone]
    assert np.isfinite([x for c in alone for x in (c.logprobs.token_logprobs or [])[1:]]).all()  # type: ignore[union-attr, arg-type]


def test_a_reward_model_is_not_served(of_bytes: Address) -> None:
    from gradus.types import Key as K

    with (
        pytest.raises(UserError, match="judge is a reward model, which writes no text"),
        running(of_bytes.model.with_value_head(K(0), shared=False), "judge"),
    ):
        pass
