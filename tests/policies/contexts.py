"""Contexts to evaluate, of random tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradus.types import Context, prompt_context

VOCAB = 97


def group(rng: np.random.Generator, count: int, prompt: int, low: int, high: int, **changes: Any) -> list[Context]:
    """`count` samples of low..high tokens each from one random prompt."""
    parent = prompt_context(rng.integers(3, VOCAB, prompt))
    return [sample(rng, (parent, prompt), int(rng.integers(low, high + 1)), **changes) for _ in range(count)]


def sample(rng: np.random.Generator, parent: tuple[Context, int] | None, length: int, **changes: Any) -> Context:
    chosen = changes.pop("chosen", np.ones(length, bool))
    return Context(tokens=rng.integers(3, VOCAB, length).astype(np.int32), chosen=chosen, parent=parent, **changes)


def alone(context: Context) -> Context:
    """The same sequence and actions as one context that inherits nothing."""
    chosen = np.concatenate([np.zeros(len(context.prefix), bool), context.chosen])
    return Context(tokens=context.sequence.copy(), chosen=chosen, temperature=context.temperature)


def mixed(rng: np.random.Generator) -> list[Context]:
    """Contexts of every shape at once: groups of different prompts, one action, tool tokens between, a fork of a sample, one alone."""
    first, second = group(rng, 4, 7, 1, 12), group(rng, 3, 19, 5, 6, temperature=0.7)
    turns = np.array([True] * 3 + [False] * 4 + [True] * 2 + [False])
    talk = [sample(rng, first[0].parent, 10, chosen=turns)]
    forks = [sample(rng, (first[3], len(first[3].sequence) - 1), n) for n in (1, 4)]
    prompt = prompt_context(rng.integers(3, VOCAB, 5))
    silent = sample(rng, (prompt, 5), 3, chosen=np.zeros(3, bool))
    return [first[0], *second, silent, *talk, *first[1:], alone(group(rng, 1, 4, 9, 9)[0]), *forks]
