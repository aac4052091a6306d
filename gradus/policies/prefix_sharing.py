"""Finds families of contexts that share a prefix.

Only the tokens, the media and the latent inputs of a prefix count; the division of a sequence into contexts and parents has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradus.types import Context


@dataclass(frozen=True)
class Family:
    """Contexts whose sequences begin with the same `shared` tokens and the same media."""

    shared: int
    members: tuple[int, ...]  # indices, in order


def families(contexts: Sequence[Context]) -> list[Family]:
    """Returns the families of all contexts with actions. Each context is in one family.

    Contexts with the same inherited prefix form a family. If no other context has the inherited prefix of a context, the context is alone, for example the
    only fork of a sample. Contexts that are alone form a family if they have the same opening, which is the part before the first chosen token.
    """
    acting = [i for i, context in enumerate(contexts) if context.actions]
    near = _by_beginning(contexts, acting, {i: _inherited(contexts[i]) for i in acting})
    alone = [family.members[0] for family in near if len(family.members) == 1]
    far = _by_beginning(contexts, alone, {i: opening(contexts[i]) for i in alone})
    return [family for family in near if len(family.members) > 1] + far


def opening(context: Context) -> int:
    """Returns the number of tokens before the first chosen token, which may be in this context or in its parents."""
    if context.parent is None:
        return int(context.chosen.argmax()) if context.actions else len(context.tokens)
    parent, at = context.parent
    before = opening(parent)
    if before < at:
        return before
    return at + (int(context.chosen.argmax()) if context.actions else len(context.tokens))


def _inherited(context: Context) -> int:
    return opening(context) if context.parent is None else len(context.prefix)


def _by_beginning(contexts: Sequence[Context], indices: Sequence[int], lengths: dict[int, int]) -> list[Family]:
    groups: dict[bytes, list[int]] = {}
    for i in indices:
        groups.setdefault(contexts[i].beginning(lengths[i]) + _latents(contexts[i], lengths[i]), []).append(i)
    return [Family(lengths[members[0]], tuple(members)) for members in groups.values()]


def _latents(context: Context, count: int) -> bytes:
    """Returns the latent inputs among the first `count` tokens as bytes; no bytes if only later tokens have latent inputs."""
    parts, line, most = list[bytes](), context, count
    while most > 0:
        if "inputs" in line.streams and line.actions:
            inside = line.action_positions < most
            parts.append(line.streams["inputs"][inside].tobytes())
        if line.parent is None:
            break
        line, at = line.parent
        most = min(most, at)
    return b"".join(parts)
