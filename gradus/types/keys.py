"""Keyed draws: every random number is a function of a path such as (seed, purpose, step, problem, sample) and a position.

There is no generator with a state. So no draw depends on the batch, the order or an interruption of the run, and a run saves no generator.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

T = TypeVar("T")
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64, elementwise on uint64: a bijection whose output bits look random (Steele et al., OOPSLA 2014)."""
    x = x.astype(np.uint64, copy=True)
    with np.errstate(over="ignore"):
        x += _GOLDEN
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def uniforms(keys: np.ndarray | np.uint64, positions: np.ndarray) -> np.ndarray:
    """Draws one number in [0, 1) per pair of a key (uint64) and a position (integer). The numbers are float64 with 53 random bits. The shapes of both arguments
    broadcast."""
    bits = mix(mix(np.asarray(keys, dtype=np.uint64)) ^ mix(np.asarray(positions).astype(np.uint64)))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class Key:
    """A key of random draws. `fold` gives the key of a sub-path; the other methods draw numbers. Equal paths give equal draws on every machine."""

    value: int = 0

    def fold(self, *path: str | int) -> Key:
        """The key of a sub-path. The key depends on the order and the types of the path's elements. A NumPy scalar gives the same key as its Python
        value."""
        digest = hashlib.blake2b(self.value.to_bytes(8, "little"), digest_size=8)
        for part in path:
            part = part.item() if isinstance(part, np.generic) else part
            text = f"{type(part).__name__}:{part}".encode()
            digest.update(len(text).to_bytes(4, "little") + text)
        return Key(int.from_bytes(digest.digest(), "little"))

    def uniform(self, *shape: int) -> np.ndarray:
        """Numbers in [0, 1), float64, of the given shape."""
        count = int(np.prod(shape)) if shape else 1
        return uniforms(np.uint64(self.value), np.arange(count)).reshape(shape)

    def normal(self, *shape: int) -> np.ndarray:
        """Standard normal numbers, float64 (Box-Muller)."""
        u = self.uniform(2, *shape)
        return np.sqrt(-2.0 * np.log1p(-u[0])) * np.cos(2.0 * np.pi * u[1])

    def permutation(self, n: int) -> np.ndarray:
        """A permutation of 0..n-1."""
        return np.argsort(mix(np.arange(n).astype(np.uint64) ^ mix(np.array([self.value], dtype=np.uint64))), kind="stable")

    def random(self) -> random.Random:
        """A new `random.Random` for code that needs a generator (problem generators). Do not share or store this generator."""
        return random.Random(self.value)

    def choice(self, items: Sequence[T]) -> T:
        """Draws one of the items. All items have the same probability."""
        return items[int(self.uniform()[()] * len(items))]
