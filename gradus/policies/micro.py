"""Divides contexts into micro-batches by a fixed rule that depends only on their tokens. The rule affects the memory, but never the result."""

from __future__ import annotations

from collections.abc import Sequence

from gradus.policies.prefix_sharing import families
from gradus.types import Context


def micro_batches(contexts: Sequence[Context], max_tokens: int, *, shared: bool) -> list[list[int]]:
    """Returns micro-batches as indices of contexts. A micro-batch has at most `max_tokens` tokens. Every context is in one micro-batch.

    A context with more tokens forms its own micro-batch. With `shared`, contexts with a common prefix are kept together, and the prefix counts once. Without
    `shared`, contexts of similar length are kept together. Each context of a micro-batch is then padded to the length of the longest context, and counts with this
    length.
    """
    return _sharing(contexts, max_tokens) if shared else _padded(contexts, max_tokens)


def _sharing(contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
    batches: list[list[int]] = [[i for i, context in enumerate(contexts) if not context.actions]]  # contexts without actions take no memory
    used = 0
    for family in families(contexts):
        lengths = [len(contexts[i].sequence) - family.shared for i in family.members]
        fresh = used > 0 and used + family.shared + sum(lengths) > max_tokens  # a family that does not fit starts a batch, then spills over
        joined = False  # whether this batch already has the prefix
        for i, length in zip(family.members, lengths, strict=True):
            cost = length if joined else length + family.shared
            if fresh or (used > 0 and used + cost > max_tokens):
                batches.append([])
                used, cost, fresh = 0, length + family.shared, False
            batches[-1].append(i)
            used, joined = used + cost, True
    return [batch for batch in batches if batch]


def _padded(contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for i in sorted(range(len(contexts)), key=lambda i: -len(contexts[i].sequence)):
        longest = len(contexts[batches[-1][0]].sequence) if batches else 0
        if not batches or (len(batches[-1]) + 1) * longest > max_tokens:
            batches.append([])
        batches[-1].append(i)
    return batches
