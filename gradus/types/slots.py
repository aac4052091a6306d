"""Slots limit the number of answers that decode at the same time. Slots also set the order in which waiting answers begin.

Time is counted in decoding steps; in a step, every busy slot gets one token. A slot whose answer ends begins the next waiting answer in the next step.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gradus.types.errors import UserError, unknown
from gradus.types.ranges import check_ranges

Order = Literal["rounds", "given", "longest", "shortest", "assigned"]
ORDERS: tuple[Order, ...] = ("rounds", "given", "longest", "shortest", "assigned")
MOST_CASES = 200_000
"""The largest number of cases of `assigned`."""


@dataclass(frozen=True)
class Slots:
    """The value of `Request.how` for answers that share slots. The samples have the same bytes with every `count`, `order` and `expected`.

    The orders: `given` is the order of the requests. `longest` and `shortest` sort by the expected length. `assigned` sorts by the start times in the plan of
    the function `assigned`. `rounds` is the order of the requests, but the next `count` answers begin only after the end of all earlier answers.
    """

    count: int = 8  # answers that decode at the same time
    order: Order = "shortest"
    eps: float = 0.1  # accuracy of the plan of `assigned`: its largest sum of lengths is at most (1 + eps) times the least possible sum
    expected: float = 0.0  # expected new tokens of an answer to this request

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)", eps="(0, inf)", expected="[0, inf)")
        if self.order not in ORDERS:
            raise unknown("order", self.order, ORDERS)


def order_of(expected: Sequence[float], slots: Slots) -> list[int]:
    """Returns the numbers of the answers in the order in which they take slots. Answers with equal expected lengths stay in the given order."""
    numbers = list(range(len(expected)))
    if slots.order in ("given", "rounds"):
        return numbers
    if slots.order == "assigned":
        begins = _begins(expected, assigned(expected, slots.count, slots.eps))
        return sorted(numbers, key=lambda i: (begins[i], i))
    sign = -1 if slots.order == "longest" else 1
    return sorted(numbers, key=lambda i: (sign * expected[i], i))


def ends(lengths: Sequence[int], count: int) -> list[int]:
    """Returns the decoding step at which each answer ends. The answers take the slots in the given order. `lengths`: tokens of each answer."""
    free = [0] * count
    found = []
    for length in lengths:
        found.append(heapq.heappop(free) + length)
        heapq.heappush(free, found[-1])
    return found


def ends_of_rounds(lengths: Sequence[int], count: int) -> list[int]:
    """Returns the decoding step at which each answer ends, for answers in rounds: `count` answers begin together, and the next round begins when all of them
    have ended."""
    found: list[int] = []
    for first in range(0, len(lengths), count):
        begin = max(found, default=0)
        found += [begin + length for length in lengths[first : first + count]]
    return found


def peak_tokens(lengths: Sequence[int], finished: Sequence[int], prompts: Sequence[int] = (), of: Sequence[int] = ()) -> int:
    """Returns the largest number of tokens that are in the caches at the same time. An answer of length n that ends at step e has k tokens in the caches at
    the end of step e - n + k. After step e it has no tokens there. A prompt is in the caches once, while at least one of its answers decodes. Args: lengths,
    finished:
    tokens and last step of each answer; prompts: tokens of each prompt; of: the prompt of each answer.
    """
    most = 0
    for now in set(finished):
        live = [i for i, (n, e) in enumerate(zip(lengths, finished, strict=True)) if e - n < now <= e]
        shared = {of[i] for i in live} if len(of) else set()
        most = max(most, sum(now - finished[i] + lengths[i] for i in live) + sum(prompts[p] for p in shared))
    return most


def assigned(lengths: Sequence[float], count: int, eps: float) -> list[int]:
    """Returns a slot for each answer. The sum of a slot is the sum of the lengths of its answers. The largest sum is at most (1 + eps) times the least
    possible largest sum.

    Lengths are rounded up to multiples of eps * max(lengths) / n, so the sum of a slot grows by at most eps * max(lengths). For rounded lengths the result is
    exact. The
    reason is that the method keeps every reachable combination of the slots' sums, except the combinations that are worse than the plan "longest answer
    first".

    Raises: UserError if there are more than `MOST_CASES` combinations. The number of combinations grows exponentially with the number of slots.
    """
    if not lengths or max(lengths) == 0:
        return [i % count for i in range(len(lengths))]
    unit = eps * max(lengths) / len(lengths)
    sizes = [-int(-length // unit) for length in lengths]
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    bound = max(ends([sizes[i] for i in order], count))
    plans: dict[tuple[int, ...], tuple[int, ...]] = {(0,) * count: ()}  # ascending sums of the slots -> per answer, the rank of its slot before it
    for i in order:
        found: dict[tuple[int, ...], tuple[int, ...]] = {}
        for sums, places in plans.items():
            for place in range(count):
                if sums[place] + sizes[i] <= bound and (place == 0 or sums[place] != sums[place - 1]):
                    after = tuple(sorted([*sums[:place], sums[place] + sizes[i], *sums[place + 1 :]]))
                    found.setdefault(after, (*places, place))
        if len(found) > MOST_CASES:
            raise UserError(
                f"Slots: the plan of {len(lengths)} answers for {count} slots has more than {MOST_CASES:,} cases; raise `eps` "
                f"(now {eps:g}), or set `order` to 'longest', which gives a largest sum of at most 4/3 of the optimum"
            )
        plans = found
    return _slots_of(plans[min(plans, key=max)], order, sizes, count)


def _slots_of(places: Sequence[int], order: Sequence[int], sizes: Sequence[int], count: int) -> list[int]:
    """Returns the slot of each answer. `places`: for each answer in this order, the rank of its slot; the slots are ranked by their sums."""
    sums, result = [(0, slot) for slot in range(count)], [0] * len(order)
    for i, place in zip(order, places, strict=True):
        total, slot = sums.pop(place)
        result[i] = slot
        sums = sorted([*sums, (total + sizes[i], slot)])
    return result


def _begins(lengths: Sequence[float], slots: Sequence[int]) -> list[float]:
    """Returns the time at which each answer begins, if each slot decodes its longest answer first."""
    times: dict[int, float] = {}
    result = [0.0] * len(lengths)
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        result[i] = times.get(slots[i], 0.0)
        times[slots[i]] = result[i] + lengths[i]
    return result
