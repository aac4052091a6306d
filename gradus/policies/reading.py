"""Computes the rows of every `Want` from an opened pass, for policies of every kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gradus.types import Key, UserError
from gradus.types.returned import named
from gradus.types.signals import Want


def read(opened: Any, wants: Sequence[Want], key: Key) -> dict[Want, Tensor]:
    """Returns the rows of every want, in float32 at least.

    The rows are computed from values of the pass. Each value is a method of `types.signals.Opened` that belongs to an ability of the policy. Wants that read
    hidden states are computed first, so the pass to the last layer continues from these states. Raises UserError if a `Want` does not give one row
    per action.
    """
    order = sorted(range(len(wants)), key=lambda i: not wants[i].needed & {"hidden"})
    found: dict[Want, Tensor] = {}
    for i in order:
        want = wants[i]
        if type(want).rows is Want.rows:
            raise UserError(f"{named(want)} has no method `rows`; write def rows(self, opened, key), which returns one row per action")
        rows = want.rows(opened, key)
        actions = sum(c.actions for c in opened.contexts)
        if not isinstance(rows, Tensor) or rows.ndim == 0 or len(rows) != actions:
            shape = f"a tensor of shape {list(rows.shape)}" if isinstance(rows, Tensor) else repr(rows)[:60]
            raise UserError(f"{named(want, 'rows')} returned {shape} for {actions} actions; it must return one row per action, [{actions}, ...]")
        found[want] = rows if rows.dtype in (torch.float32, torch.float64) or not rows.is_floating_point() else rows.float()
    return {want: found[want] for want in wants}


def check_offered(wants: Sequence[Want], can: frozenset[str], policy: str) -> None:
    """Raises UserError if a `Want` in `wants` needs an ability that the policy lacks. `policy`: its description for the message."""
    for want in wants:
        if lacking := sorted(want.needed - can):
            raise UserError(f"{policy} does not offer {type(want).__name__}, which needs {lacking[0]}; {remedy(lacking[0], can)}")


OF_WORLDS: Mapping[str, str] = {
    "drawn": "use a task whose actions are numbers (Box), such as pendulum, or another recipe",
    "q_of_candidates": "use a task whose actions are numbers (Box), such as pendulum, or another recipe",
    "q_of_all": "use a task whose actions are a Choice, such as cartpole, or another recipe",
}
"""The remedy if a controller lacks an ability because of the task's actions."""


def remedy(lacking: str, can: frozenset[str], player: str = "", other: str = "use another policy or recipe") -> str:
    """Returns the remedy if a policy with the abilities `can` lacks an ability, as the end of a sentence.

    `other`: the remedy if no head and no other player adds the ability.
    """
    place = f"players.{player}.model=" if player else "model="
    if lacking.startswith("row:"):
        name = lacking.removeprefix("row:")
        return f'give the player a head over the vocabulary: {place}Head(of=Copy("policy"), outputs=("{name}",), over="vocabulary")'
    if lacking.startswith("divergence:"):
        return f"add a language model with the same tokenizer as a player: players.{lacking.split(':', 2)[2]}.model=FOLDER"
    if lacking.startswith("head:"):
        name, there = lacking.removeprefix("head:"), sorted(other.removeprefix("head:") for other in can if other.startswith("head:"))
        seen = f"its heads are {', '.join(there)}; " if there else ""
        outputs = "" if name == "value" else f', outputs=("{name}",)'
        return f'{seen}give the player a {"value head" if name == "value" else "head of this name"}: {place}Head(of=Copy("policy"){outputs})'
    return OF_WORLDS.get(lacking, other)
