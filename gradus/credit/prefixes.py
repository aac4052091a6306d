"""Trees of prefixes: the value of a prefix is the mean reward of the answers that begin with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from gradus.types import Context


def prefix_values(sequences: Sequence[np.ndarray], rewards: np.ndarray) -> list[np.ndarray]:
    """Returns V(s_0), ..., V(s_T) of every sequence, float64 [T + 1]: the mean reward of all sequences that have the same first t entries.

    Args: `sequences`: int [T] each; `rewards`: [G], one per sequence.

    >>> [v.tolist() for v in prefix_values([np.array([1, 2]), np.array([1, 3]), np.array([4])], np.array([1.0, 0.0, 0.5]))]
    [[0.5, 0.5, 1.0], [0.5, 0.5, 0.0], [0.5, 0.5]]
    """
    lengths = [len(s) for s in sequences]
    entries = np.full((len(sequences), max(lengths)), -1, np.int64)
    for row, sequence in zip(entries, sequences, strict=True):
        row[: len(sequence)] = sequence
    values = np.repeat(np.asarray(rewards, np.float64)[:, None], max(lengths) + 1, axis=1)
    node = np.zeros(len(sequences), np.int64)  # equal numbers are equal prefixes
    for t in range(max(lengths) + 1):
        if t:
            node = np.unique(np.stack([node, entries[:, t - 1]], 1), axis=0, return_inverse=True)[1].reshape(-1)
        counts = np.bincount(node)
        values[:, t] = (np.bincount(node, values[:, -1]) / counts)[node]
        if len(counts) == len(sequences):
            break  # every later prefix belongs to one sequence
    return [row[: n + 1] for row, n in zip(values, lengths, strict=True)]


def after_prompt(context: Context) -> tuple[bytes, np.ndarray]:
    """Returns an identifier of the tokens before the first action, and the tokens from the first action on, int64.

    The first token of a picture or an array is replaced by a number from its hash.
    """
    first = int(context.action_positions[0]) if context.actions else len(context.sequence)
    tokens = context.sequence[first:].astype(np.int64)
    for place, _, _, digest in context.things:
        if place >= first:
            tokens[place - first] = -2 - int(digest[:12], 16)
    return context.beginning(first), tokens


def prefix_changes(contexts: Sequence[Sequence[Context]], rewards: np.ndarray) -> list[np.ndarray]:
    """Returns, for each trajectory of a group, the change of the prefix value at every action, [A]. Contexts with the same prompt share a tree.

    Args: `contexts`: the contexts of each trajectory; `rewards` [G], one per trajectory.
    """
    trees: dict[bytes, list[tuple[int, int, np.ndarray]]] = defaultdict(list)
    for i, own in enumerate(contexts):
        for k, context in enumerate(own):
            prompt, tokens = after_prompt(context)
            trees[prompt].append((i, k, tokens))
    found: dict[tuple[int, int], np.ndarray] = {}
    for tree in trees.values():
        values = prefix_values([tokens for _, _, tokens in tree], rewards[[i for i, _, _ in tree]])
        for (i, k, _), row in zip(tree, values, strict=True):
            places = contexts[i][k].action_positions
            found[i, k] = np.diff(row)[places - places[0]] if len(places) else np.zeros(0)
    return [np.concatenate([found[i, k] for k in range(len(own))]) for i, own in enumerate(contexts)]
