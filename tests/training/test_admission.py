"""The rules of a system, by hand."""

from __future__ import annotations

from gradus.training.admission import admitted_until, due, first_finished, next_request, stale_of, too_old


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
