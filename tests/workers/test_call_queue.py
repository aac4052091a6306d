import pytest

from gradus.types import Failed, FailureKind, UserError
from gradus.workers.call_queue import CallQueue, Limits, Question, overtime

LATE, DIED, WRONG = Failed("late", FailureKind.TIMEOUT), Failed("died", FailureKind.DIED), Failed("sent an invalid answer")


def asked(count, **limits):
    made = CallQueue([Question({"completions": [str(n)]}, 1) for n in range(count)], Limits(**limits))
    return made, [made.waiting.popleft() for _ in range(count)]


def test_the_first_of_a_lost_worker_s_calls_is_charged_and_the_others_are_asked_next():
    made, (first, *others) = asked(5, retries=1)
    made.settle(others.pop(), [1.0])
    made.lost([first, *others], DIED)
    assert list(made.waiting) == [1, 2, 3, 0]
    assert made.attempts == [1, 0, 0, 0, 0]
    made.waiting.clear()
    made.lost([0], DIED)
    assert made.answers[0] == Failed("died (2 attempts)", FailureKind.DIED)
    assert (made.open, made.losses) == (3, 2)


def test_while_nothing_answers_a_lost_call_is_asked_again_at_once_so_that_silence_is_known_soon():
    made, numbers = asked(20, retries=1)
    made.waiting.extend(numbers)
    for _ in range(16):
        made.lost([made.waiting.popleft()], LATE)
    assert made.attempts == [2] * 8 + [0] * 12
    made.give_up()
    assert made.open == 0
    assert made.answers[7] == Failed("late (2 attempts)", FailureKind.TIMEOUT)
    assert made.answers[8] == Failed(f"was not asked, because each of the calls before it {overtime(60.0)}", FailureKind.TIMEOUT)


def test_a_line_is_the_number_and_the_keywords_and_what_has_no_form_is_named():
    made = CallQueue([Question({"completions": ["a\nb"]}, 1), Question({"answer": [10**5000]}, 1, "problem p/3")], Limits())
    assert made.line(0) == b'0 {"completions": ["a\\nb"]}\n'
    with pytest.raises(UserError, match="a column of problem p/3 cannot be sent to the process of a reward function: Exceeds the limit"):
        made.line(1)


def test_what_is_not_by_chance_is_asked_once_and_what_is_not_charged_as_if_never():
    made, numbers = asked(2, retries=3)
    made.lost(numbers[:1], WRONG)
    assert (made.answers[0], list(made.waiting)) == (WRONG, [])
    made.lost(numbers[1:], LATE, charged=False)
    assert (made.attempts, list(made.waiting)) == ([1, 0], [1])


def test_nothing_is_given_up_once_one_call_was_answered():
    for answered in (False, True):
        made, numbers = asked(12, retries=0)
        if answered:
            made.settle(11, [1.0])
        for number in numbers[:8]:
            made.lost([number], LATE)
        made.waiting.extend(numbers[8:11])
        made.give_up()
        assert (made.answers[9] is not None) == (not answered)


def test_the_first_answer_stands():
    made, _ = asked(1)
    made.settle(0, [1.0])
    made.settle(0, LATE)
    assert (made.found, made.open) == ([[1.0]], 0)
