"""The seconds of a worker's activities: by hand with a clock that a test sets, and properties under threads and tasks."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.runtime.activity import (
    EVALUATING,
    FOR_REQUESTS,
    JUDGING,
    OTHER,
    SAMPLING,
    SCORING,
    UPDATING,
    Activity,
    carried,
    counted,
    doing,
    during,
    part,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def activity(clock: Clock) -> Activity:
    return Activity(clock)


def test_seconds_by_hand(activity, clock):
    with activity.on("trainer"):
        clock.now = 1.0
        with doing(SAMPLING):
            clock.now = 3.0
            with doing(SCORING):
                clock.now = 3.5
            clock.now = 4.0
            assert activity.present() == {"trainer": (SAMPLING, 0.5)}
    clock.now = 6.0
    assert activity.seconds() == {"trainer": {OTHER: 1.0, SAMPLING: 2.5, SCORING: 0.5, FOR_REQUESTS: 2.0}}


def test_the_activity_that_began_last_counts_and_any_may_end_first(activity, clock):
    with activity.on("w"):
        first = activity.begin("w", JUDGING)
        clock.now = 1.0
        second = activity.begin("w", SAMPLING)
        clock.now = 2.0
        activity.end("w", first)  # the judge answers while a sample is drawn
        clock.now = 4.0
        activity.end("w", second)
        clock.now = 5.0
        assert activity.seconds()["w"] == {JUDGING: 1.0, SAMPLING: 3.0, OTHER: 1.0}


@given(st.lists(st.tuples(st.sampled_from(["begin", "end"]), st.integers(0, 3), st.floats(0.0, 5.0)), max_size=30))
def test_the_seconds_of_a_worker_add_up_to_its_time(events):
    clock = Clock()
    activity, open_ = Activity(clock), []
    with activity.on("w"):
        for kind, index, passed in events:
            clock.now += passed
            if kind == "begin":
                open_.append(activity.begin("w", f"a{index}"))
            elif open_:
                activity.end("w", open_.pop(index % len(open_)))
    assert sum(activity.seconds()["w"].values()) == pytest.approx(clock.now)


@pytest.mark.parametrize("whole", [JUDGING, EVALUATING])
def test_what_a_judge_or_an_evaluation_does_is_its_own(activity, clock, whole):
    with activity.on("w"), doing(whole):
        with doing(SAMPLING):
            clock.now = 2.0
            counted("probe", 7)
        counted("score", 5)
    assert activity.seconds()["w"] == {whole: 2.0}
    assert activity.tokens == {whole: 12}


def test_tokens_by_purpose(activity):
    with activity.on("w"):
        for purpose, tokens in (("rollout", 1), ("probe", 2), ("train", 4), ("score", 8), ("agreement", 16)):
            counted(purpose, tokens)
    assert activity.tokens == {SAMPLING: 3, UPDATING: 4, SCORING: 24}


def test_outside_of_a_worker_nothing_is_counted(activity):
    with doing(SAMPLING), part("prefill"):
        counted("rollout", 3)
    assert not activity.workers
    assert not activity.tokens


def test_parts_count_only_if_they_are_measured(activity, clock):
    for measured in (False, True):
        activity.parts = measured
        with activity.on("w"), doing(SAMPLING):
            with part("prefill"):
                clock.now += 1.0
            clock.now += 2.0
    assert activity.seconds()["w"] == {SAMPLING: 5.0, "sampling/prefill": 1.0}


def test_tasks_keep_their_worker_and_a_thread_gets_it():
    activity = Activity()

    async def work(name):
        with activity.on(name):
            await asyncio.sleep(0)

            @during(JUDGING)
            async def judge(inner):
                await asyncio.sleep(0)
                return await asyncio.get_running_loop().run_in_executor(pool, carried(lambda: inner + 1))

            def drawn():
                with doing(SAMPLING):
                    return threading.current_thread().name

            await asyncio.get_running_loop().run_in_executor(pool, carried(drawn))
            before = dict(activity.workers[name].seconds)
            await asyncio.get_running_loop().run_in_executor(pool, drawn)  # without its worker
            assert activity.workers[name].seconds.get(SAMPLING) == before.get(SAMPLING)
            return await judge(1)

    async def both():
        return await asyncio.gather(work("a"), work("b"))

    with ThreadPoolExecutor(1) as pool:
        found = asyncio.run(both())
    assert found == [2, 2]
    seconds = activity.seconds()
    assert {name: {what for what, value in mine.items() if value > 0} >= {SAMPLING, JUDGING} for name, mine in seconds.items()} == {"a": True, "b": True}
    assert all(worker.open == [] for worker in activity.workers.values())


def test_an_error_ends_the_activity(activity, clock):
    with pytest.raises(ValueError, match="no"), activity.on("w"), doing(SAMPLING):
        raise ValueError("no")
    assert activity.workers["w"].open == []
    assert activity.present()["w"][0] == FOR_REQUESTS


def test_the_growth_since_the_last_row(activity, clock):
    with activity.on("w"):
        with doing(SAMPLING):
            clock.now = 2.0
            counted("rollout", 10)
        activity.aged([0, 1.0, 1])
        assert activity.taken() == {"seconds": {"w": {SAMPLING: 2.0}}, "tokens": {SAMPLING: 10}, "ages": {0: 1, 1: 2}}
        clock.now = 3.0
        activity.aged([1])
        assert activity.taken() == {"seconds": {"w": {OTHER: 1.0}}, "tokens": {}, "ages": {1: 1}}


def test_a_change_waits_until_the_work_is_done(activity, clock):
    """As on a GPU: the time of work that was begun counts for the activity that began it."""
    left = [0.0]

    def settled():
        clock.now += left[0]
        left[0] = 0.0

    activity.settled = settled
    with activity.on("w"):
        with doing(SAMPLING):
            left[0] = 3.0
        with doing(UPDATING):
            left[0] = 1.0
    assert activity.seconds()["w"] == {SAMPLING: 3.0, UPDATING: 1.0}
