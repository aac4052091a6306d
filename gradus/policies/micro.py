"""How contexts are cut into micro-batches: a fixed rule of their tokens, which changes memory and never the result."""

from __future__ import annotations

from collections.abc import Sequence

from gradus.policies.pack import prefix_key, shared_prefix
from gradus.types import Context


def micro_batches(contexts: Sequence[Context], max_tokens: int, *, shared: bool) -> list[list[int]]:
    """Indices of contexts to evaluate together, every context once, at most `max_tokens` tokens each (a longer context stands alone).

    `shared`: a prefix that several have counts once and they are kept together; else rows are padded to the longest, which is then counted
    for each, and contexts of similar length are kept together.
    """
    return _sharing(contexts, max_tokens) if shared else _padded(contexts, max_tokens)


def _sharing(contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
    groups: dict[bytes, list[int]] = {}
    for i, context in enumerate(contexts):
        groups.setdefault(prefix_key(context), []).append(i)
    batches: list[list[int]] = []
    used = 0
    for members in groups.values():
        prefix = shared_prefix(contexts[members[0]])
        whole = prefix + sum(len(contexts[i].sequence) - prefix for i in members)
        fresh = not batches or (used + whole > max_tokens and used > 0)  # a group that fits nowhere whole starts a batch, then spills over
        for n, i in enumerate(members):
            own = len(contexts[i].sequence) - prefix
            cost = own if n and not fresh else own + prefix
            if fresh or used + cost > max_tokens:
                batches.append([])
                used, cost = 0, own + prefix
            batches[-1].append(i)
            used += cost
            fresh = False
    return batches


def _padded(contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for i in sorted(range(len(contexts)), key=lambda i: -len(contexts[i].sequence)):
        longest = len(contexts[batches[-1][0]].sequence) if batches else 0
        if not batches or (len(batches[-1]) + 1) * longest > max_tokens:
            batches.append([])
        batches[-1].append(i)
    return batches
