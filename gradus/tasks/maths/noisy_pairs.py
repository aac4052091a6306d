"""The task noisy_pairs: pairs of a worked sum and a wrong guess. In a given share of the training pairs, the sum and the guess are swapped."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any

from gradus.tasks.generated import Draft, Generated, Make
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.types import Frozen, UserError
from gradus.types.parts import Task

_OFF = (1, 2, 3, 9, 10, 11, 20)  # distances of a wrong guess from the answer


def noisy_pairs(level: int = 2, swapped: float = 0.3, pairs: int | None = None) -> Task:
    """Makes a task of arithmetic whose problems have two answers: `chosen`, the worked columns, and `rejected`, a wrong number without steps.

    swapped: share of the training pairs in which `chosen` and `rejected` are exchanged; held-out pairs are never exchanged. pairs: number of
    training pairs; None: no limit. Raises: UserError for a share outside [0, 1], and for fewer than one pair.
    """
    if not 0 <= swapped <= 1:
        raise UserError(f"task noisy_pairs: `swapped` is {swapped}; give a share, a number from 0 to 1")
    if pairs is not None and pairs < 1:
        raise UserError(f"task noisy_pairs: `pairs` is {pairs}; give 1 or more, or none for an endless set")
    task = arithmetic(level)
    assert isinstance(task.source, Generated)
    source = replace(task.source, make=partial(_paired, make=task.source.make, swapped=swapped), size=pairs)
    return replace(
        task,
        name="noisy_pairs",
        source=source,
        held_out=replace(source, make=partial(_paired, make=task.source.make, swapped=0.0), held_out=True, size=None),
        provides=frozenset({*task.provides, "chosen", "rejected"}),
        about='pairs "7+5=12 4+8+1=13 =137" and "=138" for a sum; a share `swapped` of the pairs is swapped in training; level: digits',
    )


def _paired(rng: random.Random, level: Any, *, make: Make, swapped: float) -> Draft:
    draft = make(rng, level)
    off = rng.choice([d for sign in (1, -1) for d in (sign * n for n in _OFF) if draft.answer + d >= 0])
    pair = (draft.solution, f"={draft.answer + off}")
    chosen, rejected = pair[::-1] if rng.random() < swapped else pair
    return replace(draft, meta=Frozen({**draft.meta, "chosen": chosen, "rejected": rejected, "swapped": chosen != draft.solution}))
