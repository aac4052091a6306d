"""Reads values of config.json and checks their types. The module also has the error for fields that the decoder does not implement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gradus.types import UserError


class Unsupported(Exception):
    """The error for a configuration that the decoder does not implement. The error contains the field and its value.

    The model then runs through `transformers`.
    """

    def __init__(self, field: str, value: Any) -> None:
        super().__init__(f"config.json has {field} = {value!r}, which the built-in decoder does not implement")
        self.field, self.value = field, value


def size(fields: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """Reads a positive whole number. The result is the default if the field is missing or null. Raises UserError for any other value."""
    value = fields.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"config.json: `{name}` is {value!r}; it must be a positive whole number")
    return value


def number(fields: Mapping[str, Any], name: str, default: float) -> float:
    """Reads a finite number. The result is the default if the field is missing. Raises UserError for any other value."""
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UserError(f"config.json: `{name}` is {value!r}; it must be a finite number")
    return float(value)


def positive(fields: Mapping[str, Any], name: str, default: float) -> float:
    """Reads a number above 0."""
    value = number(fields, name, default)
    if value <= 0:
        raise UserError(f"config.json: `{name}` is {value:g}; it must be above 0")
    return value


def not_negative(fields: Mapping[str, Any], name: str, default: float) -> float:
    """Reads a number of 0 or more."""
    value = number(fields, name, default)
    if value < 0:
        raise UserError(f"config.json: `{name}` is {value:g}; it must be 0 or more")
    return value


def optional_number(fields: Mapping[str, Any], name: str, default: float | None) -> float | None:
    """Reads a number or null."""
    return None if fields.get(name, default) is None else number(fields, name, default or 0.0)


def optional_positive(fields: Mapping[str, Any], name: str, default: float | None) -> float | None:
    """Reads a number above 0, or null."""
    return None if fields.get(name, default) is None else positive(fields, name, default or 0.0)


def flag(fields: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """Reads true or false; null means false. The result is the default if the field is missing. Raises UserError for any other value."""
    value = fields.get(name, default)
    if value is not None and not isinstance(value, bool):
        raise UserError(f"config.json: `{name}` is {value!r}; it must be true or false")
    return bool(value)
