"""Turns a request into jobs of the engine: prompts, sampling settings, and keys of the random draws."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.policies.jobs import Job, check_job
from gradus.serving import fields
from gradus.serving.errors import wrong
from gradus.types import Key, Message, Sampling, UserError

MOST_CHOICES, MOST_STOPS, MOST_LIKELY = 128, 64, 20
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


@dataclass(frozen=True)
class Defaults:
    """The values for missing fields of a request, and the system message for conversations without a system message."""

    sampling: Sampling = Sampling(temperature=0.7, max_tokens=512)
    system: str | None = None


@dataclass(frozen=True, eq=False)
class Asked:
    """One request. The `jobs` are in the order of the choices. The choices of the first prompt come first."""

    chat: bool
    prompts: tuple[np.ndarray, ...]
    jobs: tuple[Job, ...]
    choices: int  # number of choices per prompt
    stream: bool
    usage: bool  # whether the stream ends with the numbers of tokens
    logprobs: int | None  # number of most likely tokens that are reported at each position; None: no log-probabilities
    echo: bool  # whether the answer begins with the prompt
    sampled: bool  # False: the request asks only for the prompt
    keep_stop: bool


def conversation_key(seed: int, said: int) -> Key:
    """Returns the key of the answer to a conversation of `said` messages, without the system message.

    `gradus chat --seed` uses the same key.
    """
    return Key(seed).fold("chat").fold(said)


def chat_request(body: Mapping[str, Any], model: Any, defaults: Defaults) -> Asked:
    """Returns a request for the next message of a conversation. Raises: Refused (400)."""
    messages = _messages(body, defaults.system)
    wanted = fields.flag(body, "logprobs")
    likely = fields.whole(body, "top_logprobs", 0, 0, MOST_LIKELY)
    if likely and not wanted:
        raise wrong("top_logprobs", "`top_logprobs` needs `logprobs`; set `logprobs` to true")
    limit = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
    prompt = _tokens(model, messages, "messages")
    said = sum(m["role"] != "system" for m in messages)
    return _asked(body, model, defaults, True, (prompt,), said, limit, likely if wanted else None)


def text_request(body: Mapping[str, Any], model: Any, defaults: Defaults) -> Asked:
    """Returns a request to continue texts. Raises: Refused (400)."""
    logprobs = fields.whole(body, "logprobs", 0, 0, MOST_LIKELY) if "logprobs" in body else None
    prompts = tuple(_prompt(one, model) for one in _listed(body))
    return _asked(body, model, defaults, False, prompts, 1, "max_tokens", logprobs)


def _asked(
    body: Mapping[str, Any],
    model: Any,
    defaults: Defaults,
    chat: bool,
    prompts: tuple[np.ndarray, ...],
    said: int,
    limit: str,
    logprobs: int | None,
) -> Asked:
    choices, echo = fields.whole(body, "n", 1, 1, MOST_CHOICES), fields.flag(body, "echo")
    sampled = not (echo and body.get("max_tokens") == 0)
    if body.get(limit) == 0 and sampled:
        raise wrong(
            limit, f"`{limit}` is 0; give 1 or more" + ("" if chat else ", or set `echo` to true to get only the log-probabilities of the prompt")
        )
    sampling = _sampling(body, defaults.sampling, limit if sampled else "")
    seed = fields.whole(body, "seed", 0, 0, 2**64 - 1) if "seed" in body else None
    jobs = []
    for number, prompt in enumerate(prompts):
        # With a seed, an answer does not depend on the other prompts of the request. Without a seed, every prompt has its own random draws.
        key = conversation_key(seed, said) if seed is not None else Key(secrets.randbits(64)).fold(number)
        jobs += [Job(prompt, sampling, (key.fold("choice", i) if i else key).value, logprobs or 0) for i in range(choices)]
    for job in jobs[::choices]:
        _check(job, model, "messages" if chat else "prompt", sampled)
    options = body.get("stream_options", {})
    if not isinstance(options, dict) or not set(options) <= {"include_usage", "include_obfuscation"}:
        raise wrong("stream_options", '`stream_options` must be an object, such as {"include_usage": true}')
    return Asked(
        chat=chat,
        prompts=prompts,
        jobs=tuple(jobs) if sampled else (),
        choices=choices,
        stream=fields.flag(body, "stream"),
        usage=fields.flag({k: v for k, v in options.items() if v is not None}, "include_usage"),
        logprobs=logprobs,
        echo=echo,
        sampled=sampled,
        keep_stop=fields.flag(body, "include_stop_str_in_output"),
    )


def _sampling(body: Mapping[str, Any], default: Sampling, limit: str) -> Sampling:
    """Returns the settings of a request. `limit` names the field that limits the new tokens; "" if nothing is sampled."""
    try:
        return Sampling(
            temperature=fields.real(body, "temperature", default.temperature),
            top_k=max(0, fields.whole(body, "top_k", default.top_k, -1)),  # -1 is off, too, in the clients of other servers
            top_p=fields.real(body, "top_p", default.top_p),
            min_p=fields.real(body, "min_p", default.min_p),
            max_tokens=fields.whole(body, limit, default.limit, 1) if limit else 1,
            stops=fields.stops(body, MOST_STOPS) if "stop" in body else default.stops,
        )
    except UserError as error:
        said = str(error).removeprefix("sampling: ")
        raise wrong(said.split(" ", 1)[0].strip("`"), said) from None


def _messages(body: Mapping[str, Any], system: str | None) -> list[Message]:
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise wrong("messages", '`messages` must be a list of at least one message, such as [{"role": "user", "content": "12+30"}]')
    messages: list[Message] = [_message(f"messages[{i}]", one) for i, one in enumerate(given)]
    if system and all(m["role"] != "system" for m in messages):
        return [{"role": "system", "content": system}, *messages]
    return messages


def _message(name: str, one: Any) -> Message:
    if not isinstance(one, dict) or one.get("role") not in ROLES:
        role = one.get("role") if isinstance(one, dict) else None
        raise wrong(f"{name}.role", f"`{name}` has the role {role!r}; it must be one of {', '.join(ROLES)}")
    if one.get("tool_calls") or one.get("function_call"):
        raise wrong(f"{name}.tool_calls", f"{name} calls a tool, but tools are not supported; send the call as the text of a message")
    content = one.get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content]
        if None in parts:
            raise wrong(f"{name}.content", f"{name}.content has a part that is not text; send parts of the type text")
        content = "".join(fields.text(f"{name}.content", part) for part in parts)
    return {"role": ROLES[one["role"]], "content": fields.text(f"{name}.content", content)}


def _listed(body: Mapping[str, Any]) -> list[Any]:
    """Returns the prompts. Each prompt is a text or a list of token ids."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, list) and prompt:
        if all(isinstance(one, str) for one in prompt) or all(isinstance(one, list) and one for one in prompt):
            return prompt
        if all(isinstance(one, int) and not isinstance(one, bool) for one in prompt):
            return [prompt]
    raise wrong("prompt", "`prompt` must be text, a list of texts, a list of token ids or a list of lists of token ids, and not empty")


def _prompt(prompt: str | list[Any], model: Any) -> np.ndarray:
    if isinstance(prompt, str):
        return _tokens(model, fields.text("prompt", prompt), "prompt")
    vocabulary = vocabulary_of(model)
    for at, token in enumerate(prompt):
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary:
            raise wrong("prompt", f"`prompt` has {token!r} at place {at}; a token id is a whole number from 0 to {vocabulary - 1}")
    return np.array(prompt, np.int32)


def _tokens(model: Any, prompt: str | Sequence[Message], name: str) -> np.ndarray:
    try:
        return np.asarray(model.opening(prompt).tokens, np.int32)
    except UserError as error:
        raise wrong(name, str(error)) from None


def _check(job: Job, model: Any, name: str, sampled: bool) -> None:
    """Raises Refused (400) if the prompt does not fit the context. If nothing is sampled, the prompt may fill the whole context."""
    try:
        check_job(job, model.context_length + (0 if sampled else 1))
    except UserError as error:
        raise wrong(name, str(error)) from None


def vocabulary_of(model: Any) -> int:
    """Returns the number of token ids in the model's embedding."""
    trunk = model.trunk
    config = trunk.config if hasattr(trunk, "config") else trunk.inner.config.get_text_config()
    return int(config.vocab_size)
