"""What computes for too long is interrupted; what awaits, or is done in time, is left alone."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

from gradus.runtime.time_limit import Interruptible, Late, interrupted

pytestmark = pytest.mark.alone


def spins() -> NoReturn:
    while True:
        pass


def test_a_block_that_computes_for_too_long_is_left_and_nothing_stays_behind() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with interrupted(60.0):
        pass
    with pytest.raises(Late), interrupted(0.1):
        spins()
    with pytest.raises(KeyError), interrupted(60.0):
        raise KeyError
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("instead", [None, ValueError("0"), StopIteration(3)])
def test_a_block_that_catches_its_interruption_is_late_all_the_same(instead: Exception | None) -> None:
    def judges() -> None:
        try:
            spins()
        except BaseException:
            if instead is not None:
                raise instead from None

    with pytest.raises(Late), interrupted(0.1):
        judges()


def test_time_that_is_up_before_the_block_begins_leaves_nothing_behind() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(Late), interrupted(1e-9):
        spins()
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_more_time_than_a_timer_takes_is_no_error() -> None:
    for seconds in (1e300, float("inf")):
        with interrupted(seconds):
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 1e6


def test_in_another_thread_nothing_is_interrupted() -> None:
    done: list[bool] = []

    def waits() -> None:
        with interrupted(0.01):
            time.sleep(0.1)
        done.append(True)

    thread = threading.Thread(target=waits)
    thread.start()
    thread.join()
    assert done == [True]


async def slowly(stretches: int) -> str:
    for _ in range(stretches):
        await asyncio.sleep(0.01)
    return "there"


async def hangs() -> str:
    await asyncio.sleep(0.01)
    spins()


def test_what_is_awaited_is_interrupted_where_it_computes() -> None:
    async def late() -> str:
        try:
            return await Interruptible(hangs(), 0.2)
        except Late:
            return "late"

    async def both() -> list[str]:
        return await asyncio.gather(late(), Interruptible(slowly(2), 60.0))

    assert asyncio.run(both()) == ["late", "there"]


def test_what_catches_its_interruption_and_answers_is_late() -> None:
    async def stubborn() -> str:
        try:
            return await hangs()
        except BaseException:
            return "there"

    async def outside() -> str:
        return await Interruptible(stubborn(), 0.1)

    with pytest.raises(Late):
        asyncio.run(outside())


def test_time_in_which_it_awaits_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    @contextmanager
    def noted(seconds: float) -> Iterator[None]:
        seen.append("computes")
        yield
        seen.append("awaits")

    async def outside() -> str:
        return await Interruptible(slowly(3), 5.0)

    monkeypatch.setattr("gradus.runtime.time_limit.interrupted", noted)
    assert asyncio.run(outside()) == "there"
    assert seen == ["computes", "awaits"] * 3 + ["computes"]


def test_what_is_thrown_in_reaches_what_is_awaited() -> None:
    seen: list[str] = []

    async def inside() -> str:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return ""

    async def outside() -> None:
        async with asyncio.timeout(0.05):
            await Interruptible(inside(), 60.0)

    with pytest.raises(TimeoutError):
        asyncio.run(outside())
    assert seen == ["cancelled"]
