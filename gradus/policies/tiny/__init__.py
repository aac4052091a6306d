"""The built-in models: small decoders over single characters, pre-trained on worked solutions by `make tiny`."""

from __future__ import annotations

from pathlib import Path

from gradus.types import unknown


def folder(name: str = "base") -> Path:
    """The folder of a built-in model. Raises UserError for an unknown one, naming the nearest."""
    here = Path(__file__).parent
    known = sorted(p.parent.name for p in here.glob("*/config.json"))
    if name not in known:
        raise unknown("built-in model", name, known, "Make them with: make tiny")
    return here / name
