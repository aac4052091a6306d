"""The global random generators of Python and NumPy, lent to a package that draws from them. Each episode or problem has its own state of these generators."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class PrivateRandom:
    """Private states of the two global generators, made from one seed.

    `lent()` puts these states into the generators for a `with` block. At the end of the block, `lent()` keeps the new states for the next time, and restores
    the states that the generators had before the block. So the rest of the process sees no change. The block must not await.
    """

    def __init__(self, seed: int) -> None:
        self._python = random.Random(seed).getstate()
        self._numpy = np.random.RandomState(seed % 2**32).get_state()

    @contextmanager
    def lent(self) -> Iterator[None]:
        python, numpy = random.getstate(), np.random.get_state()
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        try:
            yield
        finally:
            self._python, self._numpy = random.getstate(), np.random.get_state()
            random.setstate(python)
            np.random.set_state(numpy)
