"""How many threads the processor's arithmetic uses."""

from __future__ import annotations

import os
from collections.abc import Mapping

SMALL = 8_000_000  # parameters


def threads_for(parameters: int, cores: int, environment: Mapping[str, str]) -> int | None:
    """One thread for a network below eight million parameters, else None: as PyTorch has it. What OMP_NUM_THREADS says goes first.

    The products of a small network are over before a second thread has joined, and on a machine that does anything else the threads wait for
    each other: measured with the built-in model, a run of 60 s with one thread took 280 s with two beside another process.
    """
    if "OMP_NUM_THREADS" in environment or parameters >= SMALL or cores < 2:
        return None
    return 1


def use_threads(parameters: int) -> None:
    """Sets PyTorch's threads for a network of so many parameters."""
    import torch

    chosen = threads_for(parameters, os.cpu_count() or 1, os.environ)
    if chosen is not None:
        torch.set_num_threads(chosen)
