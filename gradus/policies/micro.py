"""Divides contexts into micro-batches by a fixed rule that depends only on their tokens. The rule affects the memory, but never the result."""

from __future__ import annotations

from collections.abc import Sequence

from gradus.policies.prefix_sharing import Family, families
from gradus.types import Context


def micro_batches(contexts: Sequence[Context], max_tokens: int, *, shared: bool) -> list[list[int]]:
    """Returns micro-batches as indices of contexts. A micro-batch has at most `max_tokens` tokens. Every context is in one micro-batch.

    A context with more tokens forms its own micro-batch. With `shared`, the contexts with a common prefix form a family, and the prefix counts once.
    `balanced_bins` then packs whole families. Without `shared`, contexts of similar length are kept together. Each context of a micro-batch is then padded to
    the length
    of the longest context, and counts with this length.
    """
    return _sharing(contexts, max_tokens) if shared else _padded(contexts, max_tokens)


def balanced_bins(sizes: Sequence[int], capacity: int, least: int = 1) -> list[list[int]]:
    """Packs items into bins by size, the largest item first. Returns the bins as indices of items. The bin that was opened first comes first.

    Among the bins with enough room, an item goes into the bin with the fewest items. If several bins have equally few items, the item goes into the bin with
    the smallest sum, and then into the earliest bin. An item
    opens a new bin if no bin has room, or if there are fewer than `least` bins. So the bins are balanced. An item above the capacity has its own bin.

    Source: the rule of AReaL's public trainer (areal/utils/seqpack.py, `ffd`; Fu et al., arXiv:2505.24298). AReaL's trainer rejects an item above the
    capacity.

    >>> balanced_bins([10, 4, 3, 2], 14, least=2)
    [[0, 3], [1, 2]]
    """
    bins: list[list[int]] = []
    sums: list[int] = []
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        room = [b for b, used in enumerate(sums) if used + sizes[i] <= capacity]
        if len(bins) < least or not room:
            bins.append([i])
            sums.append(sizes[i])
            continue
        chosen = min(room, key=lambda b: (len(bins[b]), sums[b]))
        bins[chosen].append(i)
        sums[chosen] += sizes[i]
    return bins


def _sharing(contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
    pieces = [piece for family in families(contexts) for piece in _pieces(contexts, family, max_tokens)]
    batches = [[i for k in sorted(chosen) for i in pieces[k][0]] for chosen in balanced_bins([tokens for _, tokens in pieces], max_tokens)]
    silent = [i for i, context in enumerate(contexts) if not context.actions]  # contexts without actions take no memory
    if not batches:
        return [silent] if silent else []
    return [silent + batches[0], *batches[1:]]


def _pieces(contexts: Sequence[Context], family: Family, max_tokens: int) -> list[tuple[list[int], int]]:
    """Splits a family (a prefix and its suffixes) into parts that fit into a micro-batch. Returns (members, tokens) of each part. Each part contains the
    prefix."""
    own = [len(contexts[i].sequence) - family.shared for i in family.members]
    bins = balanced_bins(own, max_tokens - family.shared)
    return [([family.members[k] for k in sorted(chosen)], family.shared + sum(own[k] for k in chosen)) for chosen in bins]


def _padded(contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for i in sorted(range(len(contexts)), key=lambda i: -len(contexts[i].sequence)):
        longest = len(contexts[batches[-1][0]].sequence) if batches else 0
        if not batches or (len(batches[-1]) + 1) * longest > max_tokens:
            batches.append([])
        batches[-1].append(i)
    return batches
