"""The rules of a system, by hand."""

from __future__ import annotations

from gradus.training.admission import admitted_until, dealt, due, first_finished, newest_finished, next_request, stale_of, too_old


def test_requests_of_later_steps_up_to_the_end_of_the_run():
    assert [admitted_until(step, 2, 5) for step in (0, 3, 4, 5)] == [2, 5, 5, 5]
    assert admitted_until(4, 2, None) == 6


def test_weights_are_published_at_the_start_and_every_few_steps_once():
    published, found = None, []
    for step in (3, 4, 4, 5, 6):
        if due(step, published, 2):
            published = step
            found.append(step)
    assert found == [3, 4, 6]


def test_a_group_of_the_largest_age_is_not_too_old():
    assert [too_old(version, 5, 2) for version in (2, 3, 5)] == [True, False, False]
    assert stale_of({9: 2, 1: 3, 4: 1}, 5, 2) == [9, 4]


def test_an_idle_worker_takes_the_first_free_request_then_a_late_one():
    running = {1: (10.0, 1), 2: (10.0, 2), 3: (5.0, 1), 0: (12.0, 1)}
    assert next_request([7, 5], running, 11.0) == 5
    assert next_request([], running, None) is None
    assert next_request([], running, 10.0) == 1  # 2 has a second worker already, 0 is not late
    assert next_request([], running, 9.0) == 3
    assert next_request([], running, 4.0) is None


def test_the_first_finished_groups_in_the_order_of_their_requests():
    done = {5: "a", 1: "b", 3: "c"}
    assert first_finished(done, 2) == [1, 5]
    assert first_finished(done, 3) == [1, 3, 5]
    assert first_finished(done, 4) is None
    assert first_finished({}, 0) == []


def test_requests_are_dealt_in_proportion_to_the_speeds():
    workers = dealt(700, [0.0] * 3, [1.0, 2.0, 4.0])
    assert [workers.count(worker) for worker in range(3)] == [400, 200, 100]
    assert dealt(7, [0.0] * 3, [1.0, 2.0, 4.0]) == [0, 0, 1, 0, 0, 1, 2]  # ends 1 2 2 3 4 4 4; of equal ends the first worker


def test_a_request_waits_for_a_fast_worker_that_will_finish_it_first():
    assert dealt(1, [1.5, 0.0], [1.0, 4.0]) == [0]  # 2.5 seconds against 4
    assert dealt(1, [3.5, 0.0], [1.0, 4.0]) == [1]  # 4.5 against 4
    assert dealt(0, [0.0], [1.0]) == []


def test_the_last_end_is_never_later_than_with_equal_shares():
    for free_in, seconds in (([0.0, 0.3], [1.0, 5.0]), ([2.0, 0.0, 0.0], [0.5, 3.0, 1.0])):
        workers = dealt(9, free_in, seconds)
        ends = [start + workers.count(w) * each for w, (start, each) in enumerate(zip(free_in, seconds, strict=True))]
        plain = [start + len(range(w, 9, len(seconds))) * each for w, (start, each) in enumerate(zip(free_in, seconds, strict=True))]
        assert max(ends) < max(plain)


def test_the_newest_finished_groups_in_the_order_of_their_requests():
    versions = {5: 1, 1: 2, 3: 1, 9: 2}
    assert newest_finished(versions, 2) == [1, 9]
    assert newest_finished(versions, 3) == [1, 5, 9]  # 5 finished before 3
    assert newest_finished(versions, 5) is None
