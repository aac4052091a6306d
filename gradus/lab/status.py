"""The file with the present state of a run. Another process reads the file and shows the run (`gradus top`).

The run replaces the file several times per second while it trains. The file describes the machine and the clock, so two equal runs have different files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradus.lab.atomic_files import write

STATUS = "status.json"
FORM = 1  # the version of the file's fields


def write_status(folder: Path, status: Mapping[str, Any]) -> None:
    """Replaces the file atomically, without a flush to the disk. Raises OSError if the disk refuses."""
    write(folder / STATUS, json.dumps({"form": FORM, **status}, allow_nan=False).encode(), synced=False)


def read_status(folder: Path) -> dict[str, Any] | None:
    """Returns the state of a run; None if there is no file, or if a version with other fields wrote it."""
    try:
        found = json.loads((folder / STATUS).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("form") == FORM else None
