"""Samples jobs that share slots. The slots (`types.slots`) set the number of jobs that decode at the same time, and their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gradus.policies.jobs import Job, Sampled
from gradus.types.slots import Slots, order_of


def in_slots(jobs: Sequence[Job], slots: Sequence[Slots | None], draw: Callable[..., list[Sampled]]) -> list[Sampled]:
    """Returns the samples of all jobs, in the order of the jobs. Jobs share slots if their `slots` are equal except for the expected length.

    Args: slots: the slots of each job; None: no limit and no order; draw: `engine.generate` with the jobs and the options `rows` and `order`.
    """
    kinds = [None if s is None else replace(s, expected=0.0) for s in slots]
    found: dict[int, Sampled] = {}
    for kind in dict.fromkeys(kinds):
        mine = [i for i, k in enumerate(kinds) if k == kind]
        if kind is None:
            found.update(zip(mine, draw([jobs[i] for i in mine]), strict=True))
            continue
        order = order_of([s.expected for i in mine if (s := slots[i]) is not None], kind)
        size = kind.count if kind.order == "rounds" else len(mine)
        for first in range(0, len(mine), size):
            part = mine[first : first + size]
            places = order if size == len(mine) else range(len(part))
            found.update(zip(part, draw([jobs[i] for i in part], rows=kind.count, order=list(places)), strict=True))
    return [found[i] for i in range(len(jobs))]
