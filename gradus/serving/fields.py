"""The fields of a request's JSON: the known fields and their types.

Some fields are accepted only with a value that has no effect.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradus.serving.errors import Refused, wrong
from gradus.types.errors import nearest

COMMON = (
    *("model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "n", "seed", "stop", "stream", "stream_options", "logprobs"),
    "include_stop_str_in_output",
)
CHAT = (*COMMON, "messages", "max_completion_tokens", "top_logprobs")
TEXT = (*COMMON, "prompt", "echo")
IGNORED = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")
"""Fields that are only for the operator of a server. The model does not need them."""
NEUTRAL: Mapping[str, Sequence[Any]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "suffix": ("",),
    "best_of": (1,),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "verbosity": (),
    "web_search_options": (),
}
"""Unsupported fields of the protocol, each with the values that have no effect. The value null has no effect in any field."""


def body_of(raw: bytes, known: Sequence[str]) -> dict[str, Any]:
    """Returns the given fields of a request, without fields that are null or have no effect here.

    Raises: Refused (400) for text that is not a JSON object, for an unknown field, and for a field that is not supported.
    """
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON ({error}); send one JSON object") from None
    if not isinstance(found, dict):
        raise Refused(400, f'the body is {_kind(found)}; send one JSON object, such as {{"model": ...}}')
    given = {name: value for name, value in found.items() if value is not None}
    for name, value in given.items():
        if name in known or name in IGNORED:
            continue
        if name not in NEUTRAL:
            near = nearest(name, [*known, *NEUTRAL])
            raise wrong(name, f'unknown field "{name}"{near}; leave it out (known fields: {", ".join(sorted(known))})')
        if not any(value == v and (type(value) is type(v) or _number(value)) for v in NEUTRAL[name]):
            raise wrong(name, f"`{name}` is not supported; leave it out")
    return {name: value for name, value in given.items() if name in known}


def whole(body: Mapping[str, Any], name: str, default: int, least: int, most: int | None = None) -> int:
    """Returns the value of the field `name`: a whole number from `least` to `most`."""
    value = body.get(name, default)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    limits = f"from {least} to {most}" if most is not None else f"{least} or more"
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        raise wrong(name, f"`{name}` is {_shown(value)}; it must be a whole number, {limits}")
    return value


def real(body: Mapping[str, Any], name: str, default: float) -> float:
    value = body.get(name, default)
    if not _number(value) or not math.isfinite(value):
        raise wrong(name, f"`{name}` is {_shown(value)}; it must be a number")
    return float(value)


def flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise wrong(name, f"`{name}` is {_shown(value)}; it must be true or false")
    return value


def text(name: str, value: Any) -> str:
    """Returns the value, which must be text that UTF-8 can encode."""
    if not isinstance(value, str):
        raise wrong(name, f"`{name}` is {_kind(value)}; it must be text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise wrong(name, f"`{name}` has half a character (a lone surrogate) at place {error.start}; send whole characters") from None
    return value


def stops(body: Mapping[str, Any], most: int) -> tuple[str, ...]:
    """Returns the stop strings: one text, or a list of texts."""
    value = body.get("stop", [])
    found = tuple(text("stop", stop) for stop in ([value] if isinstance(value, str) else value if isinstance(value, list) else [value]))
    if "" in found:
        raise wrong("stop", "`stop` has an empty text, which every answer contains; remove the empty text")
    if len(found) > most:
        raise wrong("stop", f"`stop` has {len(found)} texts; give at most {most}")
    return found


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 40 else f"{shown[:36]} ..."
