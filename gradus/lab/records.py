"""Files with one JSON object per line and step, such as metrics.jsonl."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gradus.lab.atomic_files import room
from gradus.types import UserError


def append(path: Path, step: int, values: Mapping[str, Any]) -> None:
    """Appends one line with the step and then the values in the order of their names. NaN and infinity are written as null."""
    record = {"step": step, **{name: _number(values[name]) for name in sorted(values) if name != "step"}}
    with room(path.parent, path.name), open(path, "ab") as file:
        file.write((json.dumps(record, allow_nan=False) + "\n").encode())


def _number(value: Any) -> Any:
    """Returns a plain value. An array with one number becomes this number."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def records(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yields each record of a file with its line. Skips an unfinished last line. Raises UserError if any other line is broken."""
    try:
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; move this file away to continue without it") from error
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):  # only the last line can be unfinished
            return
        try:
            record = json.loads(line)
            record["step"] + 0
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{path}, line {number} is not a record of a step; delete this line to continue") from error
        yield record, line
