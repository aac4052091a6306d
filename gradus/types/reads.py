"""The fit of what is shown and what a model reads."""

from __future__ import annotations

from typing import Any

from gradus.types.errors import UserError
from gradus.types.media import shown

THINGS = {"image": "pictures", "video": "videos", "audio": "sound", "array": "arrays"}


def check_reads(policy: Any, prompt: Any, whose: str) -> None:
    """Raises UserError if the messages hold media that the policy cannot read; the error names the model and a remedy."""
    if not isinstance(prompt, tuple | list):
        return
    needed = {media.kind for media in shown(prompt)}
    if needed:
        check_kinds(policy, needed, whose)


def check_kinds(policy: Any, kinds: set[str], whose: str) -> None:
    """Raises UserError if the policy cannot read media of these kinds."""
    lacking = sorted(kinds - policy.reads)
    if lacking:
        source = getattr(getattr(policy, "folder", None), "source", None)
        name = f'the model "{source}"' if source else "the model"
        reads = ", ".join(sorted(policy.reads)) or "nothing"
        things = " and ".join(THINGS.get(kind, kind) for kind in lacking)
        raise UserError(f"{whose} shows {things}, but {name} reads {reads}; take a model that reads {things} with --model, or problems of text")
