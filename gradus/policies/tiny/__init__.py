"""The built-in models: small decoders over single characters, pre-trained on worked solutions by `make tiny`."""

from __future__ import annotations

from pathlib import Path

from gradus.types import unknown

MADE_FOR: dict[str, dict[str, int]] = {
    "base": {"string_ops": 3, "arithmetic": 3, "countdown": 3, "knights_knaves": 2},
    "puzzles": {"sudoku": 2, "zebra": 1, "planning": 1, "sorting": 1},
    "formal": {"logic": 2, "sat": 2, "graphs": 2},
    "words": {"classification": 2, "multiple_choice": 2, "instructions": 2, "keychain": 2, "translation": 2},
}
"""The tasks that each model can begin to solve, and at which level; `base` also plays the small environments."""


def folder(name: str = "base") -> Path:
    """The folder of a built-in model. Raises UserError for an unknown one, naming the nearest."""
    here = Path(__file__).parent
    known = sorted(p.parent.name for p in here.glob("*/config.json"))
    if name not in known:
        raise unknown("built-in model", name, known, "Make them with: make tiny")
    return here / name


def folder_for(task: str | None) -> Path:
    """The folder of the model that was made for a task; for a mixture the one for its first task; `base` for any other and for none."""
    first = (task or "").partition(",")[0].partition(":")[0]
    return folder(next((model for model, tasks in MADE_FOR.items() if first in tasks), "base"))
