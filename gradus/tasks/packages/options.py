"""Several options in one text, such as `--task.config is_slippery=false,map_name=8x8`. Only the package itself knows these options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gradus.types import UserError

Pairs = tuple[tuple[str, str], ...]
"""Options with their values as JSON text, sorted by name. So equal options give equal pairs, and the pairs can be stored."""


def pairs_of(task: str, text: str, option: str = "config") -> Pairs:
    """Returns the options in `text`, the value of --task.`option`. The form is key=value,key=value or a JSON object. Raises UserError if the text cannot be
    read."""
    try:
        given = json.loads(text) if text.lstrip().startswith("{") else dict(_pair(pair) for pair in text.split(",") if pair.strip())
    except ValueError:
        raise UserError(f'{task}: --task.{option} "{text}" cannot be read; write key=value,key=value or a JSON object') from None
    return tuple(sorted((name, json.dumps(value)) for name, value in given.items()))


def values(pairs: Pairs) -> Mapping[str, Any]:
    """Returns the options with their values."""
    return {name: json.loads(text) for name, text in pairs}


def shown(pairs: Pairs) -> str:
    """Returns the options as key=value, for messages."""
    return ", ".join(f"{name}={text}" for name, text in pairs)


def _pair(text: str) -> tuple[str, Any]:
    """Returns the name and the value in "name=value". A value that is not JSON is a text. Raises ValueError if there is no `=`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(text)
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value.strip()
